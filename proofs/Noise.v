(** Lemma 1 of docs/guarantee.md: what all noise here has in common, property (U).

    As there, with [a = exp (- 1/s)] for noise of scale [s > 0]:
      laplace s k   = (1-a)/(1+a) a^|k|      on the integers
      one_sided s k = (1-a) a^k              for k >= 0, and 0 below
      U s p         = forall k, p k <= exp (1/s) p (k+1)
      tail p x      = P(noise >= x)
    Lemma_1_laplace, Lemma_1_one_sided: both are laws (their values sum to 1) and satisfy (U).
    Lemma_1_tail: (U), summed over k >= x. Lemma_1_fold: k and -k-1 together make the one-sided law.
    Lemma_1_raised: a scale that is rounded up keeps (U).
    Lemma_1_mirror, Lemma_1_no_mirror: the mirror image of (U) holds for one and not for the other.
    "Checks by probability" (the draw of an answer from 64 bits at a time) is not modelled here: a check
    is an event of its noise. *)

From Coq Require Import Reals List Lra Lia ZArith.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope R_scope.

Definition rate (s : R) : R := exp (- / s).
Definition laplace (s : R) (k : Z) : R := (1 - rate s) / (1 + rate s) * rate s ^ Z.abs_nat k.
Definition one_sided (s : R) (k : Z) : R :=
  if (0 <=? k)%Z then (1 - rate s) * rate s ^ Z.abs_nat k else 0.

Definition U (s : R) (p : Z -> R) := forall k : Z, p k <= exp (/ s) * p (k + 1)%Z.
Definition tail (p : Z -> R) (x : Z) : R := prob p (fun k => (x <=? k)%Z).

(** What the proofs of the mechanisms ask of their noise. *)
Definition noise (s : R) (p : Z -> R) := is_law p /\ U s p.

Lemma rate_bounds s : 0 < s -> 0 < rate s < 1.
Proof.
  intros S; unfold rate; split; [apply exp_pos|]. rewrite <- exp_0.
  apply exp_lt. assert (0 < / s) by now apply Rinv_0_lt_compat. lra.
Qed.

Lemma rate_exp s : exp (/ s) * rate s = 1.
Proof. unfold rate. rewrite <- exp_plus, Rplus_opp_r. apply exp_0. Qed.

Lemma exp_inv_ge_1 s : 0 < s -> 1 <= exp (/ s).
Proof. intros S. rewrite <- exp_0. apply exp_le. left; now apply Rinv_0_lt_compat. Qed.

(** * Both are laws *)

Fixpoint interval (n : nat) : list Z :=
  match n with O => [0%Z] | S m => Z.of_nat n :: (- Z.of_nat n)%Z :: interval m end.

Lemma interval_In n x : In x (interval n) <-> (- Z.of_nat n <= x <= Z.of_nat n)%Z.
Proof.
  induction n; [simpl; lia|].
  change (interval (S n)) with (Z.of_nat (S n) :: (- Z.of_nat (S n))%Z :: interval n).
  simpl In. rewrite IHn. lia.
Qed.

Lemma interval_NoDup n : NoDup (interval n).
Proof.
  induction n; [constructor; simpl; auto; constructor|].
  change (interval (S n)) with (Z.of_nat (S n) :: (- Z.of_nat (S n))%Z :: interval n).
  constructor; [|constructor; auto].
  - simpl. rewrite interval_In. lia.
  - rewrite interval_In. lia.
Qed.

(** A non-negative function on the integers sums to 1 if its sums over [-n, n] come to 1 - c a^n. *)
Lemma law_by_intervals a c (p : Z -> R) : 0 < a < 1 -> 0 < c -> nonneg p ->
  (forall n, lsum p (interval n) = 1 - c * a ^ n) -> is_law p.
