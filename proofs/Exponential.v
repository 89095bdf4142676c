(** Theorem 6 of docs/guarantee.md: the exponential mechanism.

    How it corresponds. Candidates are of any type with decidable equality; [w] are public weights (1 for
    each candidate of a list, Theorem_6_list; or a prior, as in Theorem 10). Candidate [x] is drawn with
    probability proportional to [w x * exp (rate * score x)], with [rate = e / (2 D)]. Scores are real
    numbers that a replaced example moves by at most [D]. [exponential_ratio] is the finer statement that
    Theorem 15 uses: scores that rise by at most [rise] and fall by at most [fall].
    Not modelled: the enclosures of weights by integers with which the code draws. *)

From Coq Require Import Reals List Lra Lia ZArith.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope R_scope.

Section Exponential.
Context {T : Type} `{EqDec T}.
Variable w : T -> R.
Variable rate : R.
Hypothesis w_nonneg : nonneg w.
Hypothesis rate_nonneg : 0 <= rate.

Definition weigh (score : T -> R) (x : T) : R := w x * exp (rate * score x).
Definition exponential (score : T -> R) (x : T) : R := weigh score x / sum (weigh score).

(** There is something to draw from. *)
Definition drawable (score : T -> R) := summable (weigh score) /\ exists x, 0 < w x.

Lemma weigh_nonneg score : nonneg (weigh score).
Proof. intros x; apply Rmult_le_pos; [apply w_nonneg|apply exp_pos_le]. Qed.

Lemma total_pos score : drawable score -> 0 < sum (weigh score).
Proof.
  intros [S [x W]]. apply Rlt_le_trans with (weigh score x); [|now apply term_le_sum].
  apply Rmult_lt_0_compat; auto. apply exp_pos.
Qed.

Lemma exponential_law score : drawable score -> is_law (exponential score).
Proof.
  intros D. pose proof (total_pos score D) as Z. destruct D as [S _].
  assert (0 <= / sum (weigh score)) as I by (left; now apply Rinv_0_lt_compat).
  assert (forall x, exponential score x = / sum (weigh score) * weigh score x) as E.
  { intros x; unfold exponential; field; lra. }
  split; [|split].
  - intros x; rewrite E. apply Rmult_le_pos; auto. apply weigh_nonneg.
  - apply summable_ext with (fun x => / sum (weigh score) * weigh score x); [intros; symmetry; apply E|].
    now apply summable_scal.
  - rewrite (sum_ext _ _ E), sum_scal; auto. field; lra.
Qed.

Section Ratio.
Variables (score score' : T -> R) (rise fall : R).
Hypothesis moved : forall x, - fall <= score' x - score x <= rise.

(** A weight falls by a factor of at most [exp (rate * fall)], and their sum rises by at most [exp (rate * rise)]. *)
Lemma weigh_fall x : weigh score x <= exp (rate * fall) * weigh score' x.
Proof.
  unfold weigh. replace (exp (rate * fall) * (w x * exp (rate * score' x)))
    with (w x * (exp (rate * fall) * exp (rate * score' x))) by ring.
  rewrite <- exp_plus. apply Rmult_le_compat_l; [apply w_nonneg|]. apply exp_le.
  rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; auto. specialize (moved x); lra.
Qed.

Lemma weigh_rise x : weigh score' x <= exp (rate * rise) * weigh score x.
Proof.
  unfold weigh. replace (exp (rate * rise) * (w x * exp (rate * score x)))
    with (w x * (exp (rate * rise) * exp (rate * score x))) by ring.
  rewrite <- exp_plus. apply Rmult_le_compat_l; [apply w_nonneg|]. apply exp_le.
  rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; auto. specialize (moved x); lra.
Qed.

Lemma drawable_moved : drawable score -> drawable score'.
Proof.
  intros [S X]; split; auto. apply summable_le with (fun x => exp (rate * rise) * weigh score x).
  - apply weigh_rise. - apply summable_scal; auto. apply exp_pos_le.
Qed.

Theorem exponential_ratio : drawable score -> pure (rate * (rise + fall)) (exponential score) (exponential score').
Proof.
  intros D x. pose proof (total_pos _ D) as Z. pose proof (total_pos _ (drawable_moved D)) as Z'.
  assert (sum (weigh score') <= exp (rate * rise) * sum (weigh score)) as Tot.
  { destruct D as [S _]. rewrite <- sum_scal; auto; [|apply exp_pos_le].
    apply sum_le; [apply weigh_rise|]. apply summable_scal; auto. apply exp_pos_le. }
  unfold exponential. rewrite Rmult_plus_distr_l, exp_plus.
  apply Rmult_le_reg_r with (sum (weigh score) * sum (weigh score')); [now apply Rmult_lt_0_compat|].
  replace (weigh score x / sum (weigh score) * (sum (weigh score) * sum (weigh score')))
    with (weigh score x * sum (weigh score')) by (field; lra).
  replace (exp (rate * rise) * exp (rate * fall) * (weigh score' x / sum (weigh score')) *
           (sum (weigh score) * sum (weigh score')))
    with ((exp (rate * fall) * weigh score' x) * (exp (rate * rise) * sum (weigh score))) by (field; lra).
  apply Rmult_le_compat; [apply weigh_nonneg|lra|apply weigh_fall|exact Tot].
Qed.
End Ratio.

End Exponential.

Theorem Theorem_6 {T} `{EqDec T} (w score score' : T -> R) (e D : R) : nonneg w -> 0 < e -> 0 < D ->
  (forall x, Rabs (score' x - score x) <= D) -> drawable w (e / (2 * D)) score ->
  close e 0 (exponential w (e / (2 * D)) score) (exponential w (e / (2 * D)) score').
Proof.
  intros W E Dp M Dr. assert (0 < e / (2 * D)) as R by (apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; lra).
  assert (forall x, - D <= score' x - score x <= D) as M'.
  { intros x; specialize (M x). revert M; unfold Rabs; destruct Rcase_abs; lra. }
  assert (drawable w (e / (2 * D)) score') as Dr' by (apply drawable_moved with score D D; auto; lra).
  destruct (exponential_law w (e / (2 * D)) W score' Dr') as (P & S & _).
  apply pure_close; auto. replace e with (e / (2 * D) * (D + D)) at 1 by (field; lra).
  apply exponential_ratio; auto; lra.
Qed.

(** The candidates of a list, without a prior. *)
Definition listed {T} `{EqDec T} (l : list T) (x : T) : R := if in_dec eq_dec x l then 1 else 0.

Lemma listed_nonneg {T} `{EqDec T} (l : list T) : nonneg (listed l).
Proof. intros x; unfold listed; destruct in_dec; lra. Qed.

Lemma listed_drawable {T} `{EqDec T} (l : list T) rate score : l <> [] -> drawable (listed l) rate score.
Proof.
  intros L. split.
  - destruct (sum_finite (weigh (listed l) rate score) (nodup eq_dec l)); auto.
    + apply weigh_nonneg, listed_nonneg. + apply NoDup_nodup.
    + intros x X. unfold weigh, listed. destruct (in_dec eq_dec x l) as [I|I]; [|ring].
      exfalso; apply X, nodup_In; auto.
  - destruct l as [|x l]; [tauto|]. exists x. unfold listed. destruct in_dec as [I|I]; [lra|].
    exfalso; apply I; simpl; auto.
Qed.

Theorem Theorem_6_list {T} `{EqDec T} (l : list T) (score score' : T -> R) (e D : R) : l <> [] -> 0 < e -> 0 < D ->
  (forall x, Rabs (score' x - score x) <= D) ->
  is_law (exponential (listed l) (e / (2 * D)) score) /\
  close e 0 (exponential (listed l) (e / (2 * D)) score) (exponential (listed l) (e / (2 * D)) score').
Proof.
  intros L E Dp M. split; [now apply exponential_law; [apply listed_nonneg|apply listed_drawable]|].
  apply Theorem_6; auto; [apply listed_nonneg|now apply listed_drawable].
Qed.
