(** Theorem 17 of docs/guarantee.md: draw or stay ([StayGate]).

    How it corresponds. [loss r x] is what rule [r] loses on row [x], in units from 0 to [b]. An epoch,
    from one draw to the next, has [length (thresholds h)] answers at most; the monitor counts the loss
    of the published rule, and starts afresh at the ends of public windows ([windows h i]: after [i]
    answers). At a firing a candidate is drawn from the rows of the checks so far. If all answers are
    "no", and [at_age h], one is drawn from all rows that the epoch has: also those of the check at the
    age, whose answer is no part of the transcript. [None] is to stay. A candidate weighs
    exp (s score / b), its score being minus its loss since the last draw, minus a public penalty. Both
    noises of the monitor are one-sided, of scale [b / e].
    Theorem_17: the transcript is (e + 2s, 0)-DP, for streams that react; Theorem_17_fixed: for two given
    streams. Not proved here: that no smaller epsilon will do. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor Watch Exponential Epochs.
Import ListNotations.
Open Scope R_scope.

Section Stay.

Context {Row Rule : Type} `{EqDec Rule}.
Notation move := (option Rule).
Notation history := (history (E := list bool) (M := move)).
Notation stream := (stream (list bool) move Row).

Variable loss : Rule -> Row -> Z.
Variable b : Z.
Variables e s : R.
Hypothesis loss_bounds : forall r x, (0 <= loss r x <= b)%Z.
Hypothesis b_pos : (0 < b)%Z.
Hypothesis e_pos : 0 < e.
Hypothesis s_pos : 0 < s.

(** Public: functions of the transcript so far. *)
Variable published : history -> Rule.
Variable candidates : history -> list Rule.
Variable penalty : history -> move -> R.
Variable thresholds : history -> list Z.
Variable windows : history -> nat -> bool.
Variable at_age : history -> bool.

Definition scale : R := IZR b / e.

Definition total_loss (r : Rule) (rows : list Row) : Z :=
  fold_right (fun x total => loss r x + total)%Z 0%Z rows.

Definition fired (l : list bool) : bool := existsb (fun yes => yes) l.

(** What the draw of an epoch that ended with the answers [l] reads. *)
Definition read (checks : list (list Row)) (l : list bool) : list Row :=
  concat (if fired l then firstn (length l) checks else checks).

Definition score (h : history) (rows : list Row) (m : move) : R :=
  - IZR (total_loss (match m with Some r => r | None => published h end) rows) - penalty h m.

Definition draw (h : history) (rows : list Row) : move -> R :=
  exponential (listed (None :: map Some (candidates h))) (2 * s / (2 * IZR b)) (score h rows).

Definition ends_of (rows : stream) (h : history) : list bool -> R :=
  epoch_answers (one_sided scale) (one_sided scale) (fun i => nth i (thresholds h) 0%Z) (windows h)
    (fun i => total_loss (published h) (nth i (rows h) [])) (length (thresholds h)).

Definition draws_of (rows : stream) (h : history) (l : list bool) : move -> R :=
  if fired l || at_age h then draw h (read (rows h) l) else ret None.

Lemma b_R : 0 < IZR b.
Proof. now apply (IZR_lt 0). Qed.

Lemma scale_pos : 0 < scale.
Proof. pose proof b_R. unfold scale. apply Rdiv_lt_0_compat; lra. Qed.

(** A replaced row moves a rule's loss by at most [b]. *)
Lemma loss_replaced r before after x y :
  (Z.abs (total_loss r (before ++ y :: after) - total_loss r (before ++ x :: after)) <= b)%Z.
Proof.
  assert (forall l l', (total_loss r (l ++ l') = total_loss r l + total_loss r l')%Z) as App.
  { intros l l'. unfold total_loss. induction l; simpl; lia. }
  rewrite !App. unfold total_loss; simpl.
  pose proof (loss_bounds r x). pose proof (loss_bounds r y). lia.
Qed.

Lemma draw_replaced h before after x y :
  is_law (draw h (before ++ x :: after)) /\
  close (2 * s) 0 (draw h (before ++ x :: after)) (draw h (before ++ y :: after)).
Proof.
  apply Theorem_6_list; [discriminate|lra|apply b_R|].
  intros m. unfold score. set (r := match m with Some r => r | None => published h end).
  pose proof (loss_replaced r before after x y) as Moved.
  apply IZR_le in Moved. rewrite abs_IZR, minus_IZR in Moved. rewrite Rabs_minus_sym.
  match goal with |- Rabs ?d <= _ => match type of Moved with Rabs ?d' <= _ =>
    replace d with d' by ring end end. exact Moved.
Qed.

Lemma draw_law h rows : is_law (draw h rows).
Proof.
  destruct (Theorem_6_list (None :: map Some (candidates h)) (score h rows) (score h rows)
    (2 * s) (IZR b)) as [Law _]; auto; [discriminate|lra|apply b_R|].
  intros m. rewrite Rminus_eq_0, Rabs_R0. left; apply b_R.
Qed.

Lemma ends_of_law rows h : is_law (ends_of rows h).
Proof. unfold ends_of. apply epoch_answers_law; apply one_sided_law, scale_pos. Qed.

Lemma draws_of_law rows h l : is_law (draws_of rows h l).
Proof. unfold draws_of. destruct (_ || _); [apply draw_law|apply ret_law]. Qed.

Definition gate (rows : stream) : mechanism :=
  {| Epochs.ends := ends_of rows; draws := draws_of rows;
     ends_law := ends_of_law rows; draws_law := draws_of_law rows |}.

(** An epoch that fired has not read the checks after its answers; any other has read all. *)
Definition unread (l : list bool) (i : nat) : bool := fired l && (length l <=? i)%nat.

Lemma replaced_row rows rows' h earlier later before after x y l :
  rows h = earlier ++ (before ++ x :: after) :: later ->
  rows' h = earlier ++ (before ++ y :: after) :: later ->
  if unread l (length earlier)
  then ends_of rows h l = ends_of rows' h l /\ (forall m, draws_of rows h l m = draws_of rows' h l m)
  else exists e1 e2, e1 + e2 <= e + 2 * s /\ ends_of rows h l <= exp e1 * ends_of rows' h l /\
       close e2 0 (draws_of rows h l) (draws_of rows' h l).
Proof.
  intros R R'. unfold unread. destruct (fired l && (length l <=? length earlier)%nat) eqn:Case.
  - apply andb_prop in Case as [Fired Short]. apply Nat.leb_le in Short. split.
    + unfold ends_of. apply epoch_local; try apply one_sided_law, scale_pos.
      intros i Hi. rewrite R, R', !app_nth1 by lia. reflexivity.
    + intros m. unfold draws_of, read. rewrite R, R', Fired, !firstn_app.
      replace (length l - length earlier)%nat with 0%nat by lia. reflexivity.
  - exists e, (2 * s). split; [lra|split].
    + unfold ends_of. destruct (Lemma_1_one_sided scale scale_pos) as [Law Up].
      replace e with (INR (Z.to_nat b) / scale).
      * apply epoch_ratio with (i := length earlier); auto using scale_pos.
        -- intros j J. rewrite R, R'.
           destruct (Nat.lt_ge_cases j (length earlier)); [now rewrite !app_nth1 by lia|].
           rewrite !app_nth2 by lia.
           replace (j - length earlier)%nat with (S (j - S (length earlier))) by lia. reflexivity.
        -- rewrite R, R', !nth_middle, Z2Nat.id by lia. apply loss_replaced.
      * pose proof b_R. unfold scale. rewrite INR_IZR_INZ, Z2Nat.id by lia. field. lra.
    + assert (exists u v, read (rows h) l = u ++ x :: v /\ read (rows' h) l = u ++ y :: v) as Read.
      { unfold read. rewrite R, R'. destruct (fired l); simpl in Case.
        - apply Nat.leb_gt in Case. rewrite !firstn_app.
          replace (length l - length earlier)%nat with (S (length l - S (length earlier))) by lia.
          rewrite !concat_app. simpl. rewrite <- !app_assoc.
          exists (concat (firstn (length l) earlier) ++ before),
            (after ++ concat (firstn (length l - S (length earlier)) later)).
          now rewrite <- !app_assoc.
        - rewrite !concat_app. simpl. rewrite <- !app_assoc.
          exists (concat earlier ++ before), (after ++ concat later). now rewrite <- !app_assoc. }
      destruct Read as (u & v & Read & Read'). unfold draws_of. rewrite Read, Read'.
      destruct (_ || _); [apply draw_replaced|].
      destruct (ret_law (@None Rule)) as (P & S & _).
      apply pure_close; auto. apply pure_weaken with 0; auto; [lra|apply pure_refl].
Qed.

(** For any number of draws [n], whatever the adversary does, in both directions. *)
Theorem Theorem_17 : forall (rows rows' : stream) n, adjacent unread rows rows' n [] ->
  close (e + 2 * s) 0 (run (gate rows) n []) (run (gate rows') n []) /\
  close (e + 2 * s) 0 (run (gate rows') n []) (run (gate rows) n []).
Proof.
  assert (forall rows rows' n, adjacent unread rows rows' n [] ->
    close (e + 2 * s) 0 (run (gate rows) n []) (run (gate rows') n [])) as One.
  { intros rows rows' n A. apply streams_close with unread; auto; try lra.
    - intros h Same. simpl. unfold ends_of, draws_of. rewrite Same. auto.
    - intros. now apply replaced_row with later before after x y. }
  intros rows rows' n A. split; apply One; auto. now apply adjacent_sym.
Qed.

(** A fixed stream, check after check. An epoch has [age h] checks at most, and begins where the last one
    ended: after the check that fired, or at its age. *)
Variable age : history -> nat.

Fixpoint used (h : history) : nat :=
  match h with [] => 0 | (l, _) :: g => (if fired l then length l else age g) + used g end.

Definition fixed (checks : list (list Row)) : stream := fun h => firstn (age h) (skipn (used h) checks).

Lemma equal_adjacent (rows rows' : stream) n :
  forall h, equal rows rows' n h -> adjacent unread rows rows' n h.
Proof. induction n; simpl; auto. intros h [Same Rest]. left; auto. Qed.

Lemma fixed_adjacent earlier later before after x y n : forall h,
  let checks := earlier ++ (before ++ x :: after) :: later in
  let checks' := earlier ++ (before ++ y :: after) :: later in
  if (used h <=? length earlier)%nat then adjacent unread (fixed checks) (fixed checks') n h
  else equal (fixed checks) (fixed checks') n h.
Proof.
  induction n as [|n IH]; intros h checks checks'; [destruct (_ <=? _)%nat; exact I|].
  destruct (Nat.leb_spec (used h) (length earlier)) as [Before|After].
  - assert (forall z, fixed (earlier ++ (before ++ z :: after) :: later) h
      = firstn (age h) (skipn (used h) earlier ++ (before ++ z :: after) :: later)) as Cut.
    { intros z. unfold fixed. rewrite skipn_app.
      now replace (used h - length earlier)%nat with 0%nat by lia. }
    destruct (Nat.leb_spec (age h) (length earlier - used h)) as [Ends|Reads].
    + (* the epoch ends before the row *)
      left. split.
      * unfold checks, checks'. rewrite !Cut, !firstn_app, !skipn_length.
        now replace (age h - (length earlier - used h))%nat with 0%nat by lia.
      * intros l m. specialize (IH ((l, m) :: h)).
        destruct (used ((l, m) :: h) <=? length earlier)%nat; auto. now apply equal_adjacent.
    + right. exists (skipn (used h) earlier), (firstn (age h - S (length earlier - used h)) later),
        before, after, x, y.
      assert (forall z, fixed (earlier ++ (before ++ z :: after) :: later) h = skipn (used h) earlier ++
        (before ++ z :: after) :: firstn (age h - S (length earlier - used h)) later) as Cut'.
      { intros z. rewrite Cut, firstn_app, firstn_all2, skipn_length by (rewrite skipn_length; lia).
        now replace (age h - (length earlier - used h))%nat
          with (S (age h - S (length earlier - used h))) by lia. }
      repeat split; try apply Cut'. intros l m. specialize (IH ((l, m) :: h)). simpl used in IH.
      unfold unread. rewrite skipn_length. destruct (fired l); simpl andb.
      * destruct (Nat.leb_spec (length l + used h) (length earlier));
          destruct (Nat.leb_spec (length l) (length earlier - used h)); auto; lia.
      * destruct (Nat.leb_spec (age h + used h) (length earlier)); auto; lia.
  - split.
    + unfold fixed, checks, checks'. rewrite !skipn_app. do 2 f_equal.
      now replace (used h - length earlier)%nat with (S (used h - S (length earlier))) by lia.
    + intros l m. specialize (IH ((l, m) :: h)). simpl used in IH.
      destruct (Nat.leb_spec ((if fired l then length l else age h) + used h) (length earlier)); auto.
      destruct (fired l); lia.
Qed.

(** Two streams that differ in one row, wherever it is. *)
Corollary Theorem_17_fixed : forall earlier later before after x y n,
  let gate_on := fun z => gate (fixed (earlier ++ (before ++ z :: after) :: later)) in
  close (e + 2 * s) 0 (run (gate_on x) n []) (run (gate_on y) n []).
Proof.
  intros earlier later before after x y n gate_on.
  refine (proj1 (Theorem_17 _ _ n _)). exact (fixed_adjacent earlier later before after x y n []).
Qed.

End Stay.
