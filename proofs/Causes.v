(** Theorem 15 of docs/guarantee.md: the causes learner, monitor, evidence and draw together, on the one gate.

    How it corresponds. The gate is that of Gate.v. The monitor's loss of a row is that of Effect.v for the causes that
    are published, at the costs [al] and [be] of the check; the draw is that of CausesDraw.v; the counts are those of
    Evidence.v. The causes change at draws only. Everything public (published causes, costs, weights, rates, priors,
    margins in [bar], known changes, thresholds, ages, scales) is a function of the history, which holds the counts
    that were released: so a margin, or a rate to beat, may be read from the evidence.
    Theorem_15: for one replaced row (e_v + eps, delta/(1 + delta)), where eps bounds what a row that leaves the loss
    alone costs the draw ([quiet]), and what monitor and draw cost together for one that does not ([loud]).
    Theorem_15_terms: what CausesMechanism checks of each epoch, costs and weights of their own: max(2s, e + (1 + c0) s).
    Theorem_15_table: no monitor. Rows may be chosen on the way, for both worlds; two given streams are the case of
    [fixed] (Gate.v). Left out: that no smaller numbers will do. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor Tree Gate Compare Effect CausesDraw Evidence.
Import ListNotations.
Open Scope R_scope.

Section Causes.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation change := (change pattern outcome).
Notation history := (list (event (V := list Z) (K := change))).

Variable lowers : list pattern -> key -> bool.
Variable plan : schedule (V := list Z) (K := change).
Variable pub : history -> public pattern outcome.
Variables al be : history -> Z.
Variable cells : history -> list (option key * option outcome).
Variable counted : history -> list key.
Variables e_v noise_scale delta eps : R.

Hypothesis delta_nonneg : 0 <= delta.
Hypothesis eps_nonneg : 0 <= eps.
Hypothesis e_v_pos : 0 < e_v.
Hypothesis evidence_scale : 2 / e_v <= noise_scale.
Hypothesis distinct : forall h, NoDup (cells h).
Hypothesis public_ok : forall h, proper (pub h).
Hypothesis costs_nonneg : forall h, (0 <= al h)%Z /\ (0 <= be h)%Z.
Hypothesis at_draws : forall h a, next plan h <> Draw -> published (pub (a :: h)) = published (pub h).

Notation A h := (positive (pub h)).
Notation B h := (negative (pub h)).

(** The joint inequality, of public numbers only. *)
Hypothesis quiet : forall h, next plan h = Draw -> rate (pub h) * IZR (2 * Z.max (A h) (B h)) <= eps.
Hypothesis loud : forall g h, next plan g = Check -> open plan Draw g h -> next plan h = Draw ->
  IZR (Z.max (al g) (be g)) / current plan g + rate (pub h) * IZR (A h + B h) <= eps.
Hypothesis alone : forall g, next plan g = Check -> IZR (Z.max (al g) (be g)) / current plan g <= eps.

Definition row_loss (h : history) (x : row) : Z := loss (effect_of (A h) (B h) (al h) (be h) (published (pub h)) x).

Definition causes_counts (h : history) (u : list (list row)) : list Z -> R :=
  counts_of (fun x => cell (effect_of (A h) (B h) (al h) (be h) (counted h) x)) (cells h) noise_scale (concat u).

Definition causes_draw (h : history) (u : list (list row)) : option change -> R :=
  draw lowers delta (pub h) (al h) (be h) (concat u).

Definition causes_gate : (history -> list row) -> nat -> list event -> R :=
  gate plan one_sided (fun h rows => total_of (row_loss h) rows) causes_counts causes_draw.

(** What is asked of rows: a set of patterns, whose priors sum to at most 1. *)
Definition good_stream (rows : history -> list row) : Prop :=
  forall g h, Forall (fun x => lists_a_set x /\ within_prior (pub h) x) (rows g).

Lemma published_open g h : open plan Draw g h -> published (pub h) = published (pub g).
Proof.
  intros Op. induction Op as [a W|a h Op IH N].
  - apply at_draws. congruence.
  - rewrite <- IH. now apply at_draws.
Qed.

Lemma since_good rows t h' h : good_stream rows ->
  Forall (fun x => lists_a_set x /\ within_prior (pub h') x) (concat (since plan t rows h)).
Proof.
  intros G. induction h as [|a g IH]; simpl; [constructor|].
  destruct (is_task plan t g); [constructor|]. destruct (is_task plan Check g); auto.
  simpl. apply Forall_app. auto.
Qed.

(** The loss of a row does not depend on the weights of the draw. *)
Lemma loss_weights a b a' b' c d (P : list key) (x : row) : loss (effect_of a b c d P x) = loss (effect_of a' b' c d P x).
Proof. destruct x as [|patterns [y|]]; cbn [effect_of]; try destruct (matching P patterns); reflexivity. Qed.

Lemma one_row_concat (rows : list row) pre post u before after x :
  u = before ++ x :: after -> rows = concat (pre ++ u :: post) ->
  rows = (concat pre ++ before) ++ x :: (after ++ concat post).
Proof. intros -> ->. rewrite concat_app. simpl. rewrite <- !app_assoc. reflexivity. Qed.

Theorem Theorem_15 rows rows' touched n : good_stream rows -> good_stream rows' -> one_check rows rows' touched ->
  (forall g, touched g = true -> one_row (rows g) (rows' g)) ->
  is_law (causes_gate rows n) /\ close (e_v + eps) (delta / (1 + delta)) (causes_gate rows n) (causes_gate rows' n).
Proof.
  intros Good Good' Once Row1.
  assert (0 <= delta / (1 + delta)) as D by (apply Rmult_le_pos; auto; left; apply Rinv_0_lt_compat; lra).
  assert (0 < 2 / e_v) as Ev by (apply Rdiv_lt_0_compat; lra).
  set (sigma := fun g => IZR (Z.abs (total_of (row_loss g) (rows' g) - total_of (row_loss g) (rows g))) / current plan g).
  assert (forall g, 0 < current plan g) as Pos.
  { intros g. induction g as [|a g IH]; simpl; [apply scale_pos|]. unfold fresh_at. destruct (_ || _); auto. apply scale_pos. }
  assert (forall g before after x y, rows g = before ++ x :: after -> rows' g = before ++ y :: after ->
    (total_of (row_loss g) (rows' g) - total_of (row_loss g) (rows g) = row_loss g y - row_loss g x)%Z /\
    (Z.abs (row_loss g y - row_loss g x) <= Z.max (al g) (be g))%Z) as Moved.
  { intros g before after x y R R'. rewrite R, R', !total_app. simpl.
    pose proof (Good g g) as Gx. pose proof (Good' g g) as Gy. rewrite R in Gx. rewrite R' in Gy.
    apply Forall_elt in Gx, Gy. destruct (public_ok g) as [PA PB _ _ _ _ _ _]. pose proof (costs_nonneg g).
    destruct (row_effects (A g) (B g) (al g) (be g) lowers (published (pub g)) ltac:(tauto) x y None None) as [S _];
      try tauto. split; [lia|exact S]. }
  apply Gate_event with (touched := touched) (levy := e_v) (fee := fun g => Rmax 0 (eps - sigma g)); try assumption; try lra.
  - intros s S. now apply Lemma_1_one_sided.
  - intros h u. apply noisy_law, laplace_law. lra.
  - intros h u. apply draw_law; auto.
  - intros g. apply Rmax_l.
  - intros g T W. fold (sigma g). destruct (Row1 g T) as (before & after & x & y & R & R').
    destruct (Moved g before after x y R R') as [E Le]. apply IZR_le in Le.
    assert (sigma g <= eps); [|unfold Rmax; destruct (Rle_dec _ _); lra].
    eapply Rle_trans; [|apply (alone g W)]. unfold sigma. rewrite E. apply Rmult_le_compat_r; auto.
    left. now apply Rinv_0_lt_compat.
  - intros g h pre post T _ _ _ _. destruct (Row1 g T) as (before & after & x & y & R & R'). unfold causes_counts.
    rewrite (one_row_concat _ pre post _ before after x R eq_refl), (one_row_concat _ pre post _ before after y R' eq_refl).
    now apply counts_close.
  - intros g h pre post T Op W Since Since'. destruct (Row1 g T) as (before & after & x & y & R & R').
    pose proof (since_good rows Draw h h Good) as Gx. pose proof (since_good rows' Draw h h Good') as Gy.
    rewrite Since in Gx. rewrite Since' in Gy. unfold causes_draw.
    rewrite (one_row_concat _ pre post _ before after x R eq_refl) in *.
    rewrite (one_row_concat _ pre post _ before after y R' eq_refl) in *.
    set (before' := concat pre ++ before) in *. set (after' := after ++ concat post) in *.
    assert (next plan g = Check) as Wg by (clear - Op; induction Op; auto).
    destruct (public_ok h) as [PA PB Pr _ _ _ _ _].
    assert (close (rate (pub h) * IZR (swing (pub h) (al g) (be g) x y)) (delta / (1 + delta))
      (draw lowers delta (pub h) (al g) (be g) (before' ++ x :: after'))
      (draw lowers delta (pub h) (al g) (be g) (before' ++ y :: after'))) as C.
    { apply causes_draw_close; auto.
      - eapply Forall_impl; [|apply Gx]. now intros z [one _]. - eapply Forall_impl; [|apply Gy]. now intros z [one _].
      - apply Forall_elt in Gx. tauto. - apply Forall_elt in Gy. tauto. }
    apply close_ext with (draw lowers delta (pub h) (al g) (be g) (before' ++ x :: after'))
      (draw lowers delta (pub h) (al g) (be g) (before' ++ y :: after')); try (intros m; apply draw_costs).
    destruct (draw_law lowers delta delta_nonneg (pub h) (public_ok h) (al g) (be g) (before' ++ y :: after')) as (P & Sm & _).
    refine (close_weaken _ _ _ _ _ _ P Sm _ (Rle_refl _) C).
    destruct (Moved g before after x y R R') as [E Le]. unfold sigma. rewrite E. unfold swing.
    rewrite (loss_weights (A h) (B h) (A g) (B g)), (loss_weights (A h) (B h) (A g) (B g) (al g) (be g) _ x),
      (published_open g h Op). fold (row_loss g y) (row_loss g x).
    eapply Rle_trans; [|apply Rmax_r]. destruct (Z.eq_dec (row_loss g y) (row_loss g x)) as [->|Other].
    + rewrite Z.sub_diag. simpl Z.abs. specialize (quiet h W). unfold Rdiv. rewrite Rmult_0_l. lra.
    + specialize (loud g h Wg Op W). apply IZR_le in Le.
      apply (Rmult_le_compat_r (/ current plan g)) in Le; [|left; now apply Rinv_0_lt_compat]. unfold Rdiv in *. lra.
Qed.

End Causes.

(** The terms of each epoch, all functions of the history: the monitor's epsilon [e], the rate [s] and [swing], which is
    1 + c0. A whole weight has [units]; no cost and no weight exceeds it, and the two weights of a draw have at most swing
    together. [e g] is that of the noise which runs at the check [g]; costs and weights are otherwise not related. *)
Corollary Theorem_15_terms {pattern outcome} `{EqDec pattern} `{EqDec outcome}
    (lowers : list pattern -> key pattern outcome -> bool) plan pub al be cells counted (units : Z) e s swing
    (eps delta e_v noise_scale : R)
    (rows rows' : list (event (V := list Z) (K := change pattern outcome)) -> list (row pattern outcome)) touched n :
  (0 < units)%Z -> 0 <= eps -> 0 <= delta -> 0 < e_v -> 2 / e_v <= noise_scale ->
  (forall h, 0 < e h /\ 0 <= s h) ->
  (forall h, (0 <= al h <= units)%Z /\ (0 <= be h <= units)%Z) ->
  (forall h, next plan h = Check -> IZR units / e h <= current plan h) ->
  (forall h, (positive (pub h) <= units)%Z /\ (negative (pub h) <= units)%Z /\
    IZR (positive (pub h) + negative (pub h)) <= swing h * IZR units /\ rate (pub h) = s h / IZR units) ->
  (forall h, next plan h = Check -> e h <= eps) ->
  (forall h, next plan h = Draw -> 2 * s h <= eps) ->
  (forall g h, next plan g = Check -> open plan Draw g h -> next plan h = Draw -> e g + swing h * s h <= eps) ->
  (forall h, NoDup (cells h)) -> (forall h, proper (pub h)) ->
  (forall h a, next plan h <> Draw -> published (pub (a :: h)) = published (pub h)) ->
  good_stream pub rows -> good_stream pub rows' -> one_check rows rows' touched ->
  (forall g, touched g = true -> one_row (rows g) (rows' g)) ->
  let causes := causes_gate lowers plan pub al be cells counted noise_scale delta in
  is_law (causes rows n) /\ close (e_v + eps) (delta / (1 + delta)) (causes rows n) (causes rows' n).
Proof.
  intros M Eps D Ev Sc Pos Costs Scales Weights Alone Quiet Loud Distinct Proper AtDraws G G' Once Row1 causes.
  assert (0 < IZR units) as Mr by now apply (IZR_lt 0).
  assert (forall x, (0 <= x <= units)%Z -> forall h, next plan h = Check -> IZR x / current plan h <= e h) as Monitor.
  { intros x X h W. destruct (Pos h) as [E _]. specialize (Scales h W).
    assert (0 < IZR units / e h) by now apply Rdiv_lt_0_compat.
    apply (Rmult_le_reg_r (current plan h)); [lra|]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    apply Rle_trans with (IZR units); [apply IZR_le; lia|].
    apply Rle_trans with (e h * (IZR units / e h)); [right; field; lra|]. apply Rmult_le_compat_l; lra. }
  assert (forall h, next plan h = Check -> IZR (Z.max (al h) (be h)) / current plan h <= e h) as Watched.
  { intros h W. apply Monitor; trivial. specialize (Costs h). lia. }
  refine (Theorem_15 lowers plan pub al be cells counted e_v noise_scale delta eps D Eps Ev Sc Distinct Proper _ AtDraws
    _ _ _ rows rows' touched n G G' Once Row1).
  - intros h. specialize (Costs h). lia.
  - intros h W. destruct (Weights h) as (PA & PB & _ & ->). destruct (Pos h) as [_ S].
    eapply Rle_trans; [|apply (Quiet h W)].
    assert (IZR (2 * Z.max (positive (pub h)) (negative (pub h))) <= IZR (2 * units)) as Le by (apply IZR_le; lia).
    apply (Rmult_le_compat_l (s h / IZR units)) in Le.
    + eapply Rle_trans; [exact Le|]. rewrite mult_IZR. right. field. lra.
    + apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat].
  - intros g h W Op W'. destruct (Weights h) as (_ & _ & Both & ->). destruct (Pos h) as [_ S].
    eapply Rle_trans; [|apply (Loud g h W Op W')]. specialize (Watched g W).
    apply (Rmult_le_compat_l (s h / IZR units)) in Both; [|apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]].
    replace (s h / IZR units * (swing h * IZR units)) with (swing h * s h) in Both by (field; lra). lra.
  - intros g W. eapply Rle_trans; [apply Watched|apply Alone]; trivial.
Qed.

(** A finished table: no monitor, so neither misses nor false alarms cost it anything, and draws at public sizes. *)
Corollary Theorem_15_table {pattern outcome} `{EqDec pattern} `{EqDec outcome}
    (lowers : list pattern -> key pattern outcome -> bool) plan pub cells counted (s delta e_v noise_scale : R)
    (rows rows' : list (event (V := list Z) (K := change pattern outcome)) -> list (row pattern outcome)) touched n :
  0 <= s -> 0 <= delta -> 0 < e_v -> 2 / e_v <= noise_scale ->
  (forall h, rate (pub h) * IZR (Z.max (positive (pub h)) (negative (pub h))) <= s) ->
  (forall h, NoDup (cells h)) -> (forall h, proper (pub h)) ->
  (forall h a, next plan h <> Draw -> published (pub (a :: h)) = published (pub h)) ->
  good_stream pub rows -> good_stream pub rows' -> one_check rows rows' touched ->
  (forall g, touched g = true -> one_row (rows g) (rows' g)) ->
  let causes := causes_gate lowers plan pub (fun _ => 0%Z) (fun _ => 0%Z) cells counted noise_scale delta in
  is_law (causes rows n) /\ close (e_v + 2 * s) (delta / (1 + delta)) (causes rows n) (causes rows' n).
Proof.
  intros S D Ev Sc Rate Distinct Proper AtDraws G G' Once Row1 causes.
  refine (Theorem_15 lowers plan pub (fun _ => 0%Z) (fun _ => 0%Z) cells counted e_v noise_scale delta (2 * s)
    D _ Ev Sc Distinct Proper _ AtDraws _ _ _ rows rows' touched n G G' Once Row1).
  - lra.
  - intros h. lia.
  - intros h W. specialize (Rate h). rewrite mult_IZR. lra.
  - intros g h _ _ _. specialize (Rate h). destruct (Proper h) as [PA PB Pr _ _ _ _ _]. simpl Z.max. unfold Rdiv.
    rewrite Rmult_0_l, Rplus_0_l. eapply Rle_trans with (rate (pub h) * IZR (2 * Z.max (positive (pub h)) (negative (pub h)))).
    + apply Rmult_le_compat_l; auto. apply IZR_le. lia.
    + rewrite mult_IZR. lra.
  - intros g _. simpl Z.max. unfold Rdiv. rewrite Rmult_0_l. lra.
Qed.
