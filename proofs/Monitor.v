(** Theorem 3 of docs/guarantee.md: the mistakes monitor pays epsilon once, over any number of epochs.

    How it corresponds. A transcript is fixed, and with it all that is public: for each event, newest first, an
    [item]. A check has the [loss] of its rounds, and [likely s x] is the probability of its answer where the
    threshold noise less the count is [x], for noise of scale [s]: that of "noise >= limit + x" ([watched]). An
    event that is no check is likely 1 ([passed]). Where [fresh] says so, the count is zero
    again afterwards and threshold noise is drawn anew, at the scale that stands there; it must at every firing.
    [mu l r] is the probability of the answers of [l] with threshold noise [r], and [mass l] that of the
    answers. Gate.v has the program that draws them.
    Theorem_3: the answers of two worlds, whose losses differ in any checks by [distance], each difference
    over the scale of its epoch. One round of at most b units, at scale b/e, is a distance of e; so are m rounds
    of a user at scale m b/e, in one check or in several. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts.
Import ListNotations.
Open Scope R_scope.

Record item := { loss : Z; likely : R -> Z -> R; fresh : option R }.

(** What the proof needs of an answer: it becomes likelier as the threshold rises, unless it ends the epoch;
    and a threshold that rises by [k] costs k over the scale at most. *)
Definition fair (i : item) :=
  (forall s, fresh i = Some s -> 0 < s) /\
  forall s, 0 < s -> (forall x, 0 <= likely i s x <= 1) /\
    (fresh i = None -> forall x y, (x <= y)%Z -> likely i s x <= likely i s y) /\
    forall x y k, (x <= y <= x + Z.of_nat k)%Z -> likely i s x <= exp (INR k / s) * likely i s y.

(** The same public part. *)
Definition same (i j : item) := likely i = likely j /\ fresh i = fresh j.

Section Monitor.
Variable noise_of : R -> Z -> R.
Hypothesis noises : forall s, 0 < s -> noise s (noise_of s).
Variable first : R.
Hypothesis first_pos : 0 < first.

(** The scale and the count of the epoch that [l] leaves open. *)
Fixpoint scale (l : list item) : R :=
  match l with [] => first | i :: rest => match fresh i with Some s => s | None => scale rest end end.
Fixpoint count (l : list item) : Z :=
  match l with [] => 0%Z | i :: rest => match fresh i with Some _ => 0%Z | None => (count rest + loss i)%Z end end.

Fixpoint mu (l : list item) : Z -> R :=
  match l with
  | [] => noise_of first
  | i :: rest =>
      let answered r := mu rest r * likely i (scale rest) (r - (count rest + loss i)) in
      match fresh i with Some s => fun r => sum answered * noise_of s r | None => answered end
  end.

Definition mass (l : list item) : R := sum (mu l).

Definition answered (l : list item) (i : item) (r : Z) : R :=
  mu l r * likely i (scale l) (r - (count l + loss i)).

Lemma mu_cons i l : mu (i :: l) =
  match fresh i with Some s => fun r => sum (answered l i) * noise_of s r | None => answered l i end.
Proof. reflexivity. Qed.

Lemma scale_pos l : Forall fair l -> 0 < scale l.
Proof. intros F; induction F as [|i l [P _] F IH]; simpl; auto. destruct (fresh i); auto. Qed.

Lemma answered_of_mu l i : Forall fair (i :: l) -> nonneg (mu l) -> summable (mu l) ->
  nonneg (answered l i) /\ summable (answered l i).
Proof.
  intros F P S. inversion F as [|? ? [_ Fi] Fl]; subst. destruct (Fi _ (scale_pos l Fl)) as (B & _).
  split; [intros r; apply Rmult_le_pos; [apply P|apply B]|].
  apply summable_le with (mu l); auto. intros r. unfold answered. rewrite <- (Rmult_1_r (mu l r)) at 2.
  apply Rmult_le_compat_l; [apply P|apply B].
Qed.

Lemma mu_bounds l : Forall fair l -> nonneg (mu l) /\ summable (mu l).
Proof.
  intros F; induction F as [|i l Fi F [P S]].
  - simpl. destruct (noises first first_pos) as [(P & S & _) _]. auto.
  - destruct (answered_of_mu l i (Forall_cons _ Fi F) P S) as [P' S'].
    destruct Fi as [Pos _]. rewrite mu_cons. destruct (fresh i) as [s|]; auto.
    destruct (noises s (Pos s eq_refl)) as [(Pn & Sn & _) _]. pose proof (sum_nonneg _ S').
    split; [intros r; apply Rmult_le_pos; auto|now apply summable_scal].
Qed.

Lemma answered_bounds l i : Forall fair (i :: l) -> nonneg (answered l i) /\ summable (answered l i).
Proof. intros F. apply answered_of_mu; auto; apply mu_bounds; now inversion F. Qed.

(** The answers, whatever follows: what is drawn anew adds up to 1. *)
Lemma mass_cons i l : Forall fair (i :: l) -> mass (i :: l) = sum (answered l i).
Proof.
  intros F. unfold mass. rewrite mu_cons. destruct (fresh i) as [s|] eqn:E; auto.
  assert (0 < s) as S by (inversion F as [|? ? [Pos _] _]; auto).
  destruct (noises s S) as [(P & Sm & One) _].
  rewrite sum_scal, One; auto; [ring|]. apply sum_nonneg. now apply answered_bounds.
Qed.

(** Within an epoch the noise keeps property (U): answers so far make large noise likelier. *)
Lemma mu_U l : Forall fair l -> U (scale l) (mu l).
Proof.
  intros F; induction F as [|i l Fi F IH]; intros r; simpl scale.
  - apply noises, first_pos.
  - destruct (answered_bounds l i (Forall_cons _ Fi F)) as [_ S]. apply sum_nonneg in S.
    destruct Fi as [Pos Fi]. rewrite mu_cons. destruct (fresh i) as [s|].
    + destruct (noises s (Pos s eq_refl)) as [_ Up]. specialize (Up r).
      apply Rmult_le_compat_l with (r := sum (answered l i)) in Up; lra.
    + destruct (Fi _ (scale_pos l F)) as (B & Mono & _). unfold answered. rewrite <- Rmult_assoc.
      apply Rmult_le_compat; [apply (mu_bounds l F)|apply B|apply IH|]. apply Mono; auto; lia.
Qed.

(** * Two worlds *)

(** What the items [l] of world 0 and [l'] of world 1 have come to, where a loss has differed by [k] in an epoch
    of scale [s]. The threshold noise has paid for a count that is larger by [k] in world 1; nothing is paid yet
    for one that is smaller; or the epoch is over, and all is paid. *)
Section Two_worlds.
Variables (s : R) (k : nat).
Hypothesis s_pos : 0 < s.
Let cost := exp (INR k / s).

Definition up (j : nat) (m m' : Z -> R) := forall r, m r <= cost * m' (r + Z.of_nat j)%Z.
Definition down (m m' : Z -> R) := forall r, m r <= m' r.

Inductive paid (l l' : list item) : Prop :=
| paid_up : (count l' = count l + Z.of_nat k)%Z -> scale l = s -> up k (mu l) (mu l') -> paid l l'
| paid_down : (count l' = count l - Z.of_nat k)%Z -> scale l = s -> down (mu l) (mu l') -> paid l l'
| paid_all : count l' = count l -> up 0 (mu l) (mu l') -> paid l l'.

Lemma cost_ge_1 : 1 <= cost.
Proof.
  unfold cost. rewrite <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|].
  left; now apply Rinv_0_lt_compat.
Qed.

Lemma sum_up j (m m' : Z -> R) : nonneg m' -> summable m' -> up j m m' -> sum m <= cost * sum m'.
Proof.
  intros P S M. pose proof cost_ge_1. destruct (sum_shift m' (Z.of_nat j) P) as [Sh ->].
  rewrite <- sum_scal; [|lra|now apply Sh]. apply sum_le; auto. apply summable_scal; [lra|now apply Sh].
Qed.

Lemma sum_down (m m' : Z -> R) : nonneg m' -> summable m' -> down m m' -> sum m <= cost * sum m'.
Proof.
  intros P S M. apply Rle_trans with (1 * sum m'); [rewrite Rmult_1_l; now apply sum_le|].
  apply Rmult_le_compat_r; [now apply sum_nonneg|apply cost_ge_1].
Qed.

Section Step.
Variables (l l' : list item) (i i' : item).
Hypothesis fair_i : Forall fair (i :: l).
Hypothesis fair_i' : Forall fair (i' :: l').
Hypothesis alike : same i i'.
Hypothesis scales : scale l = scale l'.

Lemma fair_of : fair i /\ 0 < scale l /\ nonneg (mu l).
Proof. inversion fair_i; subst. split; auto. split; [now apply scale_pos|now apply mu_bounds]. Qed.

Lemma ends_paid z : fresh i = Some z -> sum (answered l i) <= cost * sum (answered l' i') -> paid (i :: l) (i' :: l').
Proof.
  intros E Le. destruct alike as [_ Same]. apply paid_all; [simpl; now rewrite <- Same, E|].
  intros r. rewrite !mu_cons, <- Same, Z.add_0_r, E.
  assert (0 < z) as S by now apply fair_of. destruct (noises z S) as [(P & _) _].
  rewrite <- Rmult_assoc. now apply Rmult_le_compat_r.
Qed.

Lemma up_step j : (count l' + loss i' = count l + loss i + Z.of_nat j)%Z -> up j (mu l) (mu l') ->
  up j (answered l i) (answered l' i').
Proof.
  intros C M r. destruct fair_of as [[_ Fi] [Sc _]]. destruct (Fi _ Sc) as (B & _).
  unfold answered. rewrite <- (proj1 alike), <- scales, <- Rmult_assoc.
  replace (r + Z.of_nat j - (count l' + loss i'))%Z with (r - (count l + loss i))%Z by lia.
  apply Rmult_le_compat_r; [apply B|apply M].
Qed.

Lemma paid_by_threshold : (count l' + loss i' = count l + loss i + Z.of_nat k)%Z -> scale l = s ->
  up k (mu l) (mu l') -> paid (i :: l) (i' :: l').
Proof.
  intros C Sc M. pose proof (up_step k C M) as A. destruct (answered_bounds l' i' fair_i') as [P S].
  destruct (fresh i) eqn:E; [apply ends_paid with r; auto; now apply sum_up with k|].
  destruct alike as [_ Same]. apply paid_up; simpl; rewrite <- ?Same, E; auto.
Qed.

Lemma paid_by_firing : (count l' + loss i' = count l + loss i - Z.of_nat k)%Z -> scale l = s ->
  down (mu l) (mu l') -> paid (i :: l) (i' :: l').
Proof.
  intros C Sc M. destruct fair_of as [[_ Fi] [Pos Pm]]. destruct (Fi _ Pos) as (B & Mono & Cost).
  destruct (answered_bounds l' i' fair_i') as [P S]. pose proof alike as [Same Same'].
  destruct (fresh i) eqn:E.
  - apply ends_paid with r; auto. apply (sum_up 0); auto. intros x. rewrite Z.add_0_r. unfold answered.
    rewrite <- Same, <- scales. unfold cost. rewrite <- Sc.
    replace (exp (INR k / scale l) * (mu l' x * likely i (scale l) (x - (count l' + loss i'))))
      with (mu l' x * (exp (INR k / scale l) * likely i (scale l) (x - (count l' + loss i')))) by ring.
    apply Rmult_le_compat; [apply Pm|apply B|apply M|]. apply Cost. lia.
  - apply paid_down; simpl; rewrite <- ?Same', E; auto. intros r. unfold answered. rewrite <- Same, <- scales.
    apply Rmult_le_compat; [apply Pm|apply B|apply M|]. apply Mono; auto; lia.
Qed.

Lemma paid_before : loss i' = loss i -> paid l l' -> paid (i :: l) (i' :: l').
Proof.
  intros L [C Sc M|C Sc M|C M].
  - apply paid_by_threshold; auto. lia.
  - apply paid_by_firing; auto. lia.
  - assert (up 0 (answered l i) (answered l' i')) as A by (apply up_step; auto; simpl; lia).
    destruct (answered_bounds l' i' fair_i') as [P S].
    destruct (fresh i) eqn:E; [apply ends_paid with r; auto; now apply sum_up with 0%nat|].
    destruct alike as [_ Same]. apply paid_all; simpl; rewrite <- ?Same, E; auto. lia.
Qed.
End Step.

Lemma paid_mass l l' : Forall fair l' -> paid l l' -> mass l <= cost * mass l'.
Proof.
  intros F. destruct (mu_bounds l' F) as [P S].
  intros [_ _ M|_ _ M|_ M]; [now apply sum_up with k|now apply sum_down|now apply sum_up with 0%nat].
Qed.
End Two_worlds.

Lemma scale_later later l l' : scale l = scale l' -> scale (later ++ l) = scale (later ++ l').
Proof. intros E; induction later as [|i later IH]; simpl; auto. now destruct (fresh i). Qed.

(** One check differs: the threshold noise pays for it, or the firing, and never both. *)
Lemma one_check later l i i' : Forall fair (later ++ i :: l) -> Forall fair (later ++ i' :: l) -> same i i' ->
  mass (later ++ i :: l) <= exp (INR (Z.abs_nat (loss i' - loss i)) / scale l) * mass (later ++ i' :: l).
Proof.
  intros F F' Sm. set (k := Z.abs_nat (loss i' - loss i)).
  assert (Forall fair (i :: l) /\ Forall fair (i' :: l)) as [Fi Fi'].
  { apply Forall_app in F, F'. tauto. }
  assert (Forall fair l) as Fl by (inversion Fi; auto). pose proof (scale_pos l Fl) as Sc.
  apply paid_mass; auto.
  assert (paid (scale l) k (i :: l) (i' :: l)) as Now.
  { destruct (Z.leb_spec (loss i) (loss i')).
    - apply paid_by_threshold; auto; [lia|]. intros r. apply U_by; auto. now apply mu_U.
    - apply paid_by_firing; auto; [lia|]. intros r; lra. }
  induction later as [|j later IH]; auto. simpl app in *. inversion F; inversion F'; subst.
  apply paid_before; auto; [split; auto|]. apply scale_later. simpl. destruct Sm as [_ <-]. now destruct (fresh i).
Qed.

(** Losses may differ in any checks; each costs its difference over the scale of its epoch. *)
Fixpoint distance (l l' : list item) : R :=
  match l, l' with
  | i :: rest, i' :: rest' => IZR (Z.abs (loss i' - loss i)) / scale rest + distance rest rest'
  | _, _ => 0
  end.

Theorem Theorem_3 l l' : Forall fair l -> Forall fair l' -> Forall2 same l l' ->
  mass l <= exp (distance l l') * mass l'.
Proof.
  intros F F' Sm.
  assert (forall later, Forall fair later -> mass (later ++ l) <= exp (distance l l') * mass (later ++ l')) as Both.
  { induction Sm as [|i i' l l' Si Sm IH]; intros later Fl; simpl distance.
    - rewrite exp_0. lra.
    - inversion F; inversion F'; subst. rewrite exp_plus.
      assert (forall x, later ++ i' :: x = (later ++ [i']) ++ x) as App by (intros; now rewrite <- app_assoc).
      assert (Forall fair (later ++ [i'])) as Fl' by (apply Forall_app; auto).
      eapply Rle_trans; [apply (one_check later l i i'); auto; apply Forall_app; auto|].
      rewrite INR_IZR_INZ, Zabs2Nat.id_abs, Rmult_assoc. apply Rmult_le_compat_l; [apply exp_pos_le|].
      rewrite (App l), (App l'). now apply IH. }
  now apply (Both []).
Qed.
End Monitor.

(** * The two kinds of items *)

Section Items.
Variable noise_of : R -> Z -> R.
Hypothesis noises : forall s, 0 < s -> noise s (noise_of s).

Definition watched (loss limit : Z) (answer : bool) (fresh : option R) : item :=
  {| loss := loss; likely s x := check (noise_of s) (limit + x) answer; fresh := fresh |}.
Definition passed (loss : Z) (fresh : option R) : item := {| loss := loss; likely _ _ := 1; fresh := fresh |}.

Lemma watched_fair n limit b f : (forall s, f = Some s -> 0 < s) -> (b = true -> f <> None) -> fair (watched n limit b f).
Proof.
  intros Pos End. split; auto. intros s S. destruct (noises s S) as [L Up]. simpl.
  assert (forall x, 0 <= check (noise_of s) (limit + x) b <= 1) as B.
  { intros x. split; [now apply check_nonneg|]. apply sub_le_1, law_sub. now apply check_law. }
  split; auto. split.
  - intros F x y Le. destruct b; [now elim End|]. apply check_no; auto; lia.
  - intros x y k Le. destruct b; [apply check_yes; auto; lia|].
    apply Rle_trans with (check (noise_of s) (limit + y) false); [apply check_no; auto; lia|].
    rewrite <- (Rmult_1_l (check _ _ _)) at 1. apply Rmult_le_compat_r; [apply B|].
    rewrite <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|left; now apply Rinv_0_lt_compat].
Qed.

Lemma passed_fair n f : (forall s, f = Some s -> 0 < s) -> fair (passed n f).
Proof.
  intros Pos. split; auto. intros s S. simpl. split; [intros; lra|split; [intros; lra|]].
  intros x y k _. rewrite Rmult_1_r, <- exp_0. apply exp_le.
  apply Rmult_le_pos; [apply pos_INR|left; now apply Rinv_0_lt_compat].
Qed.
End Items.
