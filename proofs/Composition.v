(** Losses along the tree of transcripts: the argument of Theorem 7 of docs/guarantee.md, and the
    parallel composition over epochs.

    A transcript is a list of steps of type [A], here newest first, so a list is also a node of the tree:
    the history at which the next step is drawn. In world 0 the probability of a transcript [h] of n
    steps is [weight h * kernels h]: [weight h] is what is compared as a whole (for a gate, the monitor's
    answers given the keys), [kernels h] the product of the laws [s g a] of each step [a] after [g] (for a
    gate, the selections). Primed names are world 1. Laws depend on the history, so everything may
    react. [differ h a] says whether the two worlds' laws differ in step [a] after [h]; along every
    transcript that happens at most [k] times.
    tree_of_transcripts is the common core; composition and Parallel_composition are its case without
    weights; Gates.v has Theorem 7. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope R_scope.

(** * Sums over transcripts, step by step *)

Lemma sum_by_steps {A} `{EqDec A} (f F : list A -> R) : nonneg f -> f [] = 0 -> summable F ->
  (forall g, summable (fun a => f (a :: g)) /\ sum (fun a => f (a :: g)) <= F g) ->
  summable f /\ sum f = sum (fun g => sum (fun a => f (a :: g))) /\ sum f <= sum F.
Proof.
  intros P Nil SF Node.
  set (cons_pair := fun x : list A * A => snd x :: fst x).
  destruct (sum_reindex cons_pair f) as [Sm ->]; auto.
  { intros [g a] [g' a'] E; inversion E; reflexivity. }
  { intros [|a g] Nz; [tauto|]. now exists (g, a). }
  assert (summable2 (fun g a => f (a :: g))) as S2.
  { split; [apply Node|]. apply summable_le with F; auto. intros g; apply Node. }
  destruct (sum_pair (fun x => f (cons_pair x))) as [S ->]; auto; [intros x; apply P|].
  split; [now apply Sm|]. split; [reflexivity|]. apply sum_le; auto. intros g; apply (Node g).
Qed.

Lemma excess_mass {T} `{EqDec T} e d (p q : T -> R) : sub_law p -> sub_law q -> close e d p q ->
  summable (fun x => p x - Rmin (p x) (exp e * q x)) /\ sum (fun x => p x - Rmin (p x) (exp e * q x)) <= d.
Proof.
  intros Lp Lq C. pose proof (sub_summable p Lp) as Sp. pose proof (sub_summable q Lq) as Sq.
  destruct Lp as [Pp _], Lq as [Pq _]. pose proof (exp_pos_le e) as E.
  assert (forall x, 0 <= exp e * q x) as Pe by (intros; apply Rmult_le_pos; auto).
  assert (nonneg (fun x => p x - Rmin (p x) (exp e * q x))) as P.
  { intros x; pose proof (Rmin_l (p x) (exp e * q x)); lra. }
  assert (summable (fun x => p x - Rmin (p x) (exp e * q x))) as S.
  { apply summable_le with p; auto. intros x. assert (0 <= Rmin (p x) (exp e * q x)); [|lra].
    apply Rmin_glb; auto. }
  split; auto.
  set (Ev := fun x => if Rlt_dec (exp e * q x) (p x) then true else false).
  assert (sum (fun x => (p x - Rmin (p x) (exp e * q x)) + exp e * on Ev q x) = prob p Ev) as Eq.
  { apply sum_ext; intros x. unfold on, Ev. destruct (Rlt_dec (exp e * q x) (p x)).
    - rewrite Rmin_right; lra. - rewrite Rmin_left; lra. }
  rewrite sum_plus, sum_scal in Eq; auto; try (apply on_summable; auto);
    try (apply summable_scal; auto; apply on_summable; auto);
    try (intros x; apply Rmult_le_pos; auto; now apply on_nonneg).
  specialize (C Ev). unfold prob in *. lra.
Qed.

Section Tree.
Context {A : Type} `{EqDec A}.
Variables weight weight' : list A -> R.
Variables s s' : list A -> A -> R.
Variable differ : list A -> A -> bool.
Variables (k : nat) (e_m e_h d_h : R).

Fixpoint kernels (s : list A -> A -> R) (h : list A) : R :=
  match h with [] => 1 | a :: g => s g a * kernels s g end.

Fixpoint differing (h : list A) : nat :=
  match h with [] => 0 | a :: g => ((if differ g a then 1 else 0) + differing g)%nat end.

(** The law of the transcripts of [n] steps. *)
Definition transcripts (weight : list A -> R) (s : list A -> A -> R) (n : nat) (h : list A) : R :=
  if Nat.eq_dec (length h) n then weight h * kernels s h else 0.

(** What of a step's law is covered by the other world's. *)
Definition common (h : list A) (a : A) : R :=
  if differ h a then Rmin (s h a) (exp e_h * s' h a) else s h a.

Hypothesis weight_nonneg : nonneg weight.
Hypothesis weight_start : weight [] <= 1.
Hypothesis weight'_nonneg : nonneg weight'.
Hypothesis s_nonneg : forall h, nonneg (s h).
Hypothesis s'_nonneg : forall h, nonneg (s' h).
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis at_most_k : forall h, (differing h <= k)%nat.
Hypothesis ratio : forall h, weight h <= exp e_m * weight' h.
Hypothesis agree : forall h a, differ h a = false -> s h a = s' h a.

(** What the step after [g] does to a loss [x] so far and to a mass [y] that can still be lost
    [k - differing g] times. *)
Definition loss (g : list A) (x y : R) (a : A) : R :=
  weight (a :: g) * (s g a * x + (s g a - common g a) * y +
                     INR (k - differing (a :: g)) * d_h * (common g a * y)).
Hypothesis node : forall g x y, 0 <= x -> 0 <= y ->
  summable (loss g x y) /\ sum (loss g x y) <= weight g * (x + INR (k - differing g) * d_h * y).

Lemma common_bounds h a : 0 <= common h a <= s h a.
Proof.
  unfold common. pose proof (s_nonneg h a). destruct (differ h a); [|lra]. split.
  - apply Rmin_glb; auto. apply Rmult_le_pos; [apply exp_pos_le|apply s'_nonneg].
  - apply Rmin_l.
Qed.

Lemma kernels_nonneg (t : list A -> A -> R) : (forall h, nonneg (t h)) -> forall h, 0 <= kernels t h.
Proof. intros P; induction h; simpl; [lra|]. apply Rmult_le_pos; auto. apply P. Qed.

Lemma common_le h : 0 <= kernels common h <= kernels s h.
Proof.
  split; [apply kernels_nonneg; intros g a; apply common_bounds|].
  induction h as [|a g IH]; simpl; [lra|]. apply Rmult_le_compat; try apply common_bounds; auto.
  apply kernels_nonneg; intros g' a'; apply common_bounds.
Qed.

Lemma common_ratio h : kernels common h <= exp (INR (differing h) * e_h) * kernels s' h.
Proof.
  induction h as [|a g IH]; simpl.
  { rewrite Rmult_0_l, exp_0; lra. }
  rewrite plus_INR, Rmult_plus_distr_r, exp_plus.
  replace (exp (INR (if differ g a then 1 else 0) * e_h) * exp (INR (differing g) * e_h) * (s' g a * kernels s' g))
    with ((exp (INR (if differ g a then 1 else 0) * e_h) * s' g a) *
          (exp (INR (differing g) * e_h) * kernels s' g)) by ring.
  apply Rmult_le_compat; auto; [apply common_bounds|apply common_le|].
  unfold common. destruct (differ g a) eqn:D; simpl.
  - rewrite Rmult_1_l. apply Rmin_r.
  - rewrite Rmult_0_l, exp_0, Rmult_1_l, (agree g a D). lra.
Qed.

(** The loss so far, and what can still be lost: never grows along the tree. *)
Definition potential (n : nat) (h : list A) : R :=
  if Nat.eq_dec (length h) n
  then weight h * ((kernels s h - kernels common h) + INR (k - differing h) * d_h * kernels common h)
  else 0.

Lemma potential_nonneg n : nonneg (potential n).
Proof.
  intros h. unfold potential. destruct Nat.eq_dec; [|lra]. pose proof (common_le h) as C.
  apply Rmult_le_pos; auto. apply Rplus_le_le_0_compat; [lra|].
  apply Rmult_le_pos; [|tauto]. apply Rmult_le_pos; auto. apply pos_INR.
Qed.

Lemma potential_bound n : summable (potential n) /\ sum (potential n) <= INR k * d_h.
Proof.
  induction n as [|n [S B]].
  - destruct (sum_finite (potential 0) [[]]) as [S ->]; [apply potential_nonneg| | |].
    + constructor; simpl; auto; constructor.
    + intros h Hh. unfold potential. destruct (Nat.eq_dec (length h) 0) as [E|E]; auto.
      destruct h; [simpl in Hh; tauto|discriminate].
    + split; auto. unfold potential; simpl. rewrite Nat.sub_0_r.
      replace (1 - 1 + INR k * d_h * 1) with (INR k * d_h) by ring. rewrite Rplus_0_r.
      rewrite <- (Rmult_1_l (INR k * d_h)) at 2. apply Rmult_le_compat_r; auto.
      apply Rmult_le_pos; auto. apply pos_INR.
  - destruct (sum_by_steps (potential (Datatypes.S n)) (potential n)) as (S1 & _ & B1); auto.
    + apply potential_nonneg.
    + intros g. pose proof (common_le g) as C.
      destruct (Nat.eq_dec (length g) n) as [L|L].
      * destruct (node g (kernels s g - kernels common g) (kernels common g)) as [SN BN]; [lra|tauto|].
        assert (forall a, potential (Datatypes.S n) (a :: g) =
                  loss g (kernels s g - kernels common g) (kernels common g) a) as E.
        { intros a. unfold potential. destruct Nat.eq_dec as [E|E]; [|simpl in E; lia].
          unfold loss. simpl kernels. ring. }
        split; [eapply summable_ext; [intros; symmetry; apply E|auto]|].
        rewrite (sum_ext _ _ E). unfold potential. destruct Nat.eq_dec; [exact BN|lia].
      * assert (forall a, 0 = potential (Datatypes.S n) (a :: g)) as E.
        { intros a. unfold potential. destruct Nat.eq_dec as [E|E]; auto. simpl in E; lia. }
        split; [eapply summable_ext; [apply E|apply summable_zero]|].
        rewrite <- (sum_ext _ _ E), sum_zero. apply potential_nonneg.
    + split; auto. lra.
Qed.

Theorem tree_of_transcripts n : summable (transcripts weight' s' n) ->
  close (e_m + INR k * e_h) (INR k * d_h) (transcripts weight s n) (transcripts weight' s' n).
Proof.
  intros S' Ev. destruct (potential_bound n) as [SP BP].
  assert (nonneg (transcripts weight' s' n)) as P'.
  { intros h; unfold transcripts. destruct Nat.eq_dec; [|lra]. apply Rmult_le_pos; auto. now apply kernels_nonneg. }
  pose proof (exp_pos_le (e_m + INR k * e_h)) as E0.
  assert (summable (fun h => exp (e_m + INR k * e_h) * on Ev (transcripts weight' s' n) h)) as S1.
  { apply summable_scal; auto. now apply on_summable. }
  apply Rle_trans with (sum (fun h => exp (e_m + INR k * e_h) * on Ev (transcripts weight' s' n) h + potential n h)).
  - apply sum_le; [|now apply summable_plus].
    intros h. pose proof (potential_nonneg n h) as Ph. unfold on, transcripts, potential in *.
    destruct (Nat.eq_dec (length h) n); destruct (Ev h); try lra.
    pose proof (common_le h) as C. pose proof (common_ratio h) as Rc. pose proof (weight_nonneg h) as W.
    assert (0 <= INR (k - differing h) * d_h * kernels common h) as Rest.
    { apply Rmult_le_pos; [|tauto]. apply Rmult_le_pos; auto. apply pos_INR. }
    assert (0 <= weight h * (INR (k - differing h) * d_h * kernels common h)) by now apply Rmult_le_pos.
    assert (weight h * kernels common h <= exp (e_m + INR k * e_h) * (weight' h * kernels s' h)); [|lra].
    rewrite exp_plus.
    replace (exp e_m * exp (INR k * e_h) * (weight' h * kernels s' h))
      with ((exp e_m * weight' h) * (exp (INR k * e_h) * kernels s' h)) by ring.
    apply Rmult_le_compat; auto; [tauto|]. eapply Rle_trans; [apply Rc|].
    apply Rmult_le_compat_r; [now apply kernels_nonneg|]. apply exp_le, Rmult_le_compat_r; auto.
    now apply le_INR.
  - rewrite sum_plus, sum_scal; auto.
    + unfold prob. lra.
    + now apply on_summable.
    + intros h; apply Rmult_le_pos; auto. now apply on_nonneg.
    + apply potential_nonneg.
Qed.
End Tree.

(** The transcripts of one world are a law, if each step keeps the weight. *)
Section One_world.
Context {A : Type} `{EqDec A}.
Variable weight : list A -> R.
Variable s : list A -> A -> R.
Hypothesis weight_nonneg : nonneg weight.
Hypothesis s_nonneg : forall h, nonneg (s h).

Lemma transcripts_nonneg n : nonneg (transcripts weight s n).
Proof.
  intros h; unfold transcripts. destruct Nat.eq_dec; [|lra]. apply Rmult_le_pos; auto. now apply kernels_nonneg.
Qed.

Lemma transcripts_start : summable (transcripts weight s 0) /\ sum (transcripts weight s 0) = weight [].
Proof.
  destruct (sum_finite (transcripts weight s 0) [[]]) as [S ->]; auto; [apply transcripts_nonneg| | |].
  - constructor; simpl; auto; constructor.
  - intros h Hh. unfold transcripts. destruct (Nat.eq_dec (length h) 0) as [E|E]; auto.
    destruct h; [simpl in Hh; tauto|discriminate].
  - split; auto. unfold transcripts; simpl. lra.
Qed.

Lemma transcripts_step n a g : transcripts weight s (S n) (a :: g) =
  (if Nat.eq_dec (length g) n then kernels s g else 0) * (weight (a :: g) * s g a).
Proof.
  unfold transcripts. simpl length. destruct (Nat.eq_dec (length g) n); destruct Nat.eq_dec; try lia; simpl; ring.
Qed.

Lemma transcripts_bounds : weight [] <= 1 ->
  (forall g, summable (fun a => weight (a :: g) * s g a) /\ sum (fun a => weight (a :: g) * s g a) <= weight g) ->
  forall n, sub_law (transcripts weight s n).
Proof.
  intros W0 Node.
  assert (forall n, summable (transcripts weight s n) /\ sum (transcripts weight s n) <= 1) as B.
  { induction n as [|n [S B]].
    - destruct transcripts_start as [S ->]; auto.
    - destruct (sum_by_steps (transcripts weight s (Datatypes.S n)) (transcripts weight s n)) as (S1 & _ & B1); auto.
      + apply transcripts_nonneg.
      + intros g. destruct (Node g) as [SN BN].
        assert (0 <= (if Nat.eq_dec (length g) n then kernels s g else 0)) as C.
        { destruct Nat.eq_dec; [now apply kernels_nonneg|lra]. }
        split.
        * eapply summable_ext; [intros; symmetry; apply transcripts_step|]. now apply summable_scal.
        * rewrite (sum_ext _ _ (fun a => transcripts_step n a g)), sum_scal; auto. unfold transcripts.
          destruct (Nat.eq_dec (length g) n); [|lra]. rewrite Rmult_comm. apply Rmult_le_compat_r; auto.
      + split; auto. lra. }
  intros n; split; [apply transcripts_nonneg|]. intros l L. destruct (B n) as [S Bd].
  pose proof (lsum_le_sum _ l S L). lra.
Qed.

Lemma transcripts_law : weight [] = 1 ->
  (forall g, summable (fun a => weight (a :: g) * s g a) /\ sum (fun a => weight (a :: g) * s g a) = weight g) ->
  forall n, is_law (transcripts weight s n).
Proof.
  intros W0 Node.
  assert (forall n, sub_law (transcripts weight s n)) as Sub.
  { apply transcripts_bounds; [lra|]. intros g; destruct (Node g) as [S ->]; split; auto; lra. }
  intros n. split; [apply Sub|split; [apply sub_summable, Sub|]].
  induction n as [|n IH]; [destruct transcripts_start as [_ ->]; auto|].
  assert (forall g, 0 <= (if Nat.eq_dec (length g) n then kernels s g else 0)) as C.
  { intros g; destruct Nat.eq_dec; [now apply kernels_nonneg|lra]. }
  assert (forall g, sum (fun a => transcripts weight s (S n) (a :: g)) = transcripts weight s n g) as E.
  { intros g. destruct (Node g) as [SN EN].
    rewrite (sum_ext _ _ (fun a => transcripts_step n a g)), sum_scal, EN; auto.
    unfold transcripts. destruct (Nat.eq_dec (length g) n); ring. }
  destruct (sum_by_steps (transcripts weight s (S n)) (transcripts weight s n)) as (_ & Eq & _); auto.
  - apply transcripts_nonneg.
  - apply sub_summable, Sub.
  - intros g. rewrite E. split; [|lra]. destruct (Node g) as [SN _].
    eapply summable_ext; [intros; symmetry; apply transcripts_step|]. now apply summable_scal.
  - rewrite Eq, (sum_ext _ _ E). exact IH.
Qed.
End One_world.

(** * Composition along the tree, and epochs *)

Lemma law_inhabited {T} (p : T -> R) : is_law p -> (T -> False) -> False.
Proof.
  intros (_ & _ & E) No. assert (sum p <= 0); [|lra].
  apply sum_le_bound. intros [|x l] _; [simpl; lra|]. destruct (No x).
Qed.

(** One node: the law [p] of a step, its part [c] that is covered, and what is not covered ([d] at most,
    where the worlds differ). [b] is what can still be lost after it. *)
Lemma one_node {T} `{EqDec T} (p c : T -> R) (x y b d delta : R) : sub_law p -> (forall a, 0 <= c a <= p a) ->
  0 <= x -> 0 <= y -> 0 <= b -> 0 <= d ->
  summable (fun a => p a - c a) /\ sum (fun a => p a - c a) <= delta * d ->
  let f := fun a => p a * x + (p a - c a) * y + b * d * (c a * y) in
  summable f /\ sum f <= x + (b + delta) * d * y.
Proof.
  intros Lp C X Y B D [Sx Ex]. pose proof (sub_summable p Lp) as Sp. pose proof (sub_sum p Lp) as Ep.
  destruct Lp as [Pp _].
  assert (summable c) as Sc by (apply summable_le with p; auto; apply C).
  assert (sum c <= 1) as Ec by (apply Rle_trans with (sum p); [apply sum_le; auto; apply C|tauto]).
  assert (0 <= b * d * y) as BD by (apply Rmult_le_pos; auto; now apply Rmult_le_pos).
  set (f1 := fun a => x * p a). set (f2 := fun a => y * (p a - c a)). set (f3 := fun a => (b * d * y) * c a).
  assert (summable f1) as S1 by now apply summable_scal.
  assert (summable f2) as S2 by now apply summable_scal.
  assert (summable f3) as S3 by now apply summable_scal.
  assert (nonneg f1) as P1 by (intros a; apply Rmult_le_pos; auto).
  assert (nonneg f2) as P2 by (intros a; apply Rmult_le_pos; auto; specialize (C a); lra).
  assert (nonneg f3) as P3 by (intros a; apply Rmult_le_pos; auto; specialize (C a); lra).
  assert (forall a, f1 a + f2 a + f3 a = p a * x + (p a - c a) * y + b * d * (c a * y)) as E.
  { intros a; unfold f1, f2, f3; ring. }
  assert (summable (fun a => f1 a + f2 a)) as S12 by now apply summable_plus.
  simpl; split.
  - eapply summable_ext; [apply E|]. now apply summable_plus.
  - rewrite <- (sum_ext _ _ E), sum_plus, sum_plus; auto; [|intros a; specialize (P1 a); specialize (P2 a); lra].
    unfold f1, f2, f3. rewrite !sum_scal; auto.
    assert (x * sum p <= x) by (rewrite <- (Rmult_1_r x) at 2; apply Rmult_le_compat_l; tauto).
    assert (y * sum (fun a => p a - c a) <= y * (delta * d)) by now apply Rmult_le_compat_l.
    assert (b * d * y * sum c <= b * d * y) by (rewrite <- (Rmult_1_r (b * d * y)) at 2; now apply Rmult_le_compat_l).
    lra.
Qed.

Section Compose.
Context {A : Type} `{EqDec A}.
Variables s s' : list A -> A -> R.
Variable differ : list A -> bool.
Variables (k : nat) (e d : R).
Hypothesis s_law : forall h, is_law (s h).
Hypothesis s'_law : forall h, is_law (s' h).
Hypothesis e_nonneg : 0 <= e.
Hypothesis d_nonneg : 0 <= d.
Hypothesis agree : forall h a, differ h = false -> s h a = s' h a.
Hypothesis near : forall h, differ h = true -> close e d (s h) (s' h).
Hypothesis at_most_k : forall h, (differing (fun g _ => differ g) h <= k)%nat.

(** Laws that depend on the transcript so far, at most [k] of which differ along any transcript. *)
Theorem composition n :
  close (INR k * e) (INR k * d) (transcripts (fun _ => 1) s n) (transcripts (fun _ => 1) s' n).
Proof.
  rewrite <- (Rplus_0_l (INR k * e)).
  apply tree_of_transcripts with (fun h _ => differ h); auto; try (intros h; apply s_law); try (intros h; apply s'_law);
    try (intros h; lra); [lra|intros h; rewrite exp_0; lra| |].
  - intros g x y X Y. set (c := common s s' (fun h _ => differ h) e g).
    set (delta := if differ g then 1 else 0).
    set (left := (k - ((if differ g then 1 else 0) + differing (fun g _ => differ g) g))%nat).
    assert (INR left + delta = INR (k - differing (fun g _ => differ g) g)) as Budget.
    { unfold left, delta. destruct (differ g) eqn:D; [|simpl; rewrite Rplus_0_r; f_equal; lia].
      destruct (le_lt_dec (S (differing (fun g _ => differ g) g)) k) as [M|M].
      - rewrite <- S_INR. f_equal. lia.
      - exfalso. apply (law_inhabited _ (s_law g)). intros a.
        pose proof (at_most_k (a :: g)) as M1. simpl in M1. rewrite D in M1. lia. }
    destruct (one_node (s g) c x y (INR left) d delta) as [S B]; auto; [now apply law_sub| |apply pos_INR| |].
    + intros a. apply common_bounds; [intros h; apply s_law|intros h; apply s'_law].
    + unfold c, common, delta. destruct (differ g) eqn:D.
      * rewrite Rmult_1_l. apply excess_mass; auto; now apply law_sub.
      * assert (forall a, 0 = s g a - s g a) as Z by (intros; ring). split.
        -- eapply summable_ext; [apply Z|apply summable_zero].
        -- rewrite <- (sum_ext _ _ Z), sum_zero; lra.
    + assert (forall a, s g a * x + (s g a - c a) * y + INR left * d * (c a * y) =
                loss (fun _ => 1) s s' (fun h _ => differ h) k e d g x y a) as E.
      { intros a. unfold loss. fold (c a). simpl differing. fold left. ring. }
      split; [eapply summable_ext; [apply E|exact S]|].
      rewrite <- (sum_ext _ _ E), <- Budget, Rmult_1_l. exact B.
  - apply sub_summable. apply transcripts_bounds; [intros h; lra|intros h; apply s'_law|lra|].
    intros g. destruct (s'_law g) as (_ & S & E). split.
    + eapply summable_ext; [|apply S]. intros; simpl; ring.
    + rewrite (sum_ext _ (s' g)), E; [lra|intros; ring].
Qed.
End Compose.

(** A round that is replaced once is counted once. *)
Lemma once_counts {A} (touched : list A -> bool) :
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []) ->
  forall h, differing (fun g _ => touched g) h = 0%nat \/
    differing (fun g _ => touched g) h = 1%nat /\ exists g later, later <> [] /\ h = later ++ g /\ touched g = true.
Proof.
  intros Once; induction h as [|a h IH]; [now left|]. simpl. destruct (touched h) eqn:T; simpl.
  - right. destruct IH as [->|[_ (g & later & N & -> & Tg)]].
    + split; auto. exists h, [a]. split; [discriminate|auto].
    + destruct (N (Once g later Tg T)).
  - destruct IH as [->|[-> (g & later & N & -> & Tg)]]; auto.
    right; split; auto. exists g, (a :: later). split; [discriminate|auto].
Qed.

(** Parallel composition over epochs. A step is what one epoch releases; [read h] is what the epoch after
    [h] reads: its own rounds, and the transcript through [h]. The replaced round lies in one epoch,
    which the transcript before it fixes ([touched]); the others read the same. Then any number of
    epochs costs what one costs. *)
Theorem Parallel_composition {A Rows} `{EqDec A} (mechanism : list A -> Rows -> A -> R)
    (adjacent : Rows -> Rows -> Prop)
    (read read' : list A -> Rows) (touched : list A -> bool) (e d : R) :
  (forall h rows, is_law (mechanism h rows)) -> 0 <= e -> 0 <= d ->
  (forall h rows rows', adjacent rows rows' -> close e d (mechanism h rows) (mechanism h rows')) ->
  (forall h, touched h = false -> read h = read' h) ->
  (forall h, touched h = true -> adjacent (read h) (read' h)) ->
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []) ->
  forall n, close e d (transcripts (fun _ => 1) (fun h => mechanism h (read h)) n)
                      (transcripts (fun _ => 1) (fun h => mechanism h (read' h)) n).
Proof.
  intros L E D Close Same Adj Once n.
  rewrite <- (Rmult_1_l e), <- (Rmult_1_l d). change 1 with (INR 1).
  apply composition with touched; auto.
  - intros h a T. now rewrite (Same h T).
  - intros h. destruct (once_counts touched Once h) as [->|[-> _]]; lia.
Qed.
