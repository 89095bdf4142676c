(** One epoch of the mistakes monitor, as a program: answers up to the first "yes", [n] at most.

    How it corresponds. [m i] is the loss of check [i] of the epoch, [theta i] its threshold. Where
    [restart i] is true the count is zero again and the threshold noise fresh after [i] answers
    "no": the ends of public windows (Theorem 17); there are none in Theorem 15.
    epoch_weight: the program has the law that Monitor.v bounds.
    epoch_ratio: Theorem 3 for one epoch. epoch_local: answers depend on their own checks. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor.
Import ListNotations.
Open Scope R_scope.

Section Watch.

Variables p_T p_Q : Z -> R.
Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.
Variable theta : nat -> Z.
Variable restart : nat -> bool.

Fixpoint watch (m : nat -> Z) (n i : nat) (c t : Z) : list bool -> R :=
  match n with
  | O => ret []
  | S k =>
      next (check p_Q (theta i + t - (c + m i)))
        (fun b : bool => if b then ret [] else
           if restart (S i) then bind p_T (fun t' => watch m k (S i) 0 t')
           else watch m k (S i) (c + m i) t)
  end.

Definition epoch_answers (m : nat -> Z) (n : nat) : list bool -> R :=
  bind p_T (fun t => watch m n 0 0 t).

Lemma watch_law m n : forall i c t, is_law (watch m n i c t).
Proof.
  induction n; intros i c t; simpl; [apply ret_law|].
  apply next_law; [now apply check_law|]. intros [|]; [apply ret_law|].
  destruct (restart (S i)); auto. now apply bind_law.
Qed.

Lemma epoch_answers_law m n : is_law (epoch_answers m n).
Proof. apply bind_law; auto. intros; apply watch_law. Qed.

(** The answers of an epoch that has ended. *)
Fixpoint complete (n : nat) (l : list bool) : bool :=
  match n, l with
  | O, [] => true
  | S _, [true] => true
  | S k, false :: l' => complete k l'
  | _, _ => false
  end.

Notation answered := (Monitor.weight (fun b : bool => b) p_T p_Q
  (fun h => theta (length h)) (fun h => restart (length h))).

(** The program draws what Monitor.v calls the weight of the answers. *)
Lemma watch_weight m : forall n l h c t,
  watch m n (length h) c t l =
  if complete n l then answered (fun h => m (length h)) c t h l else 0.
Proof.
  destruct LT as (PT & ST & One).
  assert (sum (fun t : Z => p_T t * 1) = 1) as Rest
    by (rewrite (sum_ext _ p_T) by (intros; ring); auto).
  induction n; intros l h c t.
  - simpl. unfold ret. destruct l as [|b l], (eq_dec [] _) as [E|E]; auto; try discriminate.
    now elim E.
  - assert (forall b : bool, nonneg (if b then ret [] else
        if restart (S (length h)) then bind p_T (fun t' => watch m n (S (length h)) 0 t')
        else watch m n (S (length h)) (c + m (length h)) t)) as N.
    { intros [|]; [apply ret_law|]. destruct (restart _); [|apply watch_law].
      apply bind_law; [now split|]. intros; apply watch_law. }
    simpl watch. destruct l as [|b l]; [now rewrite next_nil|].
    rewrite next_cons; auto; [|intros b'; now apply check_nonneg].
    rewrite weight_cons. unfold Monitor.ends, fresh. destruct b.
    + destruct l as [|b' l]; simpl.
      * rewrite Rest. unfold ret. destruct (eq_dec [] []) as [|E]; [reflexivity|now elim E].
      * unfold ret. destruct (eq_dec [] (b' :: l)); [discriminate|ring].
    + pose proof (fun c t => IHn l (false :: h) c t) as IH. simpl length in IH. simpl.
      destruct (restart (S (length h))).
      * unfold bind. rewrite (sum_ext _ (fun t' => p_T t' * if complete n l
          then answered (fun h => m (length h)) 0 t' (false :: h) l else 0))
          by (intros t'; now rewrite IH).
        destruct (complete n l); [reflexivity|].
        rewrite (sum_ext _ (fun _ => 0)) by (intros; ring). rewrite sum_zero. ring.
      * rewrite IH. destruct (complete n l); ring.
Qed.

Lemma epoch_weight m n l : epoch_answers m n l =
  if complete n l
  then fresh (fun b : bool => b) p_T p_Q (fun h => theta (length h)) (fun h => restart (length h))
         (fun h => m (length h)) [] l
  else 0.
Proof.
  unfold epoch_answers, bind, fresh.
  rewrite (sum_ext _ (fun t => p_T t * if complete n l
             then answered (fun h => m (length h)) 0 t [] l else 0))
    by (intros t; f_equal; apply (watch_weight m n l [])).
  destruct (complete n l); [reflexivity|].
  rewrite (sum_ext _ (fun _ => 0)) by (intros; ring). apply sum_zero.
Qed.

(** Answers depend on the checks that they answer. *)
Lemma answered_local m m' : forall l c t h,
  (forall i, (i < length h + length l)%nat -> m i = m' i) ->
  answered (fun h => m (length h)) c t h l = answered (fun h => m' (length h)) c t h l.
Proof.
  induction l as [|a l IH]; intros c t h Same; [reflexivity|].
  simpl in Same. rewrite !weight_cons. rewrite (Same (length h)) by lia.
  f_equal. destruct (Monitor.ends _ _ a h).
  - apply sum_ext; intros t'. f_equal. apply IH. intros i Hi; apply Same. simpl in Hi; lia.
  - apply IH. intros i Hi; apply Same. simpl in Hi; lia.
Qed.

Lemma epoch_local m m' n l : (forall i, (i < length l)%nat -> m i = m' i) ->
  epoch_answers m n l = epoch_answers m' n l.
Proof.
  intros Same. rewrite !epoch_weight. destruct (complete n l); auto.
  apply sum_ext; intros t. f_equal. now apply answered_local.
Qed.

(** Step 2: Theorem 3 for one epoch. Where one check's loss differs by [d] units at most, the
    answers cost [d] over the scale. *)
Lemma epoch_ratio s m m' i d n : 0 < s -> U s p_T -> U s p_Q ->
  (forall j, j <> i -> m j = m' j) -> (Z.abs (m' i - m i) <= Z.of_nat d)%Z ->
  pure (INR d / s) (epoch_answers m n) (epoch_answers m' n).
Proof.
  intros S UT UQ Same Bound l. rewrite !epoch_weight. destruct (complete n l); [|lra].
  apply monitor_given_keys with (touched := fun h : list bool => Nat.eqb (length h) i); auto.
  repeat split.
  - intros h T. apply Same. now apply Nat.eqb_neq.
  - intros h. destruct (Nat.eq_dec (length h) i) as [->|N]; auto. rewrite (Same _ N). lia.
  - intros h later H H'. apply Nat.eqb_eq in H. apply Nat.eqb_eq in H'.
    rewrite app_length in H'. destruct later; auto. simpl in H'; lia.
Qed.

End Watch.