Proof.
  intros A C P E. destruct (has_sum_by_lists p 1 interval) as [S Eq]; auto.
  - apply interval_NoDup.
  - intros n x; rewrite !interval_In; lia.
  - intros x; exists (Z.abs_nat x); rewrite interval_In; lia.
  - intros n; rewrite E. assert (0 < c * a ^ n); [|lra]. apply Rmult_lt_0_compat; auto. now apply pow_lt.
  - intros e He. destruct (pow_lt_1_zero a) with (y := e / c) as [N HN].
    + rewrite Rabs_right; lra.
    + apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
    + exists N. rewrite E. specialize (HN N (le_n N)). rewrite Rabs_right in HN by (left; now apply pow_lt).
      apply Rmult_lt_compat_l with (r := c) in HN; auto.
      replace (c * (e / c)) with e in HN by (field; lra). lra.
  - repeat split; auto.
Qed.

Lemma laplace_law s : 0 < s -> is_law (laplace s).
Proof.
  intros S. pose proof (rate_bounds s S) as A. set (a := rate s) in *.
  apply law_by_intervals with a (2 * a / (1 + a)); auto.
  - apply Rmult_lt_0_compat; [lra|]. apply Rinv_0_lt_compat; lra.
  - intros k; unfold laplace; fold a. apply Rmult_le_pos; [|left; apply pow_lt; lra].
    apply Rmult_le_pos; [lra|]. left; apply Rinv_0_lt_compat; lra.
  - induction n.
    + simpl. unfold laplace; fold a; simpl. field; lra.
    + change (interval (Datatypes.S n)) with
        (Z.of_nat (Datatypes.S n) :: (- Z.of_nat (Datatypes.S n))%Z :: interval n).
      cbn [lsum]. rewrite IHn. unfold laplace; fold a.
      replace (Z.abs_nat (Z.of_nat (Datatypes.S n))) with (Datatypes.S n) by lia.
      replace (Z.abs_nat (- Z.of_nat (Datatypes.S n))) with (Datatypes.S n) by lia.
      simpl. field; lra.
Qed.

Lemma one_sided_law s : 0 < s -> is_law (one_sided s).
Proof.
  intros S. pose proof (rate_bounds s S) as A. set (a := rate s) in *.
  apply law_by_intervals with a a; auto; [lra| |].
  - intros k; unfold one_sided; fold a. destruct (0 <=? k)%Z; [|lra].
    apply Rmult_le_pos; [lra|left; apply pow_lt; lra].
  - induction n.
    + simpl. unfold one_sided; fold a; simpl. ring.
    + change (interval (Datatypes.S n)) with
        (Z.of_nat (Datatypes.S n) :: (- Z.of_nat (Datatypes.S n))%Z :: interval n).
      cbn [lsum]. rewrite IHn. unfold one_sided; fold a.
      destruct (Z.leb_spec 0 (Z.of_nat (Datatypes.S n))); [|lia].
      destruct (Z.leb_spec 0 (- Z.of_nat (Datatypes.S n))); [lia|].
      replace (Z.abs_nat (Z.of_nat (Datatypes.S n))) with (Datatypes.S n) by lia.
      simpl. ring.
Qed.

(** * Going up by one costs at most 1/s *)

Lemma laplace_U s : 0 < s -> U s (laplace s).
Proof.
  intros S k. unfold laplace. pose proof (rate_bounds s S) as A. pose proof (rate_exp s) as E.
  pose proof (exp_inv_ge_1 s S) as G. set (a := rate s) in *. set (x := exp (/ s)) in *.
  replace (x * ((1 - a) / (1 + a) * a ^ Z.abs_nat (k + 1)))
    with ((1 - a) / (1 + a) * (x * a ^ Z.abs_nat (k + 1))) by ring.
  apply Rmult_le_compat_l; [apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]|].
  destruct (Z.leb_spec 0 k) as [H|H].
  - replace (Z.abs_nat (k + 1)) with (Datatypes.S (Z.abs_nat k)) by lia.
    simpl. rewrite <- Rmult_assoc, E. lra.
  - replace (Z.abs_nat k) with (Datatypes.S (Z.abs_nat (k + 1))) by lia. simpl.
    assert (0 < a ^ Z.abs_nat (k + 1)) by (apply pow_lt; lra).
    apply Rmult_le_compat_r; lra.
