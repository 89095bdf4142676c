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
      pure_close, pure_refl, pure_trans, close_weaken, close_trans, close_lists
      close_test           for tests f : T -> [0,1] instead of events
      close_lmap           post-processing by a function
      close_bind           post-processing by a kernel
      close_mixture, pure_mixture  mixtures of close laws are close
    Import it after Coq's Reals, which has another [nonneg]. *)

From Coq Require Import Reals List Lra Bool ZArith Lia.
From Coq Require FinFun.
From Coquelicot Require Import Rbar Lub.
Import ListNotations.
Open Scope R_scope.

Class EqDec (T : Type) := eq_dec : forall x y : T, {x = y} + {x <> y}.
#[export] Instance EqDec_bool : EqDec bool := bool_dec.
#[export] Instance EqDec_Z : EqDec Z := Z.eq_dec.
#[export] Instance EqDec_nat : EqDec nat := Nat.eq_dec.
#[export] Instance EqDec_unit : EqDec unit.
Proof. intros [] []; left; reflexivity. Defined.
#[export] Instance EqDec_pair A B `{EqDec A} `{EqDec B} : EqDec (A * B).
Proof. intros x y; decide equality; apply eq_dec. Defined.
#[export] Instance EqDec_option A `{EqDec A} : EqDec (option A).
Proof. intros x y; decide equality; apply eq_dec. Defined.
#[export] Instance EqDec_list A `{EqDec A} : EqDec (list A).
Proof. intros x y; decide equality; apply eq_dec. Defined.

(** * Sums over lists *)

Section Lists.
Context {T : Type}.
Implicit Types f g : T -> R.
Implicit Types l : list T.

Fixpoint lsum f l : R := match l with [] => 0 | x :: l' => f x + lsum f l' end.

Definition nonneg f := forall x, 0 <= f x.

Lemma lsum_app f l1 l2 : lsum f (l1 ++ l2) = lsum f l1 + lsum f l2.
Proof. induction l1; simpl; lra. Qed.

Lemma lsum_le_in f g l : (forall x, In x l -> f x <= g x) -> lsum f l <= lsum g l.
Proof.
  induction l; simpl; intros H; [lra|].
  assert (f a <= g a) by (apply H; auto). assert (lsum f l <= lsum g l) by (apply IHl; auto). lra.
Qed.

Lemma lsum_le f g l : (forall x, f x <= g x) -> lsum f l <= lsum g l.
Proof. intros H; apply lsum_le_in; auto. Qed.

Lemma lsum_ext_in f g l : (forall x, In x l -> f x = g x) -> lsum f l = lsum g l.
Proof. intros H; apply Rle_antisym; apply lsum_le_in; intros x Hx; rewrite (H x Hx); lra. Qed.

Lemma lsum_ext f g l : (forall x, f x = g x) -> lsum f l = lsum g l.
Proof. intros H; apply lsum_ext_in; auto. Qed.

Lemma lsum_nonneg f l : nonneg f -> 0 <= lsum f l.
Proof. intros H; induction l; simpl; [lra|]. specialize (H a); lra. Qed.

Lemma lsum_plus f g l : lsum (fun x => f x + g x) l = lsum f l + lsum g l.
Proof. induction l; simpl; lra. Qed.

Lemma lsum_scal c f l : lsum (fun x => c * f x) l = c * lsum f l.
Proof. induction l; simpl; lra. Qed.

Lemma lsum_zero l : lsum (fun _ => 0) l = 0.
Proof. induction l; simpl; lra. Qed.

End Lists.

Lemma lsum_map {A T} (g : A -> T) (f : T -> R) (l : list A) :
  lsum f (map g l) = lsum (fun a => f (g a)) l.
Proof. induction l; simpl; [reflexivity|]. now rewrite IHl. Qed.

Lemma lsum_incl {T} (f : T -> R) (l1 : list T) : nonneg f -> NoDup l1 ->
  forall l2, incl l1 l2 -> lsum f l1 <= lsum f l2.
Proof.
  intros Hf N; induction N as [|x l Hx N IH]; intros l2 I; simpl.
  - now apply lsum_nonneg.
  - assert (In x l2) as Hin by (apply I; simpl; auto).
    destruct (in_split _ _ Hin) as (u & v & ->).
    assert (lsum f l <= lsum f (u ++ v)) as H.
    { apply IH. intros y Hy. assert (In y (u ++ x :: v)) as J by (apply I; simpl; auto).
      apply in_app_iff in J; apply in_app_iff. simpl in J. destruct J as [J|[J|J]]; auto.
      subst y; contradiction. }
    rewrite lsum_app in *; simpl; lra.
