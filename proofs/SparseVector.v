(** Theorem 2 of docs/guarantee.md: sparse vector with at most c firings, any number of checks.

    How it corresponds. Queries and thresholds are functions of the answers so far, newest first, so the
    stream may react: [q] is world 0, [q'] world 1, [theta] is public and the same in both. The law is a
    program: threshold noise r is drawn once from [p_T], each check draws its own noise from [p_Q] and
    answers whether it is at least [theta h + r - q h]; after [c] firings all answers are "no". The noise
    may have any law with property (U) (Lemma 1: the discrete Laplace law and the one-sided law), of
    scale D/e1 for the threshold and 2cD/e2 for the queries. The replaced example moves every query by
    at most D, in either direction. Theorem_2 bounds the probability of every list of answers,
    Theorem_2_close that of every event; Theorem_2_laplace and Theorem_2_one_sided name the noise. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts.
Import ListNotations.
Open Scope R_scope.

Section Program.
Variables p_T p_Q : Z -> R.
Variable theta : list bool -> Z.

(** [left]: firings that are left; [h]: answers so far; [n]: checks to come. *)
Fixpoint answers (q : list bool -> Z) (r : Z) (left : nat) (h : list bool) (n : nat) : list bool -> R :=
  match n with
  | O => ret []
  | S m =>
      match left with
      | O => next (ret false) (fun b => answers q r O (b :: h) m)
      | S few => next (check p_Q (theta h + r - q h))
                      (fun b : bool => answers q r (if b then few else left) (b :: h) m)
      end
  end.

Definition sparse_vector (c : nat) (q : list bool -> Z) (n : nat) : list bool -> R :=
  bind p_T (fun r => answers q r c [] n).

Lemma answers_law q r : is_law p_Q -> forall n left h, is_law (answers q r left h n).
Proof.
  intros L; induction n; intros left h; simpl; [apply ret_law|].
  destruct left; apply next_law; auto; [apply ret_law|now apply check_law].
Qed.

Lemma sparse_vector_law c q n : is_law p_T -> is_law p_Q -> is_law (sparse_vector c q n).
Proof. intros LT LQ; apply bind_law; auto. intros; now apply answers_law. Qed.
End Program.

Section Proof.
Variables (p_T p_Q : Z -> R) (theta q q' : list bool -> Z) (D c : nat) (e1 e2 : R).
Hypothesis D_pos : (0 < D)%nat.
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis threshold_noise : noise (INR D / e1) p_T.
Hypothesis query_noise : noise (2 * INR c * INR D / e2) p_Q.
Hypothesis sensitivity : forall h, (Z.abs (q h - q' h) <= Z.of_nat D)%Z.

Let s_Q := 2 * INR c * INR D / e2.

Lemma D_R : 0 < INR D. Proof. now apply lt_0_INR. Qed.
Lemma c_R : 0 < INR c. Proof. now apply lt_0_INR. Qed.
Lemma s_Q_pos : 0 < s_Q.
Proof.
  pose proof D_R; pose proof c_R. unfold s_Q. apply Rmult_lt_0_compat; [|now apply Rinv_0_lt_compat].
  apply Rmult_lt_0_compat; auto. apply Rmult_lt_0_compat; lra.
Qed.

(** A "yes" costs at most 2D/(query scale) = e2/c. *)
Lemma yes_costs x y : (y <= x + 2 * Z.of_nat D)%Z -> check p_Q x true <= exp (e2 / INR c) * check p_Q y true.
Proof.
  intros H. pose proof D_R; pose proof c_R.
  replace (e2 / INR c) with (INR (2 * D) / s_Q).
  - apply check_yes; [apply s_Q_pos|exact query_noise|lia].
  - unfold s_Q. rewrite mult_INR. simpl INR. field. repeat split; lra.
Qed.

(** With threshold noise r against r + D, only the firings that are left cost anything. *)
Lemma answers_ratio : forall n r left h l,
  answers p_Q theta q r left h n l <=
  exp (INR left * (e2 / INR c)) * answers p_Q theta q' (r + Z.of_nat D) left h n l.
Proof.
  assert (is_law p_Q) as LQ by apply query_noise.
  assert (0 < e2 / INR c) as E by (apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat, c_R).
  assert (forall q r left h n, nonneg (answers p_Q theta q r left h n)) as P.
  { intros; now apply answers_law. }
  induction n; intros r left h l.
  - simpl. rewrite <- (Rmult_1_l (ret [] l)) at 1. apply Rmult_le_compat_r.
    + unfold ret; destruct eq_dec; lra.
    + rewrite <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|lra].
  - destruct l as [|b l].
    { destruct left; simpl; rewrite !next_nil; auto; lra. }
    destruct left as [|few]; simpl answers.
    + assert (nonneg (ret false)) as PR by apply ret_law.
      rewrite !next_cons; auto.
      replace (exp (INR 0 * (e2 / INR c)) * (ret false b * answers p_Q theta q' (r + Z.of_nat D) 0 (b :: h) n l))
        with (ret false b * (exp (INR 0 * (e2 / INR c)) * answers p_Q theta q' (r + Z.of_nat D) 0 (b :: h) n l)) by ring.
      apply Rmult_le_compat_l; auto.
    + rewrite !next_cons; auto; try (intros x; now apply check_nonneg).
      specialize (sensitivity h).
      set (x := (theta h + r - q h)%Z). set (y := (theta h + (r + Z.of_nat D) - q' h)%Z).
      assert (x <= y)%Z by lia. assert (y <= x + 2 * Z.of_nat D)%Z by lia.
      pose proof (check_nonneg p_Q x b LQ) as Nx. pose proof (check_nonneg p_Q y b LQ) as Ny.
      destruct b.
      * rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus.
        replace (exp (INR few * (e2 / INR c)) * exp (e2 / INR c) *
                 (check p_Q y true * answers p_Q theta q' (r + Z.of_nat D) few (true :: h) n l))
          with ((exp (e2 / INR c) * check p_Q y true) *
                (exp (INR few * (e2 / INR c)) * answers p_Q theta q' (r + Z.of_nat D) few (true :: h) n l)) by ring.
        apply Rmult_le_compat; auto; [apply P|now apply yes_costs].
      * replace (exp (INR (S few) * (e2 / INR c)) *
                 (check p_Q y false * answers p_Q theta q' (r + Z.of_nat D) (S few) (false :: h) n l))
          with (check p_Q y false *
                (exp (INR (S few) * (e2 / INR c)) * answers p_Q theta q' (r + Z.of_nat D) (S few) (false :: h) n l)) by ring.
        apply Rmult_le_compat; auto; [apply P|now apply check_no].
Qed.

Theorem Theorem_2 n : pure (e1 + e2) (sparse_vector p_T p_Q theta c q n) (sparse_vector p_T p_Q theta c q' n).
Proof.
  intros l. unfold sparse_vector, bind.
  assert (is_law p_T) as (PT & ST & _) by apply threshold_noise.
  assert (is_law p_Q) as LQ by apply query_noise.
  pose proof D_R; pose proof c_R.
  set (f := fun r => p_T r * answers p_Q theta q' r c [] n l).
  assert (forall q r, 0 <= answers p_Q theta q r c [] n l <= 1) as Bd.
  { intros q0 r. pose proof (answers_law p_Q theta q0 r LQ n c []) as L. split; [apply L|].
    apply sub_le_1; now apply law_sub. }
  assert (nonneg f) as Pf by (intros r; apply Rmult_le_pos; [apply PT|apply Bd]).
  assert (summable f) as Sf.
  { apply summable_le with p_T; auto. intros r; unfold f. rewrite <- (Rmult_1_r (p_T r)) at 2.
    apply Rmult_le_compat_l; [apply PT|apply Bd]. }
  destruct (sum_shift f (Z.of_nat D) Pf) as [Sh ->].
  assert (summable (fun r => f (r + Z.of_nat D)%Z)) as Sf1 by now apply Sh.
  rewrite <- sum_scal; auto; [|apply exp_pos_le].
  apply sum_le; [|apply summable_scal; auto; apply exp_pos_le].
  intros r. unfold f. rewrite exp_plus.
  replace (exp e1 * exp e2 * (p_T (r + Z.of_nat D)%Z * answers p_Q theta q' (r + Z.of_nat D) c [] n l))
    with ((exp e1 * p_T (r + Z.of_nat D)%Z) * (exp e2 * answers p_Q theta q' (r + Z.of_nat D) c [] n l)) by ring.
  apply Rmult_le_compat; [apply PT|apply Bd| |].
  - replace e1 with (INR D / (INR D / e1)) at 1 by (field; split; lra).
    apply U_by; [|apply threshold_noise]. apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
  - replace (exp e2) with (exp (INR c * (e2 / INR c))) by (f_equal; field; lra).
    apply answers_ratio.
Qed.

Corollary Theorem_2_close n :
  close (e1 + e2) 0 (sparse_vector p_T p_Q theta c q n) (sparse_vector p_T p_Q theta c q' n).
Proof.
  destruct (sparse_vector_law p_T p_Q theta c q' n) as (P & S & _);
    [apply threshold_noise|apply query_noise|]. apply pure_close; auto. apply Theorem_2.
Qed.
End Proof.

(** The two laws that the code draws from. Worlds may be exchanged, since the hypothesis is symmetric. *)
Section Named.
Variables (theta q q' : list bool -> Z) (D c : nat) (e1 e2 : R).
Hypothesis D_pos : (0 < D)%nat.
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis sensitivity : forall h, (Z.abs (q h - q' h) <= Z.of_nat D)%Z.

Lemma scales_pos : 0 < INR D / e1 /\ 0 < 2 * INR c * INR D / e2.
Proof.
  assert (0 < INR D) by now apply lt_0_INR. assert (0 < INR c) by now apply lt_0_INR.
  split; repeat (apply Rmult_lt_0_compat; auto); try lra; now apply Rinv_0_lt_compat.
Qed.

Corollary Theorem_2_laplace n :
  let run q := sparse_vector (laplace (INR D / e1)) (laplace (2 * INR c * INR D / e2)) theta c q n in
  close (e1 + e2) 0 (run q) (run q').
Proof. destruct scales_pos. apply (Theorem_2_close _ _ _ _ _ D); auto; now apply Lemma_1_laplace. Qed.

Corollary Theorem_2_one_sided n :
  let run q := sparse_vector (one_sided (INR D / e1)) (one_sided (2 * INR c * INR D / e2)) theta c q n in
  close (e1 + e2) 0 (run q) (run q').
Proof. destruct scales_pos. apply (Theorem_2_close _ _ _ _ _ D); auto; now apply Lemma_1_one_sided. Qed.
End Named.
