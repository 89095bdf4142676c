(** Transcripts: lists that are drawn step by step, each step given those before it.

    next p k     the law of a :: l, where a is drawn from p and then l from k a
    check p x    the law of the answer "noise >= x", for noise of law p *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise.
Import ListNotations.
Open Scope R_scope.

Section Next.
Context {A : Type} `{EqDec A}.

Definition next (p : A -> R) (k : A -> list A -> R) : list A -> R :=
  bind p (fun a => lmap (cons a) (k a)).

Lemma lmap_cons (a : A) (p : list A -> R) : nonneg p ->
  lmap (cons a) p [] = 0 /\ forall b l, lmap (cons a) p (b :: l) = if eq_dec a b then p l else 0.
Proof.
  intros P. unfold lmap, bind. split; [|intros b l; destruct (eq_dec a b) as [<-|N]].
  - rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|].
    intros x; unfold ret; destruct (eq_dec (a :: x) []); [discriminate|ring].
  - destruct (sum_finite (fun x => p x * ret (a :: x) (a :: l)) [l]) as [_ ->].
    + intros x; apply Rmult_le_pos; [apply P|unfold ret; destruct eq_dec; lra].
    + constructor; simpl; auto; constructor.
    + intros x Hx; unfold ret; destruct (eq_dec (a :: x) (a :: l)) as [E|E]; [|ring].
      inversion E; subst; simpl in Hx; tauto.
    + simpl; unfold ret; destruct (eq_dec (a :: l) (a :: l)); [ring|tauto].
  - rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|].
    intros x; unfold ret; destruct (eq_dec (a :: x) (b :: l)) as [E|E]; [inversion E; subst; tauto|ring].
Qed.

Lemma next_nil p k : (forall a, nonneg (k a)) -> next p k [] = 0.
Proof.
  intros K; unfold next, bind. rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|].
  intros a. destruct (lmap_cons a (k a) (K a)) as [-> _]; ring.
Qed.

Lemma next_cons p k a l : nonneg p -> (forall a, nonneg (k a)) -> next p k (a :: l) = p a * k a l.
Proof.
  intros P K; unfold next, bind.
  assert (forall x, p x * lmap (cons x) (k x) (a :: l) = if eq_dec x a then p a * k a l else 0) as E.
  { intros x. destruct (lmap_cons x (k x) (K x)) as [_ ->]. destruct (eq_dec x a); [subst; ring|ring]. }
  rewrite (sum_ext _ _ E). destruct (sum_finite (fun x => if eq_dec x a then p a * k a l else 0) [a]) as [_ ->].
  - intros x; destruct (eq_dec x a); [|lra]. apply Rmult_le_pos; [apply P|apply K].
  - constructor; simpl; auto; constructor.
  - intros x Hx; destruct (eq_dec x a); auto; subst; simpl in Hx; tauto.
  - simpl; destruct (eq_dec a a); [ring|tauto].
Qed.

Lemma next_law p k : is_law p -> (forall a, is_law (k a)) -> is_law (next p k).
Proof. intros P K; apply bind_law; auto. intros a; now apply lmap_law. Qed.
End Next.

(** * Checks *)

Definition check (p : Z -> R) (x : Z) : bool -> R := lmap (fun k => (x <=? k)%Z) p.

Lemma check_law p x : is_law p -> is_law (check p x).
Proof. intros L; now apply lmap_law. Qed.

Lemma check_true p x : check p x true = tail p x.
Proof.
  apply sum_ext; intros k. unfold ret, on. destruct (x <=? k)%Z; destruct eq_dec; try discriminate; try tauto; ring.
Qed.

Lemma check_false p x : is_law p -> check p x false = 1 - tail p x.
Proof.
  intros L. unfold tail. rewrite <- prob_not; auto.
  apply sum_ext; intros k. unfold ret, on. destruct (x <=? k)%Z; destruct eq_dec; simpl; try discriminate;
    try tauto; ring.
Qed.

Lemma check_nonneg p x b : is_law p -> 0 <= check p x b.
Proof. intros L. destruct (check_law p x L) as [P _]; apply P. Qed.

(** A larger gap makes a "no" likelier, and a "yes" dearer by 1/s for each step that it grew. *)
Lemma check_no p x y : is_law p -> (x <= y)%Z -> check p x false <= check p y false.
Proof. intros L H. rewrite !check_false; auto. pose proof (tail_mono p x y L H). lra. Qed.

Lemma check_yes s p x y (d : nat) : 0 < s -> noise s p -> (y <= x + Z.of_nat d)%Z ->
  check p x true <= exp (INR d / s) * check p y true.
Proof.
  intros S N H. rewrite !check_true. eapply Rle_trans; [apply (tail_by s p d S N)|].
  apply Rmult_le_compat_l; [apply exp_pos_le|]. apply tail_mono; auto. apply N.
Qed.