Qed.

Lemma lsum_swap {A B} (f : A -> B -> R) la lb :
  lsum (fun a => lsum (f a) lb) la = lsum (fun b => lsum (fun a => f a b) la) lb.
Proof.
  induction la; simpl.
  - symmetry; apply lsum_zero.
  - rewrite IHla, <- lsum_plus; reflexivity.
Qed.

Lemma lsum_prod {A B} (f : A * B -> R) la lb :
  lsum f (list_prod la lb) = lsum (fun a => lsum (fun b => f (a, b)) lb) la.
Proof. induction la; simpl; [reflexivity|]. now rewrite lsum_app, lsum_map, IHla. Qed.

(** * Sums over a type *)

Section Sums.
Context {T : Type}.
Implicit Types f g : T -> R.

Definition summable f := exists M, forall l, NoDup l -> lsum f l <= M.
Definition sum f : R := real (Lub_Rbar (fun v => exists l, NoDup l /\ v = lsum f l)).

Lemma sum_is_lub f : summable f ->
  is_lub_Rbar (fun v => exists l, NoDup l /\ v = lsum f l) (Finite (sum f)).
Proof.
  intros [M HM]. unfold sum.
  set (E := fun v => exists l, NoDup l /\ v = lsum f l).
  assert (is_lub_Rbar E (Lub_Rbar E)) as [U L] by apply Lub_Rbar_correct.
  assert (Rbar_le (Lub_Rbar E) M) as Hu by (apply L; intros v (l & N & ->); now apply HM).
  assert (Rbar_le 0 (Lub_Rbar E)) as Hl by (apply U; exists []; split; [constructor|reflexivity]).
  destruct (Lub_Rbar E); simpl in *; try contradiction. now split.
Qed.

Lemma lsum_le_sum f l : summable f -> NoDup l -> lsum f l <= sum f.
Proof. intros S N. destruct (sum_is_lub f S) as [U _]. apply (U (lsum f l)). now exists l. Qed.

Lemma sum_le_bound f M : (forall l, NoDup l -> lsum f l <= M) -> sum f <= M.
Proof.
  intros H. destruct (sum_is_lub f) as [_ L]; [now exists M|].
  apply (L (Finite M)). intros v (l & N & ->). simpl; auto.
Qed.

Lemma bounded_summable f M : (forall l, NoDup l -> lsum f l <= M) -> summable f.
Proof. now exists M. Qed.

Lemma sum_nonneg f : summable f -> 0 <= sum f.
Proof. intros S. apply (lsum_le_sum f [] S). constructor. Qed.

Lemma term_le_sum f x : summable f -> f x <= sum f.
Proof.
  intros S. assert (lsum f [x] <= sum f) by (apply lsum_le_sum; auto; constructor; simpl; auto; constructor).
  simpl in *; lra.
Qed.

Lemma summable_le f g : (forall x, f x <= g x) -> summable g -> summable f.
Proof. intros H [M HM]; exists M; intros l N. pose proof (lsum_le f g l H). specialize (HM l N). lra. Qed.

Lemma sum_le f g : (forall x, f x <= g x) -> summable g -> sum f <= sum g.
Proof.
  intros H S. apply sum_le_bound; intros l N.
  pose proof (lsum_le f g l H). pose proof (lsum_le_sum g l S N). lra.
Qed.

Lemma summable_ext f g : (forall x, f x = g x) -> summable f -> summable g.
Proof. intros H; apply summable_le; intros; rewrite H; lra. Qed.

Lemma sum_ext f g : (forall x, f x = g x) -> sum f = sum g.
Proof.
  intros H. unfold sum. f_equal. apply Lub_Rbar_eqset. intros v; split; intros (l & N & ->); exists l;
  split; auto; apply lsum_ext; auto.
Qed.

Lemma summable_zero : summable (fun _ : T => 0).
Proof. exists 0; intros; rewrite lsum_zero; lra. Qed.

Lemma sum_zero : sum (fun _ : T => 0) = 0.
Proof.
  apply Rle_antisym; [|apply sum_nonneg, summable_zero].
  apply sum_le_bound; intros; rewrite lsum_zero; lra.
Qed.

Lemma summable_scal c f : 0 <= c -> summable f -> summable (fun x => c * f x).
Proof.
  intros C [M HM]; exists (c * M); intros l N. rewrite lsum_scal. apply Rmult_le_compat_l; auto.
Qed.

