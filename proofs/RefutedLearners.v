(** Weakened versions of Theorems 9, 15 and 19, and proofs that they are false.

    Those of Theorems 9 and 15 are also planted in the Python code by tests/privacy or tests/learners, and
    a missing clip or delta of Theorem 19 is not what users.json has. The faults of
    the draw are shown on the smallest pair of worlds: one row that is alone in its epoch, against a
    null round. What it makes active exists in one world only, so no epsilon helps: delta/(1 + delta)
    is exceeded outright.

    listed_twice_refuted   a pattern listed twice counts twice
    gain_refuted           the weight exp (s net) instead of exp (s (net - 1))
    prior_of_two_refuted   priors of a row that sum to 2
    kept_refuted           rows that are kept at a refusal, and read by the next draw
    matched_refuted        matched rows that move net: what a key of one world weighs has no bound
    not_nested_refuted     a cause that is replaced by a key which is not narrower
    whole_noise_refuted    whole noise where a false alarm costs half a unit: property (U) fails
    unclipped_refuted      users without the clip: a key of one user weighs e^r where it has two rows
    one_delta_refuted      users with delta_1 = delta: two rows of one user name two keys
    one_way_refuted        users at (1 + c0) s, not twice that: two keys move in opposite directions
    row_effects_tight      the bounds of step 1 are attained
    route_by_row_refuted   a forest that routes by the row, not by the number: two votes move *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Effect CausesDraw Users Forest.
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
Definition plain (prior : nat -> R) (margin : Z) : public nat unit :=
  {| published := []; CausesDraw.positive := 1; negative := 1; rate := r; may_add := true; prior := prior;
     most := 1; bar := 1 + margin; heavy := fun _ => 1; high := fun _ => (1 + margin)%Z; CausesDraw.listed := []; base := fun _ => 1; offset := fun _ => 0%Z; clipped := fun _ => false |}.

Notation law pub := (draw hits delta pub 1 1).
Notation weigh pub := (weight hits delta pub 1 1).
Notation adds keys := (map (fun k => Some (add k)) keys).

Definition named (m : move nat unit) : bool := match m with Some (add _) => true | _ => false end.

Lemma plain_nonneg prior margin rows : nonneg prior -> nonneg (weigh (plain prior margin) rows).
Proof.
  intros P m. unfold weight, CausesDraw.weigh. destruct (exists_in _ _ m); [|lra]. apply Rmult_le_pos; [|left; apply exp_pos].
  destruct m as [[k|b|b k]|]; cbn; try lra. specialize (P (fst k)). rewrite Rmult_1_r. now apply Rmult_le_pos; [lra|].
Qed.

(** Rows alone in their epoch: the probability that one of their keys is named, and that any key is named
    when there are null rounds instead. *)
Lemma named_by_rows prior margin rows keys : nonneg prior -> NoDup keys -> incl (CausesDraw.named rows) keys ->
  let pub := plain prior margin in
  let F := lsum (weigh pub rows) (adds keys) in prob (law pub rows) named = F / (1 + F).
Proof.
  intros P N Fresh pub F. pose proof (fun rows => plain_nonneg prior margin rows P) as W. fold pub in W.
  set (l := None :: adds keys : list (move nat unit)).
  assert (NoDup l) as Nl.
  { constructor; [rewrite in_map_iff; intros (k & E & _); discriminate|].
    apply FinFun.Injective_map_NoDup; auto. intros a b E; congruence. }
  assert (forall m, ~ In m l -> weigh pub rows m = 0) as Out.
  { intros [[k|b|b k]|] No; [|reflexivity..|elim No; now left].
    unfold weight, CausesDraw.weigh. destruct (exists_in pub _ (Some (add k))) eqn:Here; trivial. elim No. right.
    apply in_map_iff. exists k. split; trivial. apply Fresh, (active_named []). exact Here. }
  destruct (sum_finite (weigh pub rows) l (W rows) Nl Out) as [S E].
  assert (0 <= F) as Pos by (apply lsum_nonneg, W).
  assert (sum (weigh pub rows) = 1 + F) as Total.
  { rewrite E. unfold l. cbn [lsum]. unfold weight at 1. now rewrite weigh_idle. }
  unfold prob. destruct (sum_finite (on named (law pub rows)) l) as [_ ->]; auto.
  - apply on_nonneg. intros m. unfold draw, drawn. apply Rmult_le_pos; [apply W|].
    rewrite Total. left; apply Rinv_0_lt_compat. lra.
  - intros m No. unfold on, draw, drawn. rewrite (Out m No). destruct (named m); lra.
  - unfold l. cbn [lsum]. unfold on at 1. cbn [named].
    rewrite (lsum_ext_in _ (fun m => / (1 + F) * weigh pub rows m)).
    + rewrite lsum_scal. fold F. field. lra.
    + intros m I. apply in_map_iff in I as (k & <- & _). unfold on, draw, drawn. cbn [named].
      rewrite Total. field. lra.
Qed.

Lemma named_by_none prior margin n m : on named (law (plain prior margin) (repeat null n)) m = 0.
Proof.
  unfold on, draw, drawn. destruct m as [[k|b|b k]|]; cbn [named]; auto. unfold weight at 1, CausesDraw.weigh. cbn.
  replace (active [] (repeat null n) k) with false by (induction n; auto). lra.
Qed.

(** The keys of the rows weigh more than d. *)
Lemma too_heavy prior margin rows keys n d : nonneg prior -> NoDup keys -> incl (CausesDraw.named rows) keys -> 0 <= d ->
  d < lsum (weigh (plain prior margin) rows) (adds keys) ->
  forall eps, ~ close eps (d / (1 + d)) (law (plain prior margin) rows) (law (plain prior margin) (repeat null n)).
Proof.
  intros P N Fresh D Heavy eps Close. specialize (Close named).
  rewrite (named_by_rows prior margin rows keys) in Close by auto. unfold prob in Close.
  rewrite (sum_ext _ _ (named_by_none prior margin n)), sum_zero in Close.
  set (F := lsum (weigh (plain prior margin) rows) (adds keys)) in *.
  assert (d / (1 + d) < F / (1 + F)); [|lra].
  apply Rmult_lt_reg_r with (1 + d); [lra|]. apply Rmult_lt_reg_r with (1 + F); [lra|].
  field_simplify; lra.
Qed.

Definition positive (patterns : list nat) : row nat unit := example patterns (Some tt).

Lemma exp_gt_1 : 1 < exp r.
Proof. rewrite <- exp_0. now apply exp_lt. Qed.

Theorem listed_twice_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) 0) [positive [7; 7]%nat])
                                    (law (plain (fun _ => 1) 0) [null]).
