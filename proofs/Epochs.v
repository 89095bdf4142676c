(** Parallel composition over epochs, along the tree of transcripts.

    A mechanism works in epochs. An epoch that begins with the history [h] (what was released so
    far, the latest first) ends in a way [e] that is drawn by [ends h], and then a move is drawn by
    [draws h e]. Whatever else an epoch depends on (the published rule, thresholds, rows that an
    adversary chooses) is a function of the history. Two worlds may differ in one round only, which
    is read by one epoch; which epoch, may depend on the history too. This is wider than
    Parallel_composition (Composition.v), where the transcript before an epoch fixes whether it reads
    the round: here an epoch may also end before it comes to that round, which is then read by a
    later one. *)

From Coq Require Import Reals List Lra Bool.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope R_scope.

Section Epochs.

Context {E M : Type} `{EqDec E} `{EqDec M}.

Definition history := list (E * M).

Record mechanism := {
  ends : history -> E -> R;
  draws : history -> E -> M -> R;
  ends_law : forall h, is_law (ends h);
  draws_law : forall h e, is_law (draws h e) }.

(** The law of the transcript of [n] epochs that begin after [h]. *)
Fixpoint run (m : mechanism) (n : nat) (h : history) : history -> R :=
  match n with
  | O => ret []
  | S rest =>
      bind (ends m h) (fun e =>
        bind (draws m h e) (fun a => lmap (cons (e, a)) (run m rest ((e, a) :: h))))
  end.

Lemma run_law m n : forall h, is_law (run m n h).
Proof.
  induction n as [|n IH]; intros h; simpl; [apply ret_law|].
  apply bind_law; [apply ends_law|]. intros e. apply bind_law; [apply draws_law|].
  intros a. now apply lmap_law.
Qed.

(** The probability of a set of transcripts, by the first epoch. *)
Lemma prob_run m n h T :
  prob (run m (S n) h) T =
  sum (fun e => ends m h e * sum (fun a => draws m h e a *
    prob (run m n ((e, a) :: h)) (fun t => T ((e, a) :: t)))).
Proof.
  assert (forall e a, is_law (lmap (cons (e, a)) (run m n ((e, a) :: h)))) as L
    by (intros; apply lmap_law, run_law).
  simpl. rewrite prob_bind; try apply ends_law.
  - apply sum_ext; intros e. f_equal. rewrite prob_bind; try apply draws_law.
    + apply sum_ext; intros a. f_equal. apply prob_lmap; apply run_law.
    + intros a. apply law_sub, L.
  - intros e. apply law_sub, bind_law; [apply draws_law|]. auto.
Qed.

Variables m m' : mechanism.
Variables eps delta : R.
Hypothesis eps_nonneg : 0 <= eps.
Hypothesis delta_nonneg : 0 <= delta.

(** The two worlds agree after [h]. *)
Fixpoint same (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S rest =>
      (forall e, ends m h e = ends m' h e) /\ (forall e a, draws m h e a = draws m' h e a) /\
      forall e a, same rest ((e, a) :: h)
  end.

(** The replaced round has not been read when the epoch after [h] begins. If the epoch ends in a way
    that has [reads], it has been read; then the end costs [e1] and the draw [(e2, delta)]. If not,
    nothing differs yet. *)
Fixpoint near (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S rest =>
      exists reads : E -> bool, forall e,
        (reads e = false ->
           ends m h e = ends m' h e /\ (forall a, draws m h e a = draws m' h e a) /\
           forall a, near rest ((e, a) :: h)) /\
        (reads e = true ->
           (exists e1 e2, e1 + e2 <= eps /\ ends m h e <= exp e1 * ends m' h e /\
             close e2 delta (draws m h e) (draws m' h e)) /\
           forall a, same rest ((e, a) :: h))
  end.