Lemma sum_scal c f : 0 <= c -> summable f -> sum (fun x => c * f x) = c * sum f.
Proof.
  intros C S. apply Rle_antisym.
  - apply sum_le_bound; intros l N. rewrite lsum_scal. apply Rmult_le_compat_l; auto. now apply lsum_le_sum.
  - destruct (Req_dec c 0) as [->|C0].
    + rewrite Rmult_0_l. apply sum_nonneg, summable_scal; auto.
    + assert (0 < c) by lra. assert (sum f <= / c * sum (fun x => c * f x)) as H1.
      { apply sum_le_bound; intros l N.
        pose proof (lsum_le_sum (fun x => c * f x) l (summable_scal c f C S) N) as H1.
        rewrite lsum_scal in H1. apply Rmult_le_reg_l with c; auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l; auto. }
      apply Rmult_le_compat_l with (r := c) in H1; auto. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l in H1; auto.
Qed.

Lemma sum_scal_r c f : 0 <= c -> summable f -> sum (fun x => f x * c) = sum f * c.
Proof.
  intros C S. rewrite Rmult_comm, <- sum_scal; auto. apply sum_ext; intros; ring.
Qed.

Context `{EqDec T}.

Lemma summable_plus f g : summable f -> summable g -> summable (fun x => f x + g x).
Proof.
  intros [M HM] [N HN]; exists (M + N); intros l L. rewrite lsum_plus.
  specialize (HM l L); specialize (HN l L); lra.
Qed.

Lemma sum_plus f g : nonneg f -> nonneg g -> summable f -> summable g ->
  sum (fun x => f x + g x) = sum f + sum g.
Proof.
  intros Pf Pg Sf Sg. pose proof (summable_plus f g Sf Sg) as Sfg. apply Rle_antisym.
  - apply sum_le_bound; intros l N. rewrite lsum_plus.
    pose proof (lsum_le_sum f l Sf N); pose proof (lsum_le_sum g l Sg N); lra.
  - assert (sum f <= sum (fun x => f x + g x) - sum g) as A; [|lra].
    apply sum_le_bound; intros l1 N1.
    assert (sum g <= sum (fun x => f x + g x) - lsum f l1) as B; [|lra].
    apply sum_le_bound; intros l2 N2.
    set (l := nodup eq_dec (l1 ++ l2)).
    assert (NoDup l) as N by apply NoDup_nodup.
    assert (lsum f l1 <= lsum f l) by (apply lsum_incl; auto; intros x Hx; apply nodup_In, in_app_iff; auto).
    assert (lsum g l2 <= lsum g l) by (apply lsum_incl; auto; intros x Hx; apply nodup_In, in_app_iff; auto).
    pose proof (lsum_le_sum _ l Sfg N) as C. rewrite lsum_plus in C. lra.
Qed.

Lemma sum_lsum {A} (f : A -> T -> R) (la : list A) :
  (forall a, In a la -> nonneg (f a)) -> (forall a, In a la -> summable (f a)) ->
  summable (fun x => lsum (fun a => f a x) la) /\
  sum (fun x => lsum (fun a => f a x) la) = lsum (fun a => sum (f a)) la.
Proof.
  induction la as [|a la IH]; simpl; intros P S.
  - split; [apply summable_zero|apply sum_zero].
  - destruct IH as [IS IE]; auto. split.
    + apply summable_plus; auto.
    + rewrite sum_plus, IE; auto. intros x. induction la; simpl; [lra|].
      assert (0 <= f a0 x) by (apply P; simpl; auto).
      assert (0 <= lsum (fun a => f a x) la); [|lra].
      clear - P. induction la; simpl; [lra|].
      assert (0 <= f a1 x) by (apply P; simpl; auto). assert (0 <= lsum (fun a => f a x) la); [|lra].
      apply IHla. intros b [->|[->|Hb]]; apply P; simpl; auto.
Qed.

Lemma sum_finite f (l : list T) : nonneg f -> NoDup l -> (forall x, ~ In x l -> f x = 0) ->
  summable f /\ sum f = lsum f l.
Proof.
  intros P N Z.
  assert (forall l', NoDup l' -> lsum f l' <= lsum f l) as B.
  { intros l' N'.
    assert (lsum f l' = lsum f (filter (fun x => if in_dec eq_dec x l then true else false) l')) as ->.
    { clear N'. induction l' as [|x l' IH]; simpl; auto.
      destruct (in_dec eq_dec x l); simpl; rewrite IH; auto. rewrite (Z x); auto; lra. }
    apply lsum_incl; auto. now apply NoDup_filter.
    intros x Hx. apply filter_In in Hx. destruct Hx as [_ Hx]. destruct (in_dec eq_dec x l); auto; discriminate. }
  split; [now exists (lsum f l)|]. apply Rle_antisym; [now apply sum_le_bound|].
  apply lsum_le_sum; auto. now exists (lsum f l).
Qed.

Lemma has_sum_by_lists f s (L : nat -> list T) : nonneg f -> (forall n, NoDup (L n)) ->
  (forall n, incl (L n) (L (S n))) -> (forall x, exists n, In x (L n)) ->
  (forall n, lsum f (L n) <= s) -> (forall e, 0 < e -> exists n, s - e < lsum f (L n)) ->
  summable f /\ sum f = s.
Proof.
  intros P N I E U A.
  assert (forall n m, (n <= m)%nat -> incl (L n) (L m)) as Mon.
  { intros n m Hm; induction Hm; [apply incl_refl|]. eapply incl_tran; eauto. }
  assert (forall l, NoDup l -> lsum f l <= s) as B.
  { intros l Hl. assert (exists n, incl l (L n)) as [n Hn].
    { clear Hl. induction l as [|x l [n Hn]]; [exists 0%nat; intros y []|].
      destruct (E x) as [m Hm]. exists (max n m). intros y [<-|Hy].
      - eapply Mon; [apply Nat.le_max_r|auto].
      - eapply Mon; [apply Nat.le_max_l|auto]. }
    apply Rle_trans with (lsum f (L n)); auto. now apply lsum_incl. }
  assert (summable f) as S by now exists s.
  split; auto. apply Rle_antisym; [now apply sum_le_bound|].
  destruct (Rle_or_lt s (sum f)) as [|C]; auto.
  destruct (A (s - sum f)) as [n Hn]; [lra|]. pose proof (lsum_le_sum f (L n) S (N n)). lra.
Qed.
End Sums.

Lemma sum_reindex {A T} (g : A -> T) (f : T -> R) : nonneg f ->
  (forall a b, g a = g b -> a = b) -> (forall x, f x <> 0 -> exists a, x = g a) ->
  (summable f <-> summable (fun a => f (g a))) /\ sum f = sum (fun a => f (g a)).
Proof.
  intros P Inj Onto.
  assert (forall l, NoDup l -> exists la, NoDup la /\ lsum f l = lsum (fun a => f (g a)) la /\
          forall a, In a la -> In (g a) l) as Back.
  { intros l N; induction N as [|x l Hx N (la & Na & E & I)].
    - exists []; repeat split; [constructor|auto].
    - destruct (Req_dec (f x) 0) as [Z|Z].
      + exists la; repeat split; auto; simpl; [rewrite Z; lra|auto].
      + destruct (Onto x Z) as [a ->]. exists (a :: la); repeat split; simpl.
        * constructor; auto.
        * rewrite E; reflexivity.
        * intros b [->|Hb]; auto. }
  assert (forall la, NoDup la -> NoDup (map g la)) as Forth.
  { intros la N; apply FinFun.Injective_map_NoDup; auto. }
  assert (forall M, (forall l, NoDup l -> lsum f l <= M) <-> (forall la, NoDup la -> lsum (fun a => f (g a)) la <= M)) as Eq.
  { intros M; split; intros Hb l N.
    - rewrite <- (lsum_map g f l). apply Hb; auto.
    - destruct (Back l N) as (la & Na & -> & _); auto. }
  split.
  - split; intros [M HM]; exists M; apply Eq; auto.
  - unfold sum. f_equal. apply Lub_Rbar_eqset. intros v; split; intros (l & N & ->).
    + destruct (Back l N) as (la & Na & E & _). exists la; auto.
    + exists (map g l). rewrite lsum_map; auto.
Qed.

Lemma sum_shift (f : Z -> R) (d : Z) : nonneg f ->
  (summable f <-> summable (fun z => f (z + d)%Z)) /\ sum f = sum (fun z => f (z + d)%Z).
Proof.
  intros P. apply (sum_reindex (fun z => (z + d)%Z)); auto.
  - intros a b E; lia.
  - intros x _; exists (x - d)%Z; lia.
Qed.

Section Double.
Context {A B : Type} `{EqDec A} `{EqDec B}.
Variable f : A -> B -> R.
Hypothesis f_nonneg : forall a b, 0 <= f a b.

(** The rows are summable, and so are their sums. *)
Definition summable2 := (forall a, summable (f a)) /\ summable (fun a => sum (f a)).

Lemma summable2_column : summable2 -> forall b, summable (fun a => f a b).
Proof. intros [R S] b. apply summable_le with (fun a => sum (f a)); auto. intros a. now apply term_le_sum. Qed.

Lemma sum_swap_le : summable2 ->
  summable (fun b => sum (fun a => f a b)) /\
  sum (fun b => sum (fun a => f a b)) <= sum (fun a => sum (f a)).
Proof.
  intros S2. pose proof (summable2_column S2) as C. destruct S2 as [R S].
  assert (forall l, NoDup l -> lsum (fun b => sum (fun a => f a b)) l <= sum (fun a => sum (f a))) as Bd.
  { intros l N. destruct (sum_lsum (fun b a => f a b) l) as [_ E]; [intros b _ a; auto|auto|].
    rewrite <- E. apply sum_le; auto. intros a. now apply lsum_le_sum. }
  split; [now exists (sum (fun a => sum (f a)))|]. now apply sum_le_bound.
Qed.
End Double.

Lemma sum_swap {A B} `{EqDec A} `{EqDec B} (f : A -> B -> R) : (forall a b, 0 <= f a b) -> summable2 f ->
  summable2 (fun b a => f a b) /\ sum (fun b => sum (fun a => f a b)) = sum (fun a => sum (f a)).
Proof.
  intros P S. destruct (sum_swap_le f P S) as [S1 L1].
  assert (summable2 (fun b a => f a b)) as S' by (split; auto; now apply summable2_column).
  split; auto. apply Rle_antisym; auto.
  destruct (sum_swap_le (fun b a => f a b)) as [_ L2]; auto.
Qed.

Lemma NoDup_list_prod {A B} (la : list A) (lb : list B) : NoDup la -> NoDup lb -> NoDup (list_prod la lb).
Proof.
  intros Na Nb; induction Na as [|a la Ha Na IH]; simpl; [constructor|].
  assert (forall (l1 l2 : list (A * B)), NoDup l1 -> NoDup l2 -> (forall x, In x l1 -> In x l2 -> False) -> NoDup (l1 ++ l2)) as App.
  { clear. induction l1; simpl; auto. intros l2 N1 N2 D. inversion N1; subst. constructor.
    - rewrite in_app_iff; intros [I|I]; auto. apply (D a); auto.
    - apply IHl1; auto. intros x I1 I2; apply (D x); auto. }
  apply App; auto.
  - apply FinFun.Injective_map_NoDup; auto. intros x y E; congruence.
  - intros [x y] I1 I2. apply in_map_iff in I1. destruct I1 as (z & E & _). inversion E; subst.
    apply in_prod_iff in I2. tauto.
Qed.

Lemma sum_pair {A B} `{EqDec A} `{EqDec B} (f : A * B -> R) : nonneg f ->
  summable2 (fun a b => f (a, b)) -> summable f /\ sum f = sum (fun a => sum (fun b => f (a, b))).
Proof.
  intros P [R S].
  assert (forall l, NoDup l -> lsum f l <= sum (fun a => sum (fun b => f (a, b)))) as Bd.
  { intros l N. set (la := nodup eq_dec (map fst l)). set (lb := nodup eq_dec (map snd l)).
    assert (NoDup la) by apply NoDup_nodup. assert (NoDup lb) by apply NoDup_nodup.
    apply Rle_trans with (lsum f (list_prod la lb)).
    - apply lsum_incl; auto. intros [a b] I. apply in_prod; apply nodup_In.
      + now apply (in_map fst) in I. + now apply (in_map snd) in I.
    - rewrite lsum_prod. apply Rle_trans with (lsum (fun a => sum (fun b => f (a, b))) la).
      + apply lsum_le; intros a. now apply lsum_le_sum.
      + now apply lsum_le_sum. }
  assert (summable f) as Sf by now exists (sum (fun a => sum (fun b => f (a, b)))).
  split; auto. apply Rle_antisym; [now apply sum_le_bound|].
  apply sum_le_bound; intros la Na.
  destruct (sum_lsum (fun a b => f (a, b)) la) as [_ <-]; [intros a _ b; apply P|auto|].
  apply sum_le_bound; intros lb Nb.
  rewrite (lsum_swap (fun b a => f (a, b))).
  rewrite <- lsum_prod. apply lsum_le_sum; auto. now apply NoDup_list_prod.
Qed.

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

Lemma prob_all p : prob p (fun _ => true) = sum p.
Proof. reflexivity. Qed.

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

Lemma exp_le e e' : e <= e' -> exp e <= exp e'.
Proof. intros [L| ->]; [left; now apply exp_increasing|lra]. Qed.

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
    { intros r Pr. unfold prob. destruct (sum_finite (on (fun x => if in_dec eq_dec x l then true else false) r) l) as [_ ->]; auto.
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