Proof.
  apply (too_heavy _ _ _ [(7%nat, tt)] 1); try (intros p; simpl; lra); try lra; [repeat constructor; auto| |].
  - intros k [<-|[<-|[]]]; now left.
  - cbn. pose proof exp_gt_1. replace (r * _) with r by (cbn; ring). nra.
Qed.

(** The missing "- 1" is a margin of minus one. *)
Theorem gain_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) (-1)) [positive [7]%nat])
                                    (law (plain (fun _ => 1) (-1)) [null]).
Proof.
  apply (too_heavy _ _ _ [(7%nat, tt)] 1); try (intros p; simpl; lra); try lra; [repeat constructor; auto| |].
  - intros k I. exact I.
  - cbn. pose proof exp_gt_1. replace (r * _) with r by (cbn; ring). nra.
Qed.

Theorem prior_of_two_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) 0) [positive [7; 8]%nat])
                                    (law (plain (fun _ => 1) 0) [null]).
Proof.
  apply (too_heavy _ _ _ [(7%nat, tt); (8%nat, tt)] 1); try (intros p; simpl; lra); try lra.
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
  { intros rows. apply draw_law; try lra. constructor; cbn; try lia; try lra; intros p; try lra. rewrite Rmult_0_r, exp_0. lra. }
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
    by (unfold prob; unfold pub; rewrite (sum_ext _ _ (named_by_none _ _ 1)); apply sum_zero).
  unfold pub in Close, None.
  rewrite None, (named_by_rows (fun _ => 1) 0 [positive [7]%nat] [(7%nat, tt)]) in Close;
    [|intros p; simpl; lra|repeat constructor; auto|intros k I; exact I].
  fold pub in Close. assert (lsum (weigh pub [positive [7]%nat]) (adds [(7%nat, tt)]) = delta) as Fresh.
  { cbn. replace (r * _) with 0 by (cbn; ring). rewrite exp_0. ring. }
  rewrite Fresh in Close.
  assert (0 < delta / (1 + delta) < 1) as Share.
  { split; [apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra]|].
    apply Rmult_lt_reg_r with (1 + delta); [lra|]. field_simplify; lra. }
  assert (0 < delta / (1 + delta) * (1 - delta / (1 + delta))) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

