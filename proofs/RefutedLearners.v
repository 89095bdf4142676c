(** Weakened versions of Theorems 9 and 15, and proofs that they are false.

    Each of these is also planted in the Python code by tests/privacy or tests/learners. The faults of
    the draw are shown on the smallest pair of worlds: one row that is alone in its epoch, against a
    null round. What it makes active exists in one world only, so no epsilon helps: delta/(1 + delta)
    is exceeded outright.

    listed_twice_refuted   a pattern listed twice counts twice
    gain_refuted           the weight exp (s net) instead of exp (s (net - 1))
    prior_of_two_refuted   priors of a row that sum to 2
    kept_refuted           rows that are kept at a refusal, and read by the next draw
    matched_refuted        matched rows that move net: what a key of one world weighs has no bound
    whole_noise_refuted    whole noise where a false alarm costs half a unit: property (U) fails
    row_effects_tight      the bounds 2 and 1 + c of step 1 are attained
    route_by_row_refuted   a forest that routes by the row, not by the number: two votes move *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise CausesRows CausesDraw Forest.
Import ListNotations.
Open Scope R_scope.

(** * The draw *)

Section Draw.

Variables (r delta : R).
Hypothesis r_pos : 0 < r.
Hypothesis delta_pos : 0 < delta.

(** Patterns are numbers, there is one outcome, nothing is published, and a miss is one unit. *)
Definition hits (patterns : list nat) (k : key nat unit) : bool :=
  if in_dec eq_dec (fst k) patterns then true else false.
Definition plain (prior : nat -> R) (margin : Z) : public (pattern := nat) (outcome := unit) :=
  {| published := []; may_add := true; prior := prior; margin := margin; penalty := fun _ => 0%Z |}.

Notation law pub := (draw 1 1 hits r delta pub).
Notation weigh pub := (weight 1 1 hits r delta pub).

Definition named (m : move nat unit) : bool := match m with add _ => true | _ => false end.

(** A row alone in its epoch: the probability that one of its keys is named, and that any key is named
    when there is a null round instead. *)
Lemma named_by_row pub x keys : nonneg (prior pub) -> published pub = [] -> NoDup keys ->
  incl (listed [x]) keys ->
  let F := lsum (weigh pub [x]) (map add keys) in prob (law pub [x]) named = F / (1 + F).
Proof.
  intros P None N Fresh F.
  assert (d_nonneg : 0 <= delta) by lra.
  pose proof (weight_nonneg 1 1 hits r delta d_nonneg pub P) as W.
  set (l := nothing :: map add keys : list (move nat unit)).
  assert (NoDup l) as Nl.
  { constructor; [rewrite in_map_iff; intros (k & E & _); discriminate|].
    apply FinFun.Injective_map_NoDup; auto. intros a b E; congruence. }
  assert (forall m, ~ In m l -> weigh pub [x] m = 0) as Out.
  { intros [|k|b] No; [elim No; now left| |].
    - unfold weight. cbn [exists_in]. destruct (active (published pub) [x] k) eqn:Alive;
        [|now rewrite andb_false_r].
      elim No. right. apply in_map, Fresh. now apply (active_listed 1 1 ltac:(lia) pub).
    - unfold weight. cbn [exists_in]. rewrite None. reflexivity. }
  destruct (sum_finite (weigh pub [x]) l (W [x]) Nl Out) as [S E].
  assert (0 <= F) as Pos by (apply lsum_nonneg, W).
  assert (sum (weigh pub [x]) = 1 + F) as Total.
  { rewrite E. unfold l. cbn [lsum]. now rewrite weight_of_idle. }
  unfold prob. destruct (sum_finite (on named (law pub [x])) l) as [_ ->]; auto.
  - apply on_nonneg. intros m. unfold draw, drawn. apply Rmult_le_pos; [apply W|].
    rewrite Total. left; apply Rinv_0_lt_compat. lra.
  - intros m No. unfold on, draw, drawn. rewrite (Out m No). destruct (named m); lra.
  - unfold l. cbn [lsum]. unfold on at 1. cbn [named].
    rewrite (lsum_ext_in _ (fun m => / (1 + F) * weigh pub [x] m)).
    + rewrite lsum_scal. fold F. field. lra.
    + intros m I. apply in_map_iff in I as (k & <- & _). unfold on, draw, drawn. cbn [named].
      rewrite Total. field. lra.
Qed.

Lemma named_by_none pub m : on named (law pub [null]) m = 0.
Proof.
  unfold on, draw, drawn. destruct m as [|k|b]; cbn [named]; auto. unfold weight at 1.
  cbn [exists_in]. rewrite andb_false_r. lra.
Qed.

(** The keys of one row weigh more than delta. *)
Lemma too_heavy pub x keys : nonneg (prior pub) -> published pub = [] -> NoDup keys ->
  incl (listed [x]) keys -> delta < lsum (weigh pub [x]) (map add keys) ->
  forall eps, ~ close eps (delta / (1 + delta)) (law pub [x]) (law pub [null]).
Proof.
  intros P None N Fresh Heavy eps Close. specialize (Close named).
  rewrite (named_by_row pub x keys) in Close by auto. unfold prob in Close.
  rewrite (sum_ext _ _ (named_by_none pub)), sum_zero in Close.
  set (F := lsum (weigh pub [x]) (map add keys)) in *.
  assert (delta / (1 + delta) < F / (1 + F)); [|lra].
  apply Rmult_lt_reg_r with (1 + delta); [lra|]. apply Rmult_lt_reg_r with (1 + F); [lra|].
  field_simplify; lra.
Qed.

Definition positive (patterns : list nat) : row nat unit := example patterns (Some tt).

Lemma exp_gt_1 : 1 < exp r.
Proof. rewrite <- exp_0. now apply exp_lt. Qed.

Theorem listed_twice_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) 0) [positive [7; 7]%nat])
                                    (law (plain (fun _ => 1) 0) [null]).
