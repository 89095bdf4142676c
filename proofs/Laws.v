(** Discrete laws: the library that every file of proofs/ imports.

    A law is a non-negative function [p : T -> R] whose values sum to 1. The sum over [T] is the
    supremum of the sums over finite lists without repetition; so there is no order of summation, no
    enumeration of [T], and a bijection of [T] changes nothing. [T] needs a decidable equality (class
    [EqDec]) where two sums are added.

    Definitions
      lsum f l             sum of f over the list l
      summable f           the sums over lists without repetition are bounded
      sum f                their supremum (0 where there is none)
      nonneg f             forall x, 0 <= f x
      is_law p             nonneg p /\ summable p /\ sum p = 1
      sub_law p            nonneg p /\ forall l, NoDup l -> lsum p l <= 1
      on S f               f inside the event S : T -> bool, 0 outside
      prob p S             sum (on S p)
      close eps delta p q  forall S, prob p S <= exp eps * prob q S + delta
      pure eps p q         forall x, p x <= exp eps * q x
      ret x, bind p k, lmap g p    the point law, the mixture of the laws k x, the law of g
    Sums (nonneg and summable where it matters)
      lsum_le_sum, sum_le_bound, sum_ext, sum_le, sum_nonneg, term_le_sum, summable_le
      sum_plus, sum_scal, sum_lsum (sum of finite sums), sum_finite (finite support)
      sum_reindex          sum f = sum (fun a => f (g a)), g injective and onto the support of f
      sum_shift            sum (fun z : Z => f (z + d)%Z) = sum f
      sum_swap, sum_pair   the order of two sums may be changed; sum over pairs
      has_sum_by_lists     a sum from growing lists that exhaust the type
    Laws
      law_sub, bind_law, ret_law, lmap_law, prob_bounds, prob_le, prob_not, prob_bind, prob_lmap
    Closeness
      exp_lt, exp_le       (use these: Coq's exp_increasing needs one axiom more)
      pure_close, pure_refl, pure_trans, close_weaken, close_trans, close_lists
      close_test           for tests f : T -> [0,1] instead of events
      close_lmap           post-processing by a function
      close_bind           post-processing by a kernel
      close_mixture, pure_mixture  mixtures of close laws are close
    Import it after Coq's Reals, which has another [nonneg]. *)

From Coq Require Import Reals List Lra Bool ZArith Lia.
From Littlestone Require Export Sums.
Import ListNotations.
Open Scope R_scope.

(** * Laws and events *)

Definition is_law {T} (p : T -> R) := nonneg p /\ summable p /\ sum p = 1.
Definition sub_law {T} (p : T -> R) := nonneg p /\ forall l, NoDup l -> lsum p l <= 1.
Definition on {T} (S : T -> bool) (f : T -> R) : T -> R := fun x => if S x then f x else 0.
Definition prob {T} (p : T -> R) (S : T -> bool) : R := sum (on S p).

Definition close {T} (eps delta : R) (p q : T -> R) :=
  forall S : T -> bool, prob p S <= exp eps * prob q S + delta.
Definition pure {T} (eps : R) (p q : T -> R) := forall x, p x <= exp eps * q x.

Definition ret {T} `{EqDec T} (x : T) : T -> R := fun y => if eq_dec x y then 1 else 0.
Definition bind {A B} (p : A -> R) (k : A -> B -> R) : B -> R := fun y => sum (fun x => p x * k x y).
Definition lmap {A B} `{EqDec B} (g : A -> B) (p : A -> R) : B -> R := bind p (fun x => ret (g x)).

Section Law.
Context {T : Type}.
Implicit Types p q : T -> R.
Implicit Types S : T -> bool.

Lemma law_sub p : is_law p -> sub_law p.
Proof. intros (P & S & E); split; auto. intros l N. rewrite <- E. now apply lsum_le_sum. Qed.

Lemma sub_summable p : sub_law p -> summable p.
Proof. intros [_ B]; now exists 1. Qed.

Lemma sub_le_1 p x : sub_law p -> p x <= 1.
Proof.
  intros [P B]. assert (lsum p [x] <= 1) by (apply B; constructor; simpl; auto; constructor).
  simpl in *; lra.
Qed.

Lemma sub_sum p : sub_law p -> 0 <= sum p <= 1.
Proof. intros L; split; [apply sum_nonneg; now apply sub_summable|]. apply sum_le_bound. apply L. Qed.

Lemma on_nonneg S p : nonneg p -> nonneg (on S p).
Proof. intros P x; unfold on; destruct (S x); [apply P|lra]. Qed.

Lemma on_le S p x : nonneg p -> on S p x <= p x.
Proof. intros P; unfold on; destruct (S x); [lra|apply P]. Qed.

Lemma on_summable S p : nonneg p -> summable p -> summable (on S p).
Proof. intros P; apply summable_le; intros x; now apply on_le. Qed.

Lemma prob_bounds p S : sub_law p -> 0 <= prob p S <= 1.
Proof.
  intros L. pose proof (sub_summable p L) as Sm. destruct L as [P B]. split.
  - apply sum_nonneg. now apply on_summable.
  - apply Rle_trans with (sum p); [apply sum_le; auto; intros x; now apply on_le|]. now apply sum_le_bound.
Qed.

Lemma prob_le p S S' : nonneg p -> summable p -> (forall x, S x = true -> S' x = true) -> prob p S <= prob p S'.
Proof.
  intros P Sm I. apply sum_le; [|now apply on_summable]. intros x; unfold on.
  specialize (I x). specialize (P x). destruct (S x), (S' x); try lra.
Qed.

Lemma prob_ext p S S' : (forall x, S x = S' x) -> prob p S = prob p S'.
Proof. intros E; apply sum_ext; intros x; unfold on; now rewrite E. Qed.

Lemma prob_not `{EqDec T} p S : is_law p -> prob p (fun x => negb (S x)) = 1 - prob p S.
Proof.
  intros (P & Sm & E). unfold prob.
  assert (sum (fun x => on S p x + on (fun x => negb (S x)) p x) = 1) as A.
  { rewrite <- E. apply sum_ext; intros x; unfold on; destruct (S x); simpl; lra. }
  rewrite sum_plus in A; try apply on_nonneg; auto; try apply on_summable; auto. lra.
Qed.
End Law.

Lemma ret_law {T} `{EqDec T} (x : T) : is_law (ret x).
Proof.
  assert (nonneg (ret x)) as P by (intros y; unfold ret; destruct eq_dec; lra).
  destruct (sum_finite (ret x) [x]) as [S E]; auto.
  - constructor; simpl; auto; constructor.
  - intros y Hy; unfold ret; destruct (eq_dec x y); auto. subst; simpl in Hy; tauto.
  - repeat split; auto. rewrite E; simpl; unfold ret; destruct (eq_dec x x); [lra|tauto].
Qed.

Section Bind.
Context {A B : Type} `{EqDec A} `{EqDec B}.

Lemma bind_summable2 (p : A -> R) (k : A -> B -> R) :
  nonneg p -> summable p -> (forall a, sub_law (k a)) -> summable2 (fun a b => p a * k a b).
Proof.
  intros P S K; split.
  - intros a. apply summable_scal; [apply P|]. now apply sub_summable.
  - apply summable_le with p; auto. intros a. rewrite sum_scal; [|apply P|now apply sub_summable].
    pose proof (sub_sum _ (K a)). specialize (P a). rewrite <- (Rmult_1_r (p a)) at 2.
    apply Rmult_le_compat_l; tauto.
Qed.

Lemma bind_nonneg (p : A -> R) (k : A -> B -> R) :
  nonneg p -> summable p -> (forall a, sub_law (k a)) -> nonneg (bind p k).
Proof.
  intros P S K b. apply sum_nonneg. apply summable2_column with (f := fun a b => p a * k a b).
  now apply bind_summable2.
Qed.

Lemma sum_bind_on (p : A -> R) (k : A -> B -> R) (f : B -> R) :
  nonneg p -> summable p -> (forall a, sub_law (k a)) -> (forall b, 0 <= f b <= 1) ->
  summable (fun b => bind p k b * f b) /\
  sum (fun b => bind p k b * f b) = sum (fun a => p a * sum (fun b => k a b * f b)).
Proof.
  intros P S K F.
  assert (forall a, sub_law (fun b => k a b * f b)) as KF.
  { intros a; destruct (K a) as [Kp Kb]; split.
    - intros b; apply Rmult_le_pos; [apply Kp|apply F].
    - intros l N. apply Rle_trans with (lsum (k a) l); auto. apply lsum_le; intros b.
      rewrite <- (Rmult_1_r (k a b)) at 2. apply Rmult_le_compat_l; [apply Kp|apply F]. }
  assert (forall b, bind p k b * f b = sum (fun a => p a * (k a b * f b))) as E.
  { intros b. unfold bind. rewrite <- sum_scal_r; [|apply F|].
    - apply sum_ext; intros; ring.
    - apply summable2_column with (f := fun a b => p a * k a b). now apply bind_summable2. }
  destruct (sum_swap (fun a b => p a * (k a b * f b))) as [S2 Sw].
  - intros a b. apply Rmult_le_pos; [apply P|]. destruct (KF a) as [Kp _]; apply Kp.
  - now apply bind_summable2 with (k := fun a b => k a b * f b).
  - split.
    + apply summable_ext with (fun b => sum (fun a => p a * (k a b * f b))); auto. apply S2.
    + rewrite (sum_ext _ _ E), Sw. apply sum_ext; intros a. apply sum_scal; [apply P|]. apply sub_summable, KF.
Qed.

Lemma on_mult {X} (S : X -> bool) (f : X -> R) x : on S f x = f x * (if S x then 1 else 0).
Proof. unfold on; destruct (S x); ring. Qed.

Lemma prob_bind (p : A -> R) (k : A -> B -> R) (S : B -> bool) :
  nonneg p -> summable p -> (forall a, sub_law (k a)) ->
  prob (bind p k) S = sum (fun a => p a * prob (k a) S).
Proof.
  intros P Sm K. destruct (sum_bind_on p k (fun b => if S b then 1 else 0)) as [_ E]; auto.
  - intros b; destruct (S b); lra.
  - unfold prob. rewrite (sum_ext _ _ (on_mult S (bind p k))), E.
    apply sum_ext; intros a. f_equal. apply sum_ext; intros b. now rewrite on_mult.
Qed.

Lemma bind_law (p : A -> R) (k : A -> B -> R) : is_law p -> (forall a, is_law (k a)) -> is_law (bind p k).
Proof.
  intros (P & S & E) K. assert (forall a, sub_law (k a)) as K' by (intros; now apply law_sub).
  destruct (sum_bind_on p k (fun _ => 1)) as [S1 E1]; auto; [intros; lra|].
  assert (forall b, bind p k b * 1 = bind p k b) as One by (intros; ring).
  split; [|split].
  - now apply bind_nonneg.
  - now apply summable_ext with (fun b => bind p k b * 1).
  - transitivity (sum (fun b => bind p k b * 1)); [apply sum_ext; intros; ring|].
    rewrite E1. transitivity (sum p); [|exact E]. apply sum_ext; intros a.
    rewrite (sum_ext (fun b => k a b * 1) (k a)) by (intros; ring). destruct (K a) as (_ & _ & ->); ring.
Qed.

Lemma lmap_law (g : A -> B) (p : A -> R) : is_law p -> is_law (lmap g p).
Proof. intros L; apply bind_law; auto; intros; apply ret_law. Qed.
End Bind.

Lemma prob_ret {T} `{EqDec T} (x : T) S : prob (ret x) S = if S x then 1 else 0.
Proof.
  unfold prob. destruct (sum_finite (on S (ret x)) [x]) as [_ ->].
  - apply on_nonneg, ret_law. - constructor; simpl; auto; constructor.
  - intros y Hy; unfold on, ret. destruct (S y); auto. destruct (eq_dec x y); auto. subst; simpl in Hy; tauto.
  - simpl. unfold on, ret. destruct (eq_dec x x); [|tauto]. destruct (S x); lra.
Qed.

Lemma prob_lmap {A B} `{EqDec A} `{EqDec B} (g : A -> B) (p : A -> R) (S : B -> bool) :
  nonneg p -> summable p -> prob (lmap g p) S = prob p (fun a => S (g a)).
Proof.
  intros P Sm. unfold lmap. rewrite prob_bind; auto; [|intros; apply law_sub, ret_law].
  apply sum_ext; intros a. rewrite prob_ret. unfold on. destruct (S (g a)); ring.
Qed.

(** * Closeness *)

Section Closeness.
Context {T : Type}.
Implicit Types p q : T -> R.

Lemma exp_pos_le e : 0 <= exp e.
Proof. left; apply exp_pos. Qed.

(** Coq's own [exp_increasing] is by way of derivatives, which rest on one axiom more ([classic]). *)
Lemma exp_ge_1 e : 0 <= e -> 1 + e <= exp e.
Proof.
  intros E. unfold exp. destruct (exist_exp e) as [l Hl]; simpl.
  replace (1 + e) with (sum_f_R0 (fun i => / INR (fact i) * e ^ i) 1) by (simpl; field).
  apply sum_incr; [exact Hl|]. intros n. apply Rmult_le_pos; [|now apply pow_le].
  left; apply Rinv_0_lt_compat, lt_0_INR, lt_O_fact.
Qed.

Lemma exp_lt e e' : e < e' -> exp e < exp e'.
Proof.
  intros L. replace e' with (e + (e' - e)) by ring. rewrite exp_plus, <- (Rmult_1_r (exp e)) at 1.
  apply Rmult_lt_compat_l; [apply exp_pos|]. pose proof (exp_ge_1 (e' - e)). lra.
Qed.

Lemma exp_le e e' : e <= e' -> exp e <= exp e'.
Proof. intros [L| ->]; [left; now apply exp_lt|lra]. Qed.

Lemma pure_refl p : pure 0 p p.
Proof. intros x; rewrite exp_0; lra. Qed.

Lemma pure_trans e1 e2 p q r : pure e1 p q -> pure e2 q r -> pure (e1 + e2) p r.
Proof.
  intros A B x. specialize (A x); specialize (B x). rewrite exp_plus, Rmult_assoc.
  eapply Rle_trans; [apply A|]. apply Rmult_le_compat_l; auto. apply exp_pos_le.
Qed.

Lemma pure_weaken e e' p q : nonneg q -> e <= e' -> pure e p q -> pure e' p q.
Proof.
  intros P L A x. eapply Rle_trans; [apply A|]. apply Rmult_le_compat_r; [apply P|now apply exp_le].
Qed.

Lemma pure_close eps p q : nonneg q -> summable q -> pure eps p q -> close eps 0 p q.
Proof.
  intros P S A E. unfold prob. rewrite Rplus_0_r, <- sum_scal; [|apply exp_pos_le|now apply on_summable].
  apply sum_le; [|apply summable_scal; [apply exp_pos_le|now apply on_summable]].
  intros x; unfold on; destruct (E x); [apply A|lra].
Qed.

(** Events may as well be finite sets, so no set of outcomes is missing. *)
Lemma close_lists `{EqDec T} eps delta p q : nonneg p -> nonneg q -> summable p -> summable q ->
  close eps delta p q <-> forall l, NoDup l -> lsum p l <= exp eps * lsum q l + delta.
Proof.
  intros Pp Pq Sp Sq; split.
  - intros C l N. specialize (C (fun x => if in_dec eq_dec x l then true else false)).
    assert (forall r, nonneg r -> prob r (fun x => if in_dec eq_dec x l then true else false) = lsum r l) as E.
    { intros r Pr. unfold prob.
      destruct (sum_finite (on (fun x => if in_dec eq_dec x l then true else false) r) l) as [_ ->]; auto.
      - now apply on_nonneg.
      - intros x Hx; unfold on; destruct (in_dec eq_dec x l); tauto.
      - apply lsum_ext_in; intros x Hx; unfold on; destruct (in_dec eq_dec x l); tauto. }
    now rewrite !E in C.
  - intros C S. apply sum_le_bound; intros l N.
    assert (forall r, lsum (on S r) l = lsum r (filter S l)) as E.
    { intros r; clear N; induction l; simpl; auto. unfold on at 1. destruct (S a); simpl; rewrite IHl; lra. }
    rewrite E. eapply Rle_trans; [apply C; now apply NoDup_filter|].
    apply Rplus_le_compat_r, Rmult_le_compat_l; [apply exp_pos_le|].
    rewrite <- E. apply lsum_le_sum; auto. now apply on_summable.
Qed.

Lemma close_weaken e e' d d' p q : nonneg q -> summable q -> e <= e' -> d <= d' ->
  close e d p q -> close e' d' p q.
Proof.
  intros P S Le Ld C E. eapply Rle_trans; [apply C|]. apply Rplus_le_compat; auto.
  apply Rmult_le_compat_r; [apply sum_nonneg; now apply on_summable|now apply exp_le].
Qed.

Lemma close_ext e d p q p' q' : (forall x, p x = p' x) -> (forall x, q x = q' x) -> close e d p q -> close e d p' q'.
Proof.
  intros P Q C S. specialize (C S). unfold prob in *.
  rewrite <- (sum_ext (on S p) (on S p')) by (intros x; unfold on; now rewrite P).
  rewrite <- (sum_ext (on S q) (on S q')) by (intros x; unfold on; now rewrite Q). exact C.
Qed.

Lemma close_trans e1 d1 e2 d2 p q r : close e1 d1 p q -> close e2 d2 q r ->
  close (e1 + e2) (d1 + exp e1 * d2) p r.
Proof.
  intros A B S. specialize (A S); specialize (B S). rewrite exp_plus.
  apply Rmult_le_compat_l with (r := exp e1) in B; [|apply exp_pos_le]. lra.
Qed.

Lemma close_test `{EqDec T} eps delta p q (f : T -> R) : sub_law p -> sub_law q ->
  close eps delta p q -> (forall x, 0 <= f x <= 1) ->
  sum (fun x => p x * f x) <= exp eps * sum (fun x => q x * f x) + delta.
Proof.
  intros Lp Lq C F.
  pose proof (sub_summable p Lp) as Sp. pose proof (sub_summable q Lq) as Sq.
  destruct Lp as [Pp _], Lq as [Pq _].
  set (S := fun x => if Rlt_dec (exp eps * q x) (p x) then true else false).
  assert (forall r, nonneg r -> nonneg (fun x => r x * f x)) as Pf.
  { intros r P x; apply Rmult_le_pos; [apply P|apply F]. }
  assert (forall r, nonneg r -> summable r -> summable (fun x => r x * f x)) as Sf.
  { intros r P; apply summable_le; intros x. rewrite <- (Rmult_1_r (r x)) at 2.
    apply Rmult_le_compat_l; [apply P|apply F]. }
  pose proof (exp_pos_le eps) as E0.
  assert (forall r : T -> R, nonneg r -> nonneg (fun x => exp eps * r x)) as Pe.
  { intros r P x; apply Rmult_le_pos; auto. }
  assert (sum (fun x => p x * f x + exp eps * on S q x) <= sum (fun x => exp eps * (q x * f x) + on S p x)) as A.
  { apply sum_le.
    - intros x; unfold on, S. specialize (F x). destruct (Rlt_dec (exp eps * q x) (p x)) as [L|L].
      + assert (0 <= (p x - exp eps * q x) * (1 - f x)) by (apply Rmult_le_pos; lra). lra.
      + assert (0 <= (exp eps * q x - p x) * f x) by (apply Rmult_le_pos; lra). lra.
    - apply summable_plus; [apply summable_scal; auto|now apply on_summable]. }
  rewrite !sum_plus, !sum_scal in A; auto; try (apply Pe; auto); try (apply on_nonneg; auto);
    try (apply on_summable; auto); try (apply summable_scal; auto; apply on_summable; auto);
    try (apply summable_scal; auto).
  specialize (C S). unfold prob in C. lra.
Qed.

Lemma close_lmap {B} `{EqDec T} `{EqDec B} eps delta (g : T -> B) p q : nonneg p -> summable p ->
  nonneg q -> summable q -> close eps delta p q -> close eps delta (lmap g p) (lmap g q).
Proof. intros Pp Sp Pq Sq C S. rewrite !prob_lmap; auto. Qed.

Lemma close_bind {B} `{EqDec T} `{EqDec B} eps delta (k : T -> B -> R) p q : sub_law p -> sub_law q ->
  (forall x, sub_law (k x)) -> close eps delta p q -> close eps delta (bind p k) (bind q k).
Proof.
  intros Lp Lq K C S.
  rewrite !prob_bind; auto; try apply Lp; try apply Lq; try (now apply sub_summable).
  apply close_test; auto. intros x; now apply prob_bounds.
Qed.

Lemma close_mixture {B} `{EqDec T} `{EqDec B} eps delta p (k k' : T -> B -> R) : is_law p ->
  0 <= delta -> (forall x, sub_law (k x)) -> (forall x, sub_law (k' x)) ->
  (forall x, close eps delta (k x) (k' x)) -> close eps delta (bind p k) (bind p k').
Proof.
  intros (P & S & E) D K K' C Ev. rewrite !prob_bind; auto.
  assert (forall k : T -> B -> R, (forall x, sub_law (k x)) -> summable (fun x => p x * prob (k x) Ev)) as Sk.
  { intros k0 K0. apply summable_le with p; auto. intros x. pose proof (prob_bounds (k0 x) Ev (K0 x)).
    rewrite <- (Rmult_1_r (p x)) at 2. apply Rmult_le_compat_l; [apply P|lra]. }
  pose proof (exp_pos_le eps) as E0.
  apply Rle_trans with (sum (fun x => exp eps * (p x * prob (k' x) Ev) + delta * p x)).
  - apply sum_le.
    + intros x. specialize (C x Ev). apply Rmult_le_compat_l with (r := p x) in C; [lra|apply P].
    + apply summable_plus; apply summable_scal; auto.
  - rewrite sum_plus, !sum_scal, E; auto; try (apply summable_scal; auto); try lra.
    + intros x; apply Rmult_le_pos; auto. apply Rmult_le_pos; [apply P|]. now apply prob_bounds.
    + intros x; apply Rmult_le_pos; auto.
Qed.

Lemma pure_mixture {B} eps p (k k' : T -> B -> R) : nonneg p ->
  (forall y, summable (fun x => p x * k' x y)) ->
  (forall x, pure eps (k x) (k' x)) -> pure eps (bind p k) (bind p k').
Proof.
  intros P S C y. unfold bind. rewrite <- sum_scal; auto; [|apply exp_pos_le].
  apply sum_le; [|apply summable_scal; auto; apply exp_pos_le].
  intros x. specialize (C x y). apply Rmult_le_compat_l with (r := p x) in C; [lra|apply P].
Qed.
End Closeness.