(** The rows of a user without the clip: two rows give a key that nobody else has the weight of e^r, not of two. *)
Theorem unclipped_refuted : 2 < exp r -> forall eps, let d := delta * 2 in
  ~ close eps (d / (1 + d)) (law (plain (fun _ => 1) 0) (repeat (positive [7]%nat) 2)) (law (plain (fun _ => 1) 0) (repeat null 2)).
Proof.
  intros Large eps d. apply (too_heavy _ _ _ [(7%nat, tt)]); try (intros p; simpl; lra); [repeat constructor; auto| | |].
  - intros k [<-|[<-|[]]]; now left.
  - unfold d. lra.
  - cbn. replace (r * _) with r by (cbn; ring). unfold d. nra.
Qed.

(** A user of two rows whose keys nobody else has; the clip changes nothing here. *)
Theorem one_delta_refuted : forall eps,
  ~ close eps (delta / (1 + delta)) (law (plain (fun _ => 1) 0) [positive [7]%nat; positive [8]%nat])
                                    (law (plain (fun _ => 1) 0) [null; null]).
Proof.
  apply (too_heavy _ _ _ [(7%nat, tt); (8%nat, tt)] 2); try (intros p; simpl; lra); try lra.
  - repeat constructor; simpl; intuition discriminate.
  - intros k I. exact I.
  - cbn. replace (r * _) with 0 by (cbn; ring). rewrite exp_0. lra.
Qed.

End Draw.

(** * Users *)

(** Two known keys, the second twice as heavy. Another user speaks for both; a third for one and against the other. The
    clip leaves each a part from -1 to 1, so that 1 + c0 is 2 units. *)
Section Opposite.
Variable r : R.
Hypothesis r_pos : 0 < r.

Let zero : change nat unit := add (0%nat, tt).
Let one : change nat unit := add (1%nat, tt).
Definition both_known : public nat unit :=
  {| published := []; CausesDraw.positive := 1; negative := 1; rate := r; may_add := false; prior := fun _ => 0;
     most := 1; bar := 1; heavy := fun _ => 1; high := fun _ => 1%Z; CausesDraw.listed := [zero; one]; base := fun c => if eq_dec c one then 2 else 1; offset := fun _ => 0%Z;
     clipped := fun _ => true |}.

Definition speaks (yes no : nat) : list (list (row nat unit)) :=
  [[positive [0; 1]%nat]; [positive [yes]; example [no] None]].

Lemma opposite_law yes no : let w := weigh 0 both_known (user_score hits 1 1 both_known (speaks yes no))
    (user_supports hits 1 1 both_known (speaks yes no)) (active [] (concat (speaks yes no))) in
  user_draw hits 1 1 0 both_known (speaks yes no) (Some zero) = w (Some zero) / (1 + (w (Some zero) + w (Some one))).
Proof.
  intros w. change (w (Some zero) / sum w = w (Some zero) / (1 + (w (Some zero) + w (Some one)))). f_equal. f_equal.
  destruct (sum_finite w [None; Some zero; Some one]) as [_ ->].
  - intros m. unfold w, weigh. destruct (exists_in _ _ m); [|lra]. apply Rmult_le_pos; [|left; apply exp_pos].
    destruct m as [c|]; simpl; [|lra]. unfold is_listed. destruct (in_dec _ _ _); [destruct (eq_dec c one); lra|].
    destruct c; lra.
  - repeat constructor; simpl; intuition discriminate.
  - intros [c|] No; [|simpl in No; tauto]. unfold w, weigh, exists_in, is_listed.
    destruct (in_dec eq_dec c (CausesDraw.listed both_known)) as [I|_]; [|now destruct c].
    elim No. destruct I as [<-|[<-|[]]]; simpl; tauto.
  - cbn [lsum]. unfold w at 1. rewrite weigh_idle. ring.
Qed.

Definition is_zero (m : move nat unit) : bool := match m with Some (add (O, _)) => true | _ => false end.

(** One key rises while the heavier one falls: (1 + c0) s is not enough. With delta 0, [user_draw_close] has twice that. *)
Theorem one_way_refuted : ~ close (r * IZR (1 + 1)) 0
  (user_draw hits 1 1 0 both_known (speaks 0 1)) (user_draw hits 1 1 0 both_known (speaks 1 0)).
