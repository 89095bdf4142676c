(** Sums over a type: the supremum of the sums over finite lists without repetition.

    The interface is listed at the top of Laws.v, which exports this file. *)

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
  assert (forall M, (forall l, NoDup l -> lsum f l <= M) <->
                     (forall la, NoDup la -> lsum (fun a => f (g a)) la <= M)) as Eq.
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
  assert (forall (l1 l2 : list (A * B)), NoDup l1 -> NoDup l2 -> (forall x, In x l1 -> In x l2 -> False) ->
    NoDup (l1 ++ l2)) as App.
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