Proof.
  apply too_heavy with [(7%nat, tt)]; auto; [intros p; simpl; lra|repeat constructor; auto| |].
  - intros k [<-|[<-|[]]]; now left.
  - cbn. pose proof exp_gt_1. replace (r * _) with r by (cbn; ring). nra.
Qed.

(** The missing "- 1" is a margin of minus one. *)
Theorem gain_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) (-1)) [positive [7]%nat])
                                    (law (plain (fun _ => 1) (-1)) [null]).
Proof.
  apply too_heavy with [(7%nat, tt)]; auto; [intros p; simpl; lra|repeat constructor; auto| |].
  - intros k I. exact I.
  - cbn. pose proof exp_gt_1. replace (r * _) with r by (cbn; ring). nra.
Qed.

Theorem prior_of_two_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) 0) [positive [7; 8]%nat])
                                    (law (plain (fun _ => 1) 0) [null]).
Proof.
  apply too_heavy with [(7%nat, tt); (8%nat, tt)]; auto; [intros p; simpl; lra| | |].
  - repeat constructor; simpl; intuition discriminate.
  - intros k I. exact I.
  - cbn. replace (r * _) with 0 by (cbn; ring). rewrite exp_0. lra.
Qed.

(** A row that two draws read, because the first refused and the rows were kept. *)
Definition two_draws (rows : list (row nat unit)) : move nat unit * move nat unit -> R :=
  bind (law (plain (fun _ => 1) 0) rows) (fun m => lmap (pair m) (law (plain (fun _ => 1) 0) rows)).

Theorem kept_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (two_draws [positive [7]%nat]) (two_draws [null]).
Proof.
  intros eps Close. specialize (Close (fun both => named (fst both) || named (snd both))).
  set (pub := plain (fun _ => 1) 0) in *.
  assert (forall rows, is_law (law pub rows)) as Law.
  { intros rows. apply draw_law; try lia; try lra. intros p; simpl; lra. }
  assert (forall rows, let d := prob (law pub rows) named in
    prob (two_draws rows) (fun both => named (fst both) || named (snd both)) = d + d * (1 - d)) as Two.
  { intros rows d. unfold two_draws. fold pub. destruct (Law rows) as (P & S & One).
    rewrite prob_bind; auto; [|intros m; apply law_sub, lmap_law, Law].
    rewrite (sum_ext _ (fun m => on named (law pub rows) m
                                 + d * on (fun m => negb (named m)) (law pub rows) m)).
    - rewrite sum_plus, sum_scal; auto.
      + fold (prob (law pub rows) named) (prob (law pub rows) (fun m => negb (named m))).
        rewrite prob_not by apply Law. reflexivity.
      + apply prob_bounds, law_sub, Law.
      + now apply on_summable.
      + now apply on_nonneg.
      + intros m. apply Rmult_le_pos; [apply prob_bounds, law_sub, Law|now apply on_nonneg].
      + now apply on_summable.
      + apply summable_scal; [apply prob_bounds, law_sub, Law|now apply on_summable].
    - intros m. rewrite prob_lmap by auto. cbn [fst snd].
      replace (prob (law pub rows) (fun b => named m || named b)) with (if named m then 1 else d)
        by (destruct (named m); [rewrite <- One|]; reflexivity).
      unfold on. destruct (named m); cbn [negb]; ring. }
  rewrite !Two in Close.
  assert (prob (law pub [null]) named = 0) as None
    by (unfold prob; rewrite (sum_ext _ _ (named_by_none pub)); apply sum_zero).
  rewrite None, (named_by_row pub (positive [7]%nat) [(7%nat, tt)]) in Close;
    [|intros p; simpl; lra|reflexivity|repeat constructor; auto|intros k I; exact I].
  assert (lsum (weigh pub [positive [7]%nat]) (map add [(7%nat, tt)]) = delta) as Fresh.
  { cbn. replace (r * _) with 0 by (cbn; ring). rewrite exp_0. ring. }
  rewrite Fresh in Close.
  assert (0 < delta / (1 + delta) < 1) as Share.
  { split; [apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]|].
    apply Rmult_lt_reg_r with (1 + delta); [lra|]. field_simplify; lra. }
  assert (0 < delta / (1 + delta) * (1 - delta / (1 + delta))) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

