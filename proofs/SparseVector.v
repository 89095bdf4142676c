(** Theorem 2 of docs/guarantee.md: sparse vector with at most c firings, any number of checks.

    How it corresponds. An event of the transcript has a type [A]; after a history that [asks] it is the answer
    of a check, and says whether the query exceeded ([fired a]). For sparse vector alone [A = bool], in HistSparse.v
    keys are events too. Queries
    and thresholds are functions of the steps so far, newest first, so the stream may react: [q] is
    world 0, [q'] world 1, [theta] is public and the same in both. Threshold noise r is drawn once from
    [p_T], each check draws its own noise from [p_Q] and answers whether it is at least
    [theta h + r - q h]; after [c] firings all answers are "no". The noise may have any law with property
    (U) (Lemma 1), of scale D/e1 for the threshold and 2cD/e2 for the queries. The replaced example moves
    every query by at most D, in either direction.
    [given r left h l] is the probability of the answers in the steps [l] given what else is in them,
    [sparse_vector] the program that draws the answers, and [sparse_vector_weight] says that they agree.
    Theorem_2 bounds the probability of every list of answers, Theorem_2_close that of every event, with
    the discrete Laplace noise that the code draws; Theorem_2_one_sided with one-sided noise. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts.
Import ListNotations.
Open Scope R_scope.

Section Weight.
Context {A : Type}.
Variable fired : A -> bool.
Variable asks : list A -> bool.
Variables p_T p_Q : Z -> R.
Variable theta : list A -> Z.

(** [left]: firings that are left; [h]: steps so far; [l]: steps to come. *)
Fixpoint given (q : list A -> Z) (r : Z) (left : nat) (h l : list A) : R :=
  match l with
  | [] => 1
  | a :: l' =>
      if asks h then
        match left with
        | O => (if fired a then 0 else 1) * given q r O (a :: h) l'
        | S few => check p_Q (theta h + r - q h) (fired a) *
                   given q r (if fired a then few else left) (a :: h) l'
        end
      else given q r left (a :: h) l'
  end.

Definition sv_weight (c : nat) (q : list A -> Z) (l : list A) : R := sum (fun r => p_T r * given q r c [] l).

Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.

Lemma given_bounds q r : forall l left h, 0 <= given q r left h l <= 1.
Proof.
  assert (forall x y, 0 <= x <= 1 -> 0 <= y <= 1 -> 0 <= x * y <= 1) as M.
  { intros x y X Y. split; [apply Rmult_le_pos; tauto|]. replace 1 with (1 * 1) by ring. apply Rmult_le_compat; tauto. }
  induction l as [|a l IH]; intros left h; simpl; [lra|]. destruct (asks h); auto.
  destruct left; apply M; auto; [destruct (fired a); lra|].
  split; [now apply check_nonneg|]. apply sub_le_1, law_sub. now apply check_law.
Qed.

Lemma given_summable q c l : nonneg (fun r => p_T r * given q r c [] l) /\ summable (fun r => p_T r * given q r c [] l).
Proof.
  destruct LT as (P & S & _). split.
  - intros r; apply Rmult_le_pos; [apply P|apply given_bounds].
  - apply summable_le with p_T; auto. intros r. rewrite <- (Rmult_1_r (p_T r)) at 2.
    apply Rmult_le_compat_l; [apply P|apply given_bounds].
Qed.

(** The last answer is one or the other. *)
Lemma given_total q r yes no : fired yes = true -> fired no = false -> forall l left h, asks (rev l ++ h) = true ->
  given q r left h (l ++ [yes]) + given q r left h (l ++ [no]) = given q r left h l.
Proof.
  intros Y N; induction l as [|b l IH]; intros left h Ask; simpl in *.
  - rewrite Ask, Y, N, check_true, check_false by auto. destruct left; ring.
  - rewrite <- app_assoc in Ask. destruct (asks h); auto. destruct left; rewrite <- Rmult_plus_distr_l; now rewrite IH.
Qed.

Lemma given_passed q r a : forall l left h, asks (rev l ++ h) = false ->
  given q r left h (l ++ [a]) = given q r left h l.
Proof.
  induction l as [|b l IH]; intros left h Ask; simpl in *; [now rewrite Ask|].
  rewrite <- app_assoc in Ask. destruct (asks h); auto. destruct left; now rewrite IH.
Qed.

Lemma sv_nil c q : sv_weight c q [] = 1.
Proof. unfold sv_weight; simpl. rewrite (sum_ext _ p_T); [apply LT|intros; ring]. Qed.

Lemma sv_passed c q a l : asks (rev l) = false -> sv_weight c q (l ++ [a]) = sv_weight c q l.
Proof. intros Ask; apply sum_ext; intros; f_equal. apply given_passed. now rewrite app_nil_r. Qed.

Lemma sv_total c q yes no l : fired yes = true -> fired no = false -> asks (rev l) = true ->
  sv_weight c q (l ++ [yes]) + sv_weight c q (l ++ [no]) = sv_weight c q l.
Proof.
  intros Y N Ask. unfold sv_weight. rewrite <- sum_plus; try apply given_summable.
  apply sum_ext; intros x. rewrite <- Rmult_plus_distr_l, given_total; auto. now rewrite app_nil_r.
Qed.

Section Ratio.
Variables (q q' : list A -> Z) (D c : nat) (e1 e2 : R).
Hypothesis D_pos : (0 < D)%nat.
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis UT : U (INR D / e1) p_T.
Hypothesis UQ : U (2 * INR c * INR D / e2) p_Q.
Hypothesis sensitivity : forall h, (Z.abs (q h - q' h) <= Z.of_nat D)%Z.

(** A "yes" costs at most 2D/(query scale) = e2/c. *)
Lemma yes_costs x y : (y <= x + 2 * Z.of_nat D)%Z -> check p_Q x true <= exp (e2 / INR c) * check p_Q y true.
Proof.
  intros H. assert (0 < INR D) by now apply lt_0_INR. assert (0 < INR c) by now apply lt_0_INR.
  replace (e2 / INR c) with (INR (2 * D) / (2 * INR c * INR D / e2)).
  - apply check_yes; [|now split|lia]. apply Rmult_lt_0_compat; [|now apply Rinv_0_lt_compat].
    apply Rmult_lt_0_compat; auto. lra.
  - rewrite mult_INR. simpl INR. field. repeat split; lra.
Qed.

(** With threshold noise r against r + D, only the firings that are left cost anything. *)
Lemma given_ratio : forall l r left h,
  given q r left h l <= exp (INR left * (e2 / INR c)) * given q' (r + Z.of_nat D) left h l.
Proof.
  assert (0 < e2 / INR c) as E.
  { apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat, lt_0_INR. }
  induction l as [|a l IH]; intros r left h.
  - simpl. rewrite Rmult_1_r, <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|lra].
  - simpl given. destruct (asks h); auto. destruct left as [|few].
    + replace (exp (INR 0 * (e2 / INR c)) * ((if fired a then 0 else 1) * given q' (r + Z.of_nat D) 0 (a :: h) l))
        with ((if fired a then 0 else 1) *
              (exp (INR 0 * (e2 / INR c)) * given q' (r + Z.of_nat D) 0 (a :: h) l)) by ring.
      apply Rmult_le_compat_l; auto. destruct (fired a); lra.
    + specialize (sensitivity h).
      set (x := (theta h + r - q h)%Z). set (y := (theta h + (r + Z.of_nat D) - q' h)%Z).
      assert (x <= y)%Z by lia. assert (y <= x + 2 * Z.of_nat D)%Z by lia.
      pose proof (check_nonneg p_Q x (fired a) LQ) as Nx. destruct (fired a).
      * rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus.
        replace (exp (INR few * (e2 / INR c)) * exp (e2 / INR c) *
                 (check p_Q y true * given q' (r + Z.of_nat D) few (a :: h) l))
          with ((exp (e2 / INR c) * check p_Q y true) *
                (exp (INR few * (e2 / INR c)) * given q' (r + Z.of_nat D) few (a :: h) l)) by ring.
        apply Rmult_le_compat; auto; [apply given_bounds|now apply yes_costs].
      * replace (exp (INR (S few) * (e2 / INR c)) *
                 (check p_Q y false * given q' (r + Z.of_nat D) (S few) (a :: h) l))
          with (check p_Q y false *
                (exp (INR (S few) * (e2 / INR c)) * given q' (r + Z.of_nat D) (S few) (a :: h) l)) by ring.
        apply Rmult_le_compat; auto; [apply given_bounds|now apply check_no].
Qed.

Theorem sparse_vector_given_keys l : sv_weight c q l <= exp (e1 + e2) * sv_weight c q' l.
Proof.
  assert (0 < INR D) by now apply lt_0_INR. assert (0 < INR c) by now apply lt_0_INR.
  destruct (given_summable q' c l) as [Pf Sf]. destruct LT as (PT & _ & _). unfold sv_weight.
  destruct (sum_shift _ (Z.of_nat D) Pf) as [Sh ->].
  assert (summable (fun r => p_T (r + Z.of_nat D)%Z * given q' (r + Z.of_nat D) c [] l)) as S1 by now apply Sh.
  rewrite <- sum_scal; auto; [|apply exp_pos_le].
  apply sum_le; [|apply summable_scal; auto; apply exp_pos_le].
  intros r. rewrite exp_plus.
  replace (exp e1 * exp e2 * (p_T (r + Z.of_nat D)%Z * given q' (r + Z.of_nat D) c [] l))
    with ((exp e1 * p_T (r + Z.of_nat D)%Z) * (exp e2 * given q' (r + Z.of_nat D) c [] l)) by ring.
  apply Rmult_le_compat; [apply PT|apply given_bounds| |].
  - replace e1 with (INR D / (INR D / e1)) at 1 by (field; split; lra).
    apply U_by; auto. apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
  - replace (exp e2) with (exp (INR c * (e2 / INR c))) by (f_equal; field; lra).
    apply given_ratio.
Qed.
End Ratio.
End Weight.

(** * Sparse vector alone: a program that draws a list of answers *)

Section Program.
Variables p_T p_Q : Z -> R.
Variable theta : list bool -> Z.
Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.

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

Lemma answers_law q r : forall n left h, is_law (answers q r left h n).
Proof.
  induction n; intros left h; simpl; [apply ret_law|].
  destruct left; apply next_law; auto; [apply ret_law|now apply check_law].
Qed.

Lemma sparse_vector_law c q n : is_law (sparse_vector c q n).
Proof. apply bind_law; auto. intros; now apply answers_law. Qed.

Lemma answers_weight q r : forall n left h l, answers q r left h n l =
  if Nat.eq_dec (length l) n then given (fun b => b) (fun _ => true) p_Q theta q r left h l else 0.
Proof.
  assert (forall n left h, nonneg (answers q r left h n)) as P by (intros; apply answers_law).
  induction n; intros left h [|b l]; simpl answers.
  - unfold ret. destruct (eq_dec (@nil bool) []); [reflexivity|tauto].
  - unfold ret. destruct (eq_dec [] (b :: l)); [discriminate|reflexivity].
  - destruct left; rewrite next_nil; auto.
  - assert (length (b :: l) = S (length l)) as -> by reflexivity.
    destruct left as [|few]; (rewrite next_cons; auto; [|try apply ret_law; now intros x; apply check_nonneg]);
      rewrite IHn; simpl given; destruct (Nat.eq_dec (length l) n), (Nat.eq_dec (S (length l)) (S n)); try lia;
        try ring.
    f_equal. unfold ret. destruct b; destruct eq_dec; try discriminate; tauto.
Qed.

Lemma sparse_vector_weight c q n l : sparse_vector c q n l =
  if Nat.eq_dec (length l) n then sv_weight (fun b => b) (fun _ => true) p_T p_Q theta c q l else 0.
Proof.
  unfold sparse_vector, bind, sv_weight.
  rewrite (sum_ext _ (fun r => p_T r * if Nat.eq_dec (length l) n then given (fun b => b) (fun _ => true) p_Q theta q r c [] l else 0)).
  - destruct (Nat.eq_dec (length l) n); auto. rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|intros; ring].
  - intros r. now rewrite answers_weight.
Qed.

(** Every list of answers, whatever the noise, if it has property (U). *)
Theorem Theorem_2 q q' (D c : nat) e1 e2 n : (0 < D)%nat -> (0 < c)%nat -> 0 < e1 -> 0 < e2 ->
  U (INR D / e1) p_T -> U (2 * INR c * INR D / e2) p_Q ->
  (forall h, (Z.abs (q h - q' h) <= Z.of_nat D)%Z) ->
  pure (e1 + e2) (sparse_vector c q n) (sparse_vector c q' n).
Proof.
  intros HD Hc E1 E2 UT UQ Sens l. rewrite !sparse_vector_weight. destruct (Nat.eq_dec (length l) n); [|lra].
  now apply sparse_vector_given_keys with D.
Qed.
End Program.

(** The two laws of Lemma 1, every event. Exchange the worlds for the other direction: the hypothesis is
    symmetric. *)
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

Theorem Theorem_2_close n :
  let run q := sparse_vector (laplace (INR D / e1)) (laplace (2 * INR c * INR D / e2)) theta c q n in
  close (e1 + e2) 0 (run q) (run q').
Proof.
  destruct scales_pos as [S1 S2]. destruct (Lemma_1_laplace _ S1), (Lemma_1_laplace _ S2).
  apply pure_close; try now apply sparse_vector_law. now apply Theorem_2 with D.
Qed.

Theorem Theorem_2_one_sided n :
  let run q := sparse_vector (one_sided (INR D / e1)) (one_sided (2 * INR c * INR D / e2)) theta c q n in
  close (e1 + e2) 0 (run q) (run q').
Proof.
  destruct scales_pos as [S1 S2]. destruct (Lemma_1_one_sided _ S1), (Lemma_1_one_sided _ S2).
  apply pure_close; try now apply sparse_vector_law. now apply Theorem_2 with D.
Qed.
End Named.