Qed.

Lemma one_sided_U s : 0 < s -> U s (one_sided s).
Proof.
  intros S k. unfold one_sided. pose proof (rate_bounds s S) as A. pose proof (rate_exp s) as E.
  set (a := rate s) in *. set (x := exp (/ s)) in *.
  assert (0 < x) by apply exp_pos.
  destruct (Z.leb_spec 0 k) as [H0|H0]; destruct (Z.leb_spec 0 (k + 1)) as [H1|H1]; try lia; try lra.
  - replace (Z.abs_nat (k + 1)) with (Datatypes.S (Z.abs_nat k)) by lia. simpl.
    replace (x * ((1 - a) * (a * a ^ Z.abs_nat k))) with ((1 - a) * ((x * a) * a ^ Z.abs_nat k)) by ring.
    rewrite E. lra.
  - apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; [lra|left; apply pow_lt; lra].
Qed.

Theorem Lemma_1_laplace s : 0 < s -> noise s (laplace s).
Proof. split; [now apply laplace_law|now apply laplace_U]. Qed.

Theorem Lemma_1_one_sided s : 0 < s -> noise s (one_sided s).
Proof. split; [now apply one_sided_law|now apply one_sided_U]. Qed.

(** (U) is preserved by sums over a set that is shifted along. *)
Theorem Lemma_1_tail s p x : noise s p -> tail p x <= exp (/ s) * tail p (x + 1).
Proof.
  intros [(P & S & _) Up]. unfold tail, prob.
  destruct (sum_shift (on (fun k => (x + 1 <=? k)%Z) p) 1) as [Sh ->]; [now apply on_nonneg|].
  assert (summable (fun k => on (fun k => (x + 1 <=? k)%Z) p (k + 1)%Z)) as S1 by (apply Sh; now apply on_summable).
  rewrite <- sum_scal; auto; [|apply exp_pos_le]. apply sum_le; [|apply summable_scal; auto; apply exp_pos_le].
  intros k. unfold on. destruct (Z.leb_spec x k); destruct (Z.leb_spec (x + 1) (k + 1)); try lia; [apply Up|lra].
Qed.

(** Scales are rounded up to the next float: noise of a larger scale will do wherever noise of scale s does. *)
Theorem Lemma_1_raised s s' p : 0 < s <= s' -> noise s' p -> noise s p.
Proof.
  intros [S [L| ->]] N; auto. destruct N as [Lp Up]. split; auto. intros k. eapply Rle_trans; [apply Up|].
  apply Rmult_le_compat_r; [apply Lp|]. apply exp_le. left. apply Rinv_lt_contravar; auto.
  apply Rmult_lt_0_compat; lra.
Qed.

(** By as many steps as needed. *)
Lemma U_by s p (d : nat) : 0 < s -> U s p -> forall k, p k <= exp (INR d / s) * p (k + Z.of_nat d)%Z.
Proof.
  intros S Up; induction d; intros k.
  - simpl. replace (0 / s) with 0 by (field; lra). rewrite exp_0, Z.add_0_r. lra.
  - rewrite S_INR. replace ((INR d + 1) / s) with (INR d / s + / s) by (field; lra).
    rewrite exp_plus, Rmult_assoc. eapply Rle_trans; [apply IHd|].
    apply Rmult_le_compat_l; [apply exp_pos_le|]. eapply Rle_trans; [apply Up|].
    replace (k + Z.of_nat (Datatypes.S d))%Z with (k + Z.of_nat d + 1)%Z by lia. lra.