Lemma same_run n : forall h T, same n h -> prob (run m n h) T = prob (run m' n h) T.
Proof.
  induction n as [|n IH]; intros h T; [reflexivity|]. intros (Ends & Draws & Rest).
  rewrite !prob_run. apply sum_ext; intros e. rewrite Ends. f_equal.
  apply sum_ext; intros a. rewrite Draws. f_equal. now apply IH.
Qed.

Lemma test_bounds {T} `{EqDec T} (p : T -> R) f : is_law p -> (forall x, 0 <= f x <= 1) ->
  summable (fun x => p x * f x) /\ 0 <= sum (fun x => p x * f x) <= 1.
Proof.
  intros (P & S & One) F.
  assert (forall x, p x * f x <= p x) as Le.
  { intros x. rewrite <- (Rmult_1_r (p x)) at 2. apply Rmult_le_compat_l; [apply P|apply F]. }
  assert (summable (fun x => p x * f x)) as S' by now apply summable_le with p.
  repeat split; auto; [now apply sum_nonneg|]. rewrite <- One. now apply sum_le.
Qed.

Lemma sum_excess {T} `{EqDec T} (p q f g : T -> R) : is_law p -> is_law q ->
  (forall x, 0 <= f x <= 1) -> (forall x, 0 <= g x <= 1) ->
  (forall x, p x * f x <= exp eps * (q x * g x) + delta * p x) ->
  sum (fun x => p x * f x) <= exp eps * sum (fun x => q x * g x) + delta.
Proof.
  intros Lp Lq F G Le.
  destruct (test_bounds p f Lp F) as [Sp _]. destruct (test_bounds q g Lq G) as [Sq _].
  destruct Lp as (Pp & Sump & One). destruct Lq as (Pq & _).
  pose proof (exp_pos_le eps).
  apply Rle_trans with (sum (fun x => exp eps * (q x * g x) + delta * p x)).
  - apply sum_le; auto. apply summable_plus; apply summable_scal; auto.
  - rewrite sum_plus, !sum_scal, One; try apply summable_scal; auto; try lra.
    + intros x. repeat apply Rmult_le_pos; auto. apply G.
    + intros x. now apply Rmult_le_pos.
Qed.

Lemma run_tests (w : mechanism) n h e T a :
  0 <= prob (run w n ((e, a) :: h)) (fun t => T ((e, a) :: t)) <= 1.
Proof. apply prob_bounds, law_sub, run_law. Qed.

(** Parallel composition: however many epochs there are, the cost is that of one. *)
Theorem epochs_close n : forall h, near n h -> close eps delta (run m n h) (run m' n h).
Proof.
  assert (1 <= exp eps) as One by (rewrite <- exp_0; now apply exp_le).
  induction n as [|n IH]; intros h.
  - intros _ T. pose proof (prob_bounds (run m 0 h) T (law_sub _ (run_law m 0 h))) as Bounds.
    change (prob (run m' 0 h) T) with (prob (run m 0 h) T). set (p := prob (run m 0 h) T) in *.
    assert (1 * p <= exp eps * p) by (apply Rmult_le_compat_r; lra). lra.
  - intros [reads Cases] T. rewrite !prob_run.
    apply sum_excess; try apply ends_law.
    1, 2: intros e; apply test_bounds; [apply draws_law|]; intros a; apply run_tests.
    intros e. destruct (Cases e) as [Before After]. destruct (ends_law m h) as [Pe _].
    pose proof (Pe e) as Fe. destruct (reads e).
    + destruct After as [(e1 & e2 & Sum & End & Draw) Rest]; auto.
      set (g := fun a => prob (run m' n ((e, a) :: h)) (fun t => T ((e, a) :: t))).
      rewrite (sum_ext _ (fun a => draws m h e a * g a))
        by (intros a; unfold g; now rewrite (same_run n _ _ (Rest a))).
      assert (sum (fun a => draws m h e a * g a)
              <= exp e2 * sum (fun a => draws m' h e a * g a) + delta) as Test.
      { apply close_test; auto; try apply law_sub, draws_law. intros a; apply run_tests. }
      destruct (test_bounds (draws m' h e) g) as [_ Bounds];
        [apply draws_law|intros a; apply run_tests|].
      set (A := sum (fun a => draws m h e a * g a)) in *.
      set (B := sum (fun a => draws m' h e a * g a)) in *.
      apply Rle_trans with (ends m h e * (exp e2 * B) + delta * ends m h e);
        [apply Rmult_le_compat_l with (r := ends m h e) in Test; lra|].
      apply Rplus_le_compat_r.
      apply Rle_trans with (exp e1 * ends m' h e * (exp e2 * B)).
      * apply Rmult_le_compat_r; auto. apply Rmult_le_pos; [apply exp_pos_le|lra].
      * replace (exp e1 * ends m' h e * (exp e2 * B)) with (exp (e1 + e2) * (ends m' h e * B))
          by (rewrite exp_plus; ring).
        apply Rmult_le_compat_r; [|now apply exp_le].
        apply Rmult_le_pos; [apply ends_law|apply Bounds].
    + destruct Before as (End & Draw & Rest); auto.
      rewrite <- End.
      assert (sum (fun a => draws m h e a *
                prob (run m n ((e, a) :: h)) (fun t => T ((e, a) :: t)))
              <= exp eps * sum (fun a => draws m' h e a *
                prob (run m' n ((e, a) :: h)) (fun t => T ((e, a) :: t))) + delta) as Inner.
      { apply sum_excess; try apply draws_law; try (intros a; apply run_tests).
        intros a. rewrite <- Draw. destruct (draws_law m h e) as [Pd _]. specialize (Pd a).
        pose proof (IH _ (Rest a) (fun t => T ((e, a) :: t))) as Step.
        apply Rmult_le_compat_l with (r := draws m h e a) in Step; lra. }
      apply Rmult_le_compat_l with (r := ends m h e) in Inner; lra.
Qed.

End Epochs.

(** Streams of rows that react, and differ in one round. *)
Section Streams.

Context {E M Row : Type} `{EqDec E} `{EqDec M}.

(** The rows of each check of the epoch that begins with a history. *)
Definition stream := history (E := E) (M := M) -> list (list Row).

(** [unread e i]: an epoch that ended with [e] has not read the rows of check [i]. *)
Variable unread : E -> nat -> bool.

(** No row differs after [h]. *)
Fixpoint equal (rows rows' : stream) (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S k => rows h = rows' h /\ forall e a, equal rows rows' k ((e, a) :: h)
  end.

(** The row that differs is still to come, or lies in the epoch that begins with [h]; then, if the
    epoch ends before it is read, it is still to come. *)
Fixpoint adjacent (rows rows' : stream) (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S k =>
      (rows h = rows' h /\ forall e a, adjacent rows rows' k ((e, a) :: h)) \/
      exists earlier later before after x y,
        rows h = earlier ++ (before ++ x :: after) :: later /\
        rows' h = earlier ++ (before ++ y :: after) :: later /\
        forall e a, if unread e (length earlier)
                    then adjacent rows rows' k ((e, a) :: h)
                    else equal rows rows' k ((e, a) :: h)
  end.

Lemma equal_sym rows rows' n : forall h, equal rows rows' n h -> equal rows' rows n h.
Proof. induction n; simpl; auto. intros h [Same Rest]; split; auto. Qed.

Lemma adjacent_sym rows rows' n : forall h, adjacent rows rows' n h -> adjacent rows' rows n h.
Proof.
  induction n as [|n IH]; simpl; auto.
  intros h [[Same Rest]|(earlier & later & before & after & x & y & R & R' & Rest)].
  - left; split; auto.
  - right. exists earlier, later, before, after, y, x. repeat split; auto.
    intros e a. specialize (Rest e a). destruct (unread e (length earlier)); auto using equal_sym.
Qed.

Section Worlds.

Variable gate : stream -> mechanism (E := E) (M := M).
Variables rows rows' : stream.
Variables eps delta : R.
(** An epoch reads its own rows and the history. *)
Hypothesis local : forall h, rows h = rows' h ->
  (forall e, ends (gate rows) h e = ends (gate rows') h e) /\
  forall e a, draws (gate rows) h e a = draws (gate rows') h e a.
(** One replaced row: not read yet, or paid for. *)
Hypothesis paid : forall h earlier later before after x y e,
  rows h = earlier ++ (before ++ x :: after) :: later ->
  rows' h = earlier ++ (before ++ y :: after) :: later ->
  if unread e (length earlier)
  then ends (gate rows) h e = ends (gate rows') h e /\
       forall a, draws (gate rows) h e a = draws (gate rows') h e a
  else exists e1 e2, e1 + e2 <= eps /\ ends (gate rows) h e <= exp e1 * ends (gate rows') h e /\
       close e2 delta (draws (gate rows) h e) (draws (gate rows') h e).

Lemma equal_same n : forall h, equal rows rows' n h -> same (gate rows) (gate rows') n h.
Proof.
  induction n as [|n IH]; simpl; auto. intros h [Same Rest].
  destruct (local h Same) as [Ends Draws]. auto.
Qed.

Lemma adjacent_near n : forall h, adjacent rows rows' n h ->
  near (gate rows) (gate rows') eps delta n h.
Proof.
  induction n as [|n IH]; simpl; auto.
  intros h [[Same Rest]|(earlier & later & before & after & x & y & R & R' & Rest)].
  - destruct (local h Same) as [Ends Draws].
    exists (fun _ => false). intros e. split; [auto|discriminate].
  - exists (fun e => negb (unread e (length earlier))). intros e. specialize (Rest e).
    pose proof (paid h earlier later before after x y e R R') as Paid.
    destruct (unread e (length earlier)); simpl; split; try discriminate; intros _.
    + destruct Paid as [Ends Draws]. auto.
    + split; auto. intros a. now apply equal_same.
Qed.

Theorem streams_close n : 0 <= eps -> 0 <= delta -> adjacent rows rows' n [] ->
  close eps delta (run (gate rows) n []) (run (gate rows') n []).
Proof. intros E0 D0 A. apply epochs_close; auto. now apply adjacent_near. Qed.

End Worlds.
End Streams.

Arguments stream : clear implicits.
