(** Weakened versions of the theorems, each of them proved false by an example.

    They are the faults that docs/guarantee.md lists under "Why it breaks", and claims that are too small. The
    other controls (controls/weakened.toml) are proof scripts that must fail; these are stronger.
      Lemma_1_smaller_refuted       (U) with anything smaller than 1/s
      Theorem_2_unscaled_refuted    query noise that is not scaled by the number of firings
      Theorem_3_count_kept_refuted  a count that survives a firing
      Theorem_3_noise_shared_refuted  threshold noise that epochs share
      Theorem_6_rate_refuted        scores weighed with e/D instead of e/2D
      Filter_refuted                a round that two draws read, and delta charged once *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts SparseVector Exponential Tree.
Import ListNotations.
Open Scope R_scope.

(** * Exact values for one-sided noise *)

Lemma one_sided_step s k : (0 <= k)%Z -> one_sided s (k + 1) = rate s * one_sided s k.
Proof.
  intros K. unfold one_sided. destruct (Z.leb_spec 0 k), (Z.leb_spec 0 (k + 1)); try lia.
  replace (Z.abs_nat (k + 1)) with (S (Z.abs_nat k)) by lia. simpl; ring.
Qed.

Lemma one_sided_below s k : (k < 0)%Z -> one_sided s k = 0.
Proof. intros K. unfold one_sided. destruct (Z.leb_spec 0 k); [lia|reflexivity]. Qed.

Lemma one_sided_0 s : one_sided s 0 = 1 - rate s.
Proof. unfold one_sided; simpl; ring. Qed.

Lemma tail_step s x : 0 < s -> (0 <= x)%Z -> tail (one_sided s) (x + 1) = rate s * tail (one_sided s) x.
Proof.
  intros S X. destruct (one_sided_law s S) as (P & Sm & _). pose proof (rate_bounds s S).
  unfold tail, prob. destruct (sum_shift (on (fun k => (x + 1 <=? k)%Z) (one_sided s)) 1) as [_ ->];
    [now apply on_nonneg|].
  rewrite <- sum_scal; [|lra|now apply on_summable]. apply sum_ext; intros k. unfold on.
  destruct (Z.leb_spec (x + 1) (k + 1)), (Z.leb_spec x k); try lia; [|ring]. apply one_sided_step; lia.
Qed.

Lemma tail_0 s : 0 < s -> tail (one_sided s) 0 = 1.
Proof.
  intros S. destruct (one_sided_law s S) as (_ & _ & E). transitivity (sum (one_sided s)); [|exact E].
  apply sum_ext; intros k. unfold on. destruct (Z.leb_spec 0 k); auto. symmetry; now apply one_sided_below.
Qed.

(** A ratio of [a^-2 = e^(2e)] is more than [e^e]. *)
Lemma twice_is_too_much s x : 0 < s -> 0 < x -> ~ x <= exp (/ s) * (rate s * rate s * x).
Proof.
  intros S X L. pose proof (rate_bounds s S). pose proof (rate_exp s) as E.
  replace (exp (/ s) * (rate s * rate s * x)) with (exp (/ s) * rate s * (rate s * x)) in L by ring.
  rewrite E, Rmult_1_l in L. assert (rate s * x < 1 * x) by (apply Rmult_lt_compat_r; lra). lra.
Qed.

(** * Lemma 1 *)

Theorem Lemma_1_smaller_refuted s s' : 0 < s < s' -> ~ U s' (laplace s) /\ ~ U s' (one_sided s).
Proof.
  intros [S L]. pose proof (rate_bounds s S) as A.
  assert (exp (/ s') * rate s < 1) as Less.
  { unfold rate. rewrite <- exp_plus, <- exp_0. apply exp_lt.
    assert (/ s' < / s); [|lra]. apply Rinv_lt_contravar; auto. apply Rmult_lt_0_compat; lra. }
  assert (forall x, 0 < x -> ~ x <= exp (/ s') * (rate s * x)) as No.
  { intros x X H. assert (exp (/ s') * rate s * x < 1 * x) by (apply Rmult_lt_compat_r; auto). lra. }
  split; intros Up; specialize (Up 0%Z); simpl in Up.
  - apply (No (laplace s 0)).
    + unfold laplace; simpl. rewrite Rmult_1_r. apply Rmult_lt_0_compat; [lra|apply Rinv_0_lt_compat; lra].
    + replace (rate s * laplace s 0) with (laplace s 1); [exact Up|]. unfold laplace; simpl. ring.
  - apply (No (one_sided s 0)); [rewrite one_sided_0; lra|].
    rewrite <- one_sided_step by lia. exact Up.
Qed.

(** * Theorem 2 *)

Lemma given_yes p (theta q : list bool -> Z) r x : (forall h, (theta h + r - q h)%Z = x) ->
  forall n h, given (fun b => b) (fun _ => true) p theta q r n h (repeat true n) = tail p x ^ n.
Proof. intros E; induction n; intros h; simpl; auto. now rewrite E, IHn, check_true. Qed.

Theorem Theorem_2_unscaled_refuted :
  ~ (forall theta q q' D c e1 e2 n, (0 < D)%nat -> (0 < c)%nat -> 0 < e1 -> 0 < e2 ->
       (forall h, (Z.abs (q h - q' h) <= Z.of_nat D)%Z) ->
       let run q := sparse_vector (one_sided (INR D / e1)) (one_sided (2 * INR D / e2)) theta c q n in
       pure (e1 + e2) (run q) (run q')).
Proof.
  intros Claim. specialize (Claim (fun _ => 1%Z) (fun _ => 1%Z) (fun _ => 0%Z) 1%nat 5%nat 1 1 5%nat).
  assert (0 < INR 1 / 1) as S1 by (simpl; lra). assert (0 < 2 * INR 1 / 1) as S2 by (simpl; lra).
  specialize (Claim ltac:(lia) ltac:(lia) ltac:(lra) ltac:(lra) ltac:(intros; simpl; lia) (repeat true 5)).
  cbv beta zeta in Claim.
  set (pT := one_sided (INR 1 / 1)) in *. set (s := 2 * INR 1 / 1) in *. set (pQ := one_sided s) in *.
  destruct (one_sided_law _ S1) as (PT & ST & _). fold pT in PT, ST.
  rewrite !sparse_vector_weight in Claim; try (now apply one_sided_law). simpl length in Claim.
  destruct (Nat.eq_dec 5 5); [|lia]. unfold sv_weight in Claim.
  set (f := fun r => pT r * tail pQ r ^ 5).
  assert (forall r, 0 <= tail pQ r <= 1) as T by (intros; apply tail_bounds; now apply one_sided_law).
  assert (nonneg f) as Pf by (intros r; apply Rmult_le_pos; [apply PT|apply pow_le, T]).
  assert (summable f) as Sf.
  { apply summable_le with pT; auto. intros r. unfold f. rewrite <- (Rmult_1_r (pT r)) at 2.
    apply Rmult_le_compat_l; [apply PT|]. rewrite <- (pow1 5). apply pow_incr, T. }
  pose proof (rate_bounds s S2) as A.
  rewrite (sum_ext _ f) in Claim.
  2: { intros r. unfold f. f_equal. apply given_yes. intros; lia. }
  rewrite (sum_ext (fun r => pT r * given (fun b => b) (fun _ => true) pQ (fun _ => 1%Z) (fun _ => 0%Z) r 5 [] (repeat true 5))
                   (fun r => rate s ^ 5 * f r)) in Claim.
  2: { intros r. transitivity (pT r * tail pQ (r + 1) ^ 5); [f_equal; apply given_yes; intros; lia|]. unfold f.
       destruct (Z.leb_spec 0 r) as [R|R].
       - unfold pQ. rewrite tail_step, Rpow_mult_distr by auto. ring.
       - unfold pT. rewrite one_sided_below by lia. ring. }
  rewrite sum_scal in Claim; auto; [|apply pow_le; lra].
  assert (0 < sum f) as Pos.
  { apply Rlt_le_trans with (f 0%Z); [|now apply term_le_sum]. unfold f, pT, pQ.
    rewrite tail_0, one_sided_0, pow1, Rmult_1_r by auto. pose proof (rate_bounds _ S1). lra. }
  assert (exp (1 + 1) * rate s ^ 5 < 1) as Less.
  { unfold rate. assert (forall x n, exp x ^ n = exp (INR n * x)) as Pw.
    { intros x; induction n; simpl pow; [now rewrite Rmult_0_l, exp_0|]. rewrite IHn, <- exp_plus, S_INR.
        f_equal; ring. }
    rewrite Pw, <- exp_plus. apply Rlt_le_trans with (exp 0); [apply exp_lt|rewrite exp_0; lra].
    replace s with 2 by (unfold s; simpl; field). simpl INR. lra. }
  assert (exp (1 + 1) * rate s ^ 5 * sum f < 1 * sum f) by now apply Rmult_lt_compat_r. lra.
Qed.

(** * Theorem 3 *)

Section Faulty.
Variables (p : Z -> R) (theta : list bool -> Z) (restart : list bool -> bool) (m : list bool -> Z).

(** The probability of the answers [l] after [h], with count [c] and threshold noise [r], where the count survives
    the end of an epoch. *)
Fixpoint count_kept (c r : Z) (h l : list bool) : R :=
  match l with
  | [] => 1
  | b :: l' =>
      check p (theta h + r - (c + m h)) b *
      (if b || restart (b :: h) then sum (fun r' => p r' * count_kept (c + m h) r' (b :: h) l')
       else count_kept (c + m h) r (b :: h) l')
  end.

(** The same, where the count is zero after an epoch and the threshold noise stays. *)
Fixpoint noise_shared (c r : Z) (h l : list bool) : R :=
  match l with
  | [] => 1
  | b :: l' =>
      check p (theta h + r - (c + m h)) b *
      (if b || restart (b :: h) then noise_shared 0 r (b :: h) l' else noise_shared (c + m h) r (b :: h) l')
  end.
End Faulty.

(** Two worlds that differ by one in one check. *)
Definition neighbours (m m' : list bool -> Z) (touched : list bool -> bool) :=
  (forall h, touched h = false -> m h = m' h) /\
  (forall h, (Z.abs (m' h - m h) <= 1)%Z) /\
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []).

Definition first_check (n : Z) (h : list bool) : Z := match h with [] => n | _ => 0%Z end.
Definition at_first (h : list bool) : bool := match h with [] => true | _ => false end.

Lemma first_neighbours n n' : (Z.abs (n' - n) <= 1)%Z -> neighbours (first_check n) (first_check n') at_first.
Proof.
  intros B. split; [|split].
  - intros [|b h]; simpl; [discriminate|auto]. - intros [|b h]; simpl; lia.
  - intros [|b h] later T; [|discriminate]. rewrite app_nil_r. destruct later; auto; discriminate.
Qed.

Section Theorem_3_refuted.
Variable s : R.
Hypothesis s_pos : 0 < s.
Let p := one_sided s.

Lemma tail_unit x : 0 <= tail p x <= 1.
Proof. apply tail_bounds. now apply one_sided_law. Qed.

Lemma dominated (g : Z -> R) : (forall r, 0 <= g r <= 1) ->
  nonneg (fun r => p r * g r) /\ summable (fun r => p r * g r).
Proof.
  intros G. destruct (one_sided_law s s_pos) as (P & S & _). split.
  - intros r; apply Rmult_le_pos; [apply P|apply G].
  - apply summable_le with p; auto. intros r. rewrite <- (Rmult_1_r (p r)) at 2.
    apply Rmult_le_compat_l; [apply P|apply G].
Qed.

Lemma p_times_1 : sum (fun r => p r * 1) = 1.
Proof. destruct (one_sided_law s s_pos) as (_ & _ & E). rewrite (sum_ext _ p); auto. intros; ring. Qed.

(** Two checks that both fire, where world 0 has one mistake in the first and world 1 has none: the
    mistake is read twice. *)
Lemma kept_yes n :
  sum (fun r => p r * count_kept p (fun _ => 1%Z) (fun _ => false) (first_check n) 0 r [] [true; true]) =
  sum (fun r => p r * tail p (1 + r - n)) * sum (fun r => p r * tail p (1 + r - n)).
Proof.
  set (y := sum (fun r => p r * tail p (1 + r - n))).
  assert (0 <= y) as Y by (apply sum_nonneg, dominated; intros; apply tail_unit).
  unfold y at 1. rewrite <- sum_scal_r; auto; [|apply dominated; intros; apply tail_unit].
  apply sum_ext; intros r. cbn [count_kept orb first_check].
  rewrite check_true, Rmult_assoc. replace (1 + r - (0 + n))%Z with (1 + r - n)%Z by lia. f_equal. f_equal.
  apply sum_ext; intros r'. rewrite check_true, p_times_1, Rmult_1_r.
  now replace (1 + r' - (0 + n + 0))%Z with (1 + r' - n)%Z by lia.
Qed.

Theorem Theorem_3_count_kept_refuted :
  ~ (forall theta restart m m' touched l, neighbours m m' touched ->
       let run m := sum (fun r => p r * count_kept p theta restart m 0 r [] l) in
       run m <= exp (/ s) * run m').
Proof.
  intros Claim. specialize (Claim (fun _ => 1%Z) (fun _ => false) _ _ _ [true; true] (first_neighbours 1 0 ltac:(lia))).
  cbv beta zeta in Claim. rewrite !kept_yes in Claim. pose proof (rate_bounds s s_pos) as A.
  set (f := fun r => p r * tail p r). destruct (dominated (tail p) tail_unit) as [_ Sf]. fold f in Sf.
  rewrite (sum_ext (fun r => p r * tail p (1 + r - 1)) f) in Claim.
  2: { intros r. unfold f. f_equal. f_equal. lia. }
  rewrite (sum_ext (fun r => p r * tail p (1 + r - 0)) (fun r => rate s * f r)) in Claim.
  2: { intros r. unfold f, p. replace (1 + r - 0)%Z with (r + 1)%Z by lia. destruct (Z.leb_spec 0 r) as [R|R].
       - rewrite tail_step by auto. ring. - rewrite one_sided_below by lia. ring. }
  rewrite sum_scal in Claim; auto; [|lra].
  assert (0 < sum f) as X.
  { apply Rlt_le_trans with (f 0%Z); [|now apply term_le_sum]. unfold f, p. rewrite tail_0, one_sided_0; auto; lra. }
  apply (twice_is_too_much s (sum f * sum f)); auto; [now apply Rmult_lt_0_compat|].
  replace (rate s * rate s * (sum f * sum f)) with (rate s * sum f * (rate s * sum f)) by ring. exact Claim.
Qed.

(** A quiet check that world 1 reads with one mistake more, a public restart, then a firing: the noise
    that paid for the first is wrong for the second. *)
Lemma shared_no_yes n :
  sum (fun r => p r * noise_shared p (fun h => match h with [] => 1 | _ => 0 end)%Z (fun _ => true)
    (first_check n) 0 r [] [false; true]) = sum (fun r => p r * ((1 - tail p (1 + r - n)) * tail p r)).
Proof.
  apply sum_ext; intros r. cbn [noise_shared orb first_check].
    rewrite check_true, check_false by now apply one_sided_law.
  rewrite Rmult_1_r. replace (1 + r - (0 + n))%Z with (1 + r - n)%Z by lia.
  now replace (0 + r - (0 + 0))%Z with r by lia.
Qed.

Theorem Theorem_3_noise_shared_refuted :
  ~ (forall theta restart m m' touched l, neighbours m m' touched ->
       let run m := sum (fun r => p r * noise_shared p theta restart m 0 r [] l) in
       run m <= exp (/ s) * run m').
Proof.
  intros Claim. specialize (Claim (fun h => match h with [] => 1 | _ => 0 end)%Z (fun _ => true) _ _ _ [false; true]
    (first_neighbours 0 1 ltac:(lia))).
  cbv beta zeta in Claim. rewrite !shared_no_yes in Claim. pose proof (rate_bounds s s_pos) as A.
  assert (forall x y, 0 <= (1 - tail p x) * tail p y <= 1) as B.
  { intros x y. pose proof (tail_unit x). pose proof (tail_unit y). split; [apply Rmult_le_pos; lra|].
    replace 1 with (1 * 1) at 2 by ring. apply Rmult_le_compat; lra. }
  set (f := fun r => p r * ((1 - tail p (1 + r - 0)) * tail p r)) in *.
  destruct (dominated (fun r => (1 - tail p (1 + r - 0)) * tail p r)) as [_ Sf]; [intros; apply B|]. fold f in Sf.
  destruct (dominated (fun r => (1 - tail p (1 + r - 1)) * tail p r)) as [Pg _]; [intros; apply B|].
  destruct (sum_shift _ 1 Pg) as [_ Sh].
  assert (sum (fun r => p r * ((1 - tail p (1 + r - 1)) * tail p r)) = rate s * rate s * sum f) as Eq.
  { rewrite Sh, <- sum_scal; auto; [|apply Rmult_le_pos; lra]. apply sum_ext; intros r. unfold f, p.
    replace (1 + (r + 1) - 1)%Z with (r + 1)%Z by lia. replace (1 + r - 0)%Z with (r + 1)%Z by lia.
    destruct (Z.leb_spec 0 r) as [R|R].
    - rewrite one_sided_step, tail_step by auto. ring.
    - rewrite (one_sided_below s r) by lia. destruct (Z.eq_dec r (- 1)) as [->|N].
      + simpl. rewrite tail_0 by auto. ring.
      + rewrite one_sided_below by lia. ring. }
  rewrite Eq in Claim.
  assert (0 < sum f) as X.
  { apply Rlt_le_trans with (f 0%Z); [|now apply term_le_sum]. unfold f, p. simpl.
    replace (tail (one_sided s) 1) with (rate s * tail (one_sided s) 0) by (symmetry; apply (tail_step s 0); auto; lia).
    rewrite tail_0, one_sided_0 by auto. apply Rmult_lt_0_compat; lra. }
  now apply (twice_is_too_much s (sum f)).
Qed.
End Theorem_3_refuted.

(** * Theorem 6 *)

(** Two candidates: the underdog gains [D] while the favourite loses [D]. *)
Theorem Theorem_6_rate_refuted e D : 0 < e -> 0 < D ->
  ~ (forall score score' : bool -> R, (forall x, Rabs (score' x - score x) <= D) ->
       pure e (exponential (fun _ => 1) (e / D) score) (exponential (fun _ => 1) (e / D) score')).
Proof.
  intros E HD Claim.
  specialize (Claim (fun _ => - D) (fun b => if b then - 2 * D else 0)).
  assert (forall x : bool, Rabs ((if x then - 2 * D else 0) - - D) <= D) as M.
  { intros [|]; unfold Rabs; destruct Rcase_abs; lra. }
  specialize (Claim M true). unfold exponential in Claim.
  assert (forall score : bool -> R, sum (weigh (fun _ => 1) (e / D) score) =
            exp (e / D * score true) + exp (e / D * score false)) as Total.
  { intros score. destruct (sum_finite (weigh (fun _ => 1) (e / D) score) [true; false]) as [_ ->].
    - apply weigh_nonneg. intros b; lra.
    - repeat constructor; simpl; intuition discriminate.
    - intros [|] B; simpl in B; tauto.
    - simpl. unfold weigh. ring. }
  rewrite !Total in Claim. unfold weigh in Claim.
  replace (e / D * - D) with (- e) in Claim by (field; lra).
  replace (e / D * (- 2 * D)) with (- e + - e) in Claim by (field; lra).
  rewrite Rmult_0_r, exp_0, exp_plus, !Rmult_1_l in Claim.
  pose proof (exp_pos (- e)) as P. set (a := exp (- e)) in *.
  assert (exp e = / a) as Ea by (unfold a; rewrite exp_Ropp, Rinv_inv; reflexivity).
  assert (a < 1) as A by (unfold a; rewrite <- exp_0; apply exp_lt; lra).
  assert (0 < a * a) by now apply Rmult_lt_0_compat.
  rewrite Ea in Claim. apply Rmult_le_compat_r with (r := 2 * (a * a + 1)) in Claim; [|lra].
  replace (a / (a + a) * (2 * (a * a + 1))) with (a * a + 1) in Claim by (field; lra).
  replace (/ a * (a * a / (a * a + 1)) * (2 * (a * a + 1))) with (2 * a) in Claim by (field; lra).
  assert (0 < (1 - a) * (1 - a)) by (apply Rmult_lt_0_compat; lra). lra.
Qed.

(** * Draws that read a round twice *)

Section Twice.
Variable d : R.
Hypothesis d_pos : 0 < d < 1.

(** In world 0 a step tells all with probability [d]; in world 1 never. *)
Definition tells (told : bool) : R := if told then d else 1 - d.

Lemma tells_law : is_law tells.
Proof.
  destruct (sum_finite tells [true; false]) as [S E].
  - intros [|]; simpl; lra.
  - repeat constructor; simpl; intuition discriminate.
  - intros [|] B; simpl in B; tauto.
  - split; [intros [|]; simpl; lra|split; auto]. rewrite E; simpl; ring.
Qed.

Lemma tells_close : close 0 d tells (ret false).
Proof.
  intros S. unfold prob. rewrite exp_0, Rmult_1_l.
  assert (forall q : bool -> R, nonneg q -> sum (on S q) = on S q true + on S q false) as Two.
  { intros q Q. destruct (sum_finite (on S q) [true; false]) as [_ ->]; [now apply on_nonneg| | |simpl; ring].
    - repeat constructor; simpl; intuition discriminate.
    - intros [|] B; simpl in B; tauto. }
  rewrite !Two; [|apply ret_law|apply tells_law]. unfold on, ret, tells.
  destruct (S true), (S false); destruct (eq_dec false true), (eq_dec false false); try discriminate; try tauto; lra.
Qed.

Definition steps (s : list bool -> bool -> R) (law : forall h, is_law (s h)) : list bool -> R :=
  transcripts _ (drawn_only s law) 2.

Lemma two_steps : ~ close 0 d (steps (fun _ => tells) (fun _ => tells_law)) (steps (fun _ => ret false) (fun _ => ret_law _)).
Proof.
  intros C. unfold steps in C.
  apply close_lists with (l := [[true; true]; [true; false]; [false; true]]) in C; try apply transcripts_law.
  - simpl in C. unfold transcripts in C; simpl in C. unfold ret in C. rewrite exp_0 in C.
    destruct (eq_dec false true); [discriminate|]. assert (0 < d * (1 - d)) by (apply Rmult_lt_0_compat; lra). lra.
  - repeat constructor; simpl; intuition discriminate.
Qed.

(** Two draws that differ, and one that is charged. *)
Theorem Filter_refuted :
  ~ (forall (s s' : list bool -> bool -> R) (law : forall h, is_law (s h)) (law' : forall h, is_law (s' h)),
       (forall h, close 0 d (s h) (s' h)) -> close 0 d (steps s law) (steps s' law')).
Proof. intros Claim. apply two_steps, Claim. intros h. apply tells_close. Qed.
End Twice.