Qed.

Lemma tail_by s p (d : nat) : 0 < s -> noise s p -> forall x, tail p x <= exp (INR d / s) * tail p (x + Z.of_nat d).
Proof.
  intros S N. change (forall k, tail p k <= exp (INR d / s) * tail p (k + Z.of_nat d)%Z).
  apply (U_by s (tail p) d S). intros k; now apply Lemma_1_tail.
Qed.

Lemma tail_mono p x y : is_law p -> (x <= y)%Z -> tail p y <= tail p x.
Proof. intros (P & S & _) L. apply prob_le; auto. intros k; rewrite !Z.leb_le; lia. Qed.

Lemma tail_bounds p x : is_law p -> 0 <= tail p x <= 1.
Proof. intros L. apply prob_bounds. now apply law_sub. Qed.

(** * The laws compared *)

Definition fold_noise (k : Z) : Z := if (0 <=? k)%Z then k else (- k - 1)%Z.

Theorem Lemma_1_fold s : 0 < s -> forall k, lmap fold_noise (laplace s) k = one_sided s k.
Proof.
  intros S k. unfold lmap, bind.
  pose proof (rate_bounds s S) as A. pose proof (laplace_law s S) as (P & _ & _).
  set (f := fun x => laplace s x * ret (fold_noise x) k).
  assert (nonneg f) as Pf.
  { intros x; unfold f. apply Rmult_le_pos; [apply P|]. unfold ret; destruct eq_dec; lra. }
  destruct (Z.leb_spec 0 k) as [H|H].
  - destruct (sum_finite f [k; (- k - 1)%Z]) as [_ ->]; auto.
    + constructor; simpl; [lia|constructor; auto; constructor].
    + intros x Hx. unfold f, ret. destruct (eq_dec (fold_noise x) k) as [E|E]; [|ring].
      exfalso; apply Hx; simpl. unfold fold_noise in E. destruct (0 <=? x)%Z; lia.
    + simpl. unfold f, ret.
      assert (fold_noise k = k) as -> by (unfold fold_noise; destruct (Z.leb_spec 0 k); lia).
      assert (fold_noise (- k - 1) = k) as -> by (unfold fold_noise; destruct (Z.leb_spec 0 (- k - 1)); lia).
      destruct (eq_dec k k); [|tauto]. unfold laplace, one_sided. destruct (Z.leb_spec 0 k); [|lia].
      replace (Z.abs_nat (- k - 1)) with (Datatypes.S (Z.abs_nat k)) by lia. simpl. field. lra.
  - rewrite (sum_ext f (fun _ => 0)).
    + rewrite sum_zero. unfold one_sided. destruct (Z.leb_spec 0 k); [lia|reflexivity].
    + intros x. unfold f, ret. destruct (eq_dec (fold_noise x) k) as [E|E]; [|ring].
      exfalso. unfold fold_noise in E. destruct (Z.leb_spec 0 x); lia.
Qed.

Theorem Lemma_1_mirror s : 0 < s -> forall k, laplace s (k + 1) <= exp (/ s) * laplace s k.
Proof.
  intros S k. assert (forall x, laplace s (- x) = laplace s x) as Sym.
  { intros x; unfold laplace. now replace (Z.abs_nat (- x)) with (Z.abs_nat x) by lia. }
  pose proof (laplace_U s S (- k - 1)%Z) as H.
  replace (- k - 1 + 1)%Z with (- k)%Z in H by lia. replace (- k - 1)%Z with (- (k + 1))%Z in H by lia.
  now rewrite !Sym in H.
Qed.

Theorem Lemma_1_no_mirror s : 0 < s -> ~ (forall k, one_sided s (k + 1) <= exp (/ s) * one_sided s k).
Proof.
  intros S H. specialize (H (- 1)%Z). unfold one_sided in H. simpl in H.
  pose proof (rate_bounds s S). lra.
Qed.