End Draw.

(** * Rows *)

Open Scope Z_scope.

(** Net counted over all rows, matched or not, is the net of an empty published rule. A key that one
    row alone makes active then has whatever net the matched rows gave it. *)
Theorem matched_refuted : forall n,
  let before := repeat (example [0; 1]%nat (Some tt)) n in
  let x := example [1%nat] (Some tt) in
  let P := [(0%nat, tt)] in
  active P (before ++ [x]) (1%nat, tt) = true /\
  active P (before ++ [null]) (1%nat, tt) = false /\
  score 1 1 hits [] (before ++ [x]) (add (1%nat, tt)) = Z.of_nat n + 1.
Proof.
  intros n before x P. repeat split.
  - unfold active. rewrite existsb_app. apply orb_true_intro. now right.
  - unfold before. induction n; auto.
  - unfold before. induction n as [|n IH]; [reflexivity|].
    cbn [repeat app]. unfold score in *. cbn [fold_right]. rewrite IH.
    change (effect 1 1 hits [] (example [0; 1]%nat (Some tt)) (add (1%nat, tt))) with 1. lia.
Qed.

(** Both bounds of step 1 are attained. *)
Theorem row_effects_tight : forall miss alarm, 0 < alarm <= miss ->
  (exists x y m n, loss miss alarm [] y = loss miss alarm [] x /\
     change miss alarm hits [] x y m - change miss alarm hits [] x y n = 2 * miss) /\
  (exists x y m n, loss miss alarm [] y <> loss miss alarm [] x /\
     change miss alarm hits [] x y m - change miss alarm hits [] x y n = miss + alarm).
Proof.
  intros miss alarm units. split.
  - exists (example [0%nat] (Some tt)), (example [1%nat] (Some tt)),
      (add (1%nat, tt)), (add (0%nat, tt)).
    unfold change. cbn -[Z.mul Z.add Z.sub Z.opp]. lia.
  - exists (example [0%nat] (Some tt)), (example [0%nat] None), nothing, (add (0%nat, tt)).
    unfold change. cbn -[Z.mul Z.add Z.sub Z.opp]. lia.
Qed.

(** * Noise *)

(** Costs of half a unit, and noise that is whole: in half units, noise on the even numbers. *)
Definition whole_noise (s : R) (k : Z) : R := if Z.even k then one_sided s (k / 2) else 0%R.

Theorem whole_noise_refuted : forall s t, (0 < s)%R -> ~ U t (whole_noise s).
Proof.
  intros s t S Up. specialize (Up 0). unfold whole_noise, one_sided in Up. cbn in Up.
  pose proof (rate_bounds s S). lra.
Qed.

(** * Forests *)

Open Scope nat_scope.

(** A forest whose row, not the number of its round, says which tree learns it. *)
Definition by_row (f : nat -> nat) (x : nat) : nat -> nat :=
  fun i => if Nat.eqb i x then 20 + x else f i.

Theorem route_by_row_refuted :
  let vote := fun (tree : nat) (s : nat) => Some s in
  let start := fun i => 10 + i in
  ~ moved_vote (votes vote 2 (by_row start 0)) (votes vote 2 (by_row start 1)).
Proof.
  intros vote start (old & new & Move).
  pose proof (Move 10) as A. pose proof (Move 21) as B. cbn in A, B.
  destruct new as [r|]; cbn in A, B; [|lia].
  destruct (eq_dec r 10), (eq_dec r 21); lia.
Qed.