Proof.
  intros Close. specialize (Close is_zero).
  assert (forall users, nonneg (user_draw hits 1 1 0 both_known users)) as P.
  { intros users. apply user_draw_law; try lra. constructor; simpl; try lia; try lra; [intros p; simpl; lra..|intros p; rewrite Rmult_0_r, exp_0; lra|].
    intros c. simpl. destruct (eq_dec c one); lra. }
  assert (forall p : move nat unit -> R, nonneg p -> prob p is_zero = p (Some zero)) as At.
  { intros p Pos. unfold prob. destruct (sum_finite (on is_zero p) [Some zero]) as [_ ->].
    - now apply on_nonneg. - repeat constructor; auto.
    - intros [[[[|k] []]|b|b k]|] No; unfold on; auto. simpl in No. tauto.
    - unfold on. simpl. ring. }
  rewrite !At, !opposite_law in Close by auto.
  cbn in Close. rewrite Rmult_0_r, exp_0, !Rmult_1_l, !Rmult_1_r, Rplus_0_r in Close.
  assert (1 < exp (r * 2)) as Large by (rewrite <- exp_0; apply exp_lt; lra). set (q := exp (r * 2)) in *.
  apply (Rmult_le_compat_r ((1 + (q + 2)) * (1 + (1 + 2 * q)))) in Close; [|apply Rmult_le_pos; lra].
  replace (q / (1 + (q + 2)) * ((1 + (q + 2)) * (1 + (1 + 2 * q)))) with (q * (2 + 2 * q)) in Close by (field; lra).
  replace (q * (1 / (1 + (1 + 2 * q))) * ((1 + (q + 2)) * (1 + (1 + 2 * q)))) with (q * (3 + q)) in Close by (field; lra).
  nra.
Qed.
End Opposite.

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
  score 1 1 1 1 hits [] (before ++ [x]) (Some (add (1%nat, tt))) = Z.of_nat n + 1.
Proof.
  intros n before x P. repeat split.
  - unfold active. rewrite existsb_app. apply orb_true_intro. now right.
  - unfold before. induction n; auto.
  - unfold before. induction n as [|n IH]; [reflexivity|].
    cbn [repeat app]. unfold score in *. cbn [fold_right]. rewrite IH.
    change (moved 1 1 1 1 hits [] (example [0; 1]%nat (Some tt)) (Some (add (1%nat, tt)))) with 1. lia.
Qed.

(** Both bounds of the lemma are attained. *)
Theorem row_effects_tight : forall A B al be, 0 < B <= A -> 0 < al ->
  let loss x := loss (effect_of A B al be [] x) in
  let shift := shift A B al be hits [] in
  (exists x y m n, loss y = loss x /\ shift x y m - shift x y n = 2 * Z.max A B) /\
  (exists x y m n, loss y <> loss x /\ shift x y m - shift x y n = A + B).
Proof.
  intros A B al be weights cost loss shift. unfold loss, shift, Effect.shift. split.
  - exists (example [0%nat] (Some tt)), (example [1%nat] (Some tt)), (Some (add (1%nat, tt))), (Some (add (0%nat, tt))).
    cbn -[Z.mul Z.add Z.sub Z.opp Z.max]. lia.
  - exists (example [0%nat] (Some tt)), (example [0%nat] None), None, (Some (add (0%nat, tt))).
    cbn -[Z.mul Z.add Z.sub Z.opp]. lia.
Qed.

(** A key that takes the place of [b] and is not nested in it: rows that list it and not [b] would speak, too, and one
    row then moves scores by 2A where the loss moves. *)
Theorem not_nested_refuted : forall A B, 0 < B < A ->
  let saved P P' x := loss (effect_of A B A B P x) - loss (effect_of A B A B P' x) in
  let b := (0%nat, tt) in let k := (1%nat, tt) in
  exists x y, loss (effect_of A B A B [b] y) <> loss (effect_of A B A B [b] x) /\
    A + B < saved [b] [k] x - saved [b] [k] y.
Proof.
  intros A B weights saved b k. unfold saved. exists (example [1%nat] (Some tt)), (example [0%nat] (Some tt)).
  cbn -[Z.mul Z.add Z.sub Z.opp]. lia.
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
