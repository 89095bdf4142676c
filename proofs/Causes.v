(** Theorem 15: the causes learner, monitor and draw together, over any number of epochs.

    An epoch that begins with the history [h] has [length (thresholds h)] checks at most. The monitor
    counts the loss of the published rule on the rows of each check. The epoch ends at the first
    answer "yes", or when all of its checks said "no": at its age, if [at_age h], or because the
    stream ends. An end is the list of the answers. Where an epoch ends at a firing or at its age, a
    move is drawn from the scores of the rows that the epoch has read; a stream that ends draws
    nothing. Counts and threshold noise belong to one epoch.

    Thresholds, ages and what else is public are functions of the history. So are the rows: the
    adversary chooses them for both worlds, given the transcript, and they differ in one round
    ([adjacent], Epochs.v). Theorem_15_fixed is the case of two given streams. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor Watch Epochs CausesRows CausesDraw.
Import ListNotations.
Open Scope R_scope.

Section Gate.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation move := (move pattern outcome).
Notation public := (public (pattern := pattern) (outcome := outcome)).
Notation history := (history (E := list bool) (M := move)).
(** The rows of each check of the epoch that begins with a history. *)
Notation stream := (stream (list bool) move row).

Variables miss alarm : Z.
Variable lowers : list pattern -> key -> bool.
Variables e s delta : R.
Hypothesis costs : (0 < alarm <= miss)%Z.
Hypothesis e_pos : 0 < e.
Hypothesis s_nonneg : 0 <= s.
Hypothesis delta_nonneg : 0 <= delta.

Variable pub : history -> public.
Variable thresholds : history -> list Z.
Variable at_age : history -> bool.
Hypothesis prior_nonneg : forall h, nonneg (prior (pub h)).
Hypothesis margin_nonneg : forall h, (0 <= margin (pub h))%Z.

(** In units: the cost of a false alarm, the scale of both noises, the rate of one unit. *)
Definition c : R := IZR alarm / IZR miss.
Definition scale : R := IZR miss / e.
Definition unit_rate : R := s / IZR miss.
Definition epsilon : R := Rmax (2 * s) (e + (1 + c) * s).

Notation loss h := (loss miss alarm (published (pub h))).
Notation total_loss h := (total_loss miss alarm (published (pub h))).
Notation draw h := (draw miss alarm lowers unit_rate delta (pub h)).

Definition read (checks : list (list row)) (answers : list bool) : list row :=
  concat (firstn (length answers) checks).

Definition ends_of (rows : stream) (h : history) : list bool -> R :=
  epoch_answers (one_sided scale) (one_sided scale) (fun i => nth i (thresholds h) 0%Z) (fun _ => false)
    (fun i => total_loss h (nth i (rows h) [])) (length (thresholds h)).

Definition draws_of (rows : stream) (h : history) (answers : list bool) : move -> R :=
  if existsb (fun yes => yes) answers || at_age h
  then draw h (read (rows h) answers) else ret nothing.

Lemma miss_pos : 0 < IZR miss.
Proof. apply (IZR_lt 0). lia. Qed.

Lemma scale_pos : 0 < scale.
Proof. pose proof miss_pos. unfold scale. apply Rdiv_lt_0_compat; lra. Qed.

Lemma unit_rate_nonneg : 0 <= unit_rate.
Proof. apply Rmult_le_pos; auto. left; apply Rinv_0_lt_compat, miss_pos. Qed.

Lemma ends_of_law rows h : is_law (ends_of rows h).
Proof. unfold ends_of. apply epoch_answers_law; apply one_sided_law, scale_pos. Qed.

Lemma draws_of_law rows h answers : is_law (draws_of rows h answers).
Proof.
  unfold draws_of. destruct (_ || _); [|apply ret_law].
  apply draw_law; auto; lia.
Qed.

(** The learner's gate on a stream. *)
Definition gate (rows : stream) : mechanism :=
  {| Epochs.ends := ends_of rows; draws := draws_of rows;
     ends_law := ends_of_law rows; draws_law := draws_of_law rows |}.

(** What the theorem asks of rows. *)
Definition good (h : history) (one : row) : Prop := lists_a_set one /\ within_prior (pub h) one.
Definition good_stream (rows : stream) : Prop := forall h, Forall (Forall (good h)) (rows h).

(** An epoch that gave [l] as its answers has not read the checks after those. *)
Definition unread (l : list bool) (i : nat) : bool := (length l <=? i)%nat.

Section Worlds.

Variables rows rows' : stream.
Hypothesis good_rows : good_stream rows.
Hypothesis good_rows' : good_stream rows'.

Lemma read_before earlier (one : list row) later answers : (length answers <= length earlier)%nat ->
  read (earlier ++ one :: later) answers = read earlier answers.
Proof.
  intros Short. unfold read. rewrite firstn_app.
  replace (length answers - length earlier)%nat with 0%nat by lia. now rewrite app_nil_r.
Qed.

Lemma read_after earlier (before after : list row) x later answers :
  (length earlier < length answers)%nat ->
  read (earlier ++ (before ++ x :: after) :: later) answers =
  (concat earlier ++ before) ++ x :: (after ++
    concat (firstn (length answers - S (length earlier)) later)).
Proof.
  intros Long. unfold read. rewrite firstn_app, firstn_all2 by lia.
  replace (length answers - length earlier)%nat
    with (S (length answers - S (length earlier))) by lia.
  rewrite concat_app. simpl. rewrite <- !app_assoc. reflexivity.
Qed.

Lemma total_loss_replaced h before after (x y : row) :
  (total_loss h (before ++ y :: after) - total_loss h (before ++ x :: after) = loss h y - loss h x)%Z.
Proof.
  assert (forall l l' : list row, (total_loss h (l ++ l') = total_loss h l + total_loss h l')%Z) as App.
  { intros l l'. unfold CausesRows.total_loss. induction l; simpl; lia. }
  rewrite !App. unfold CausesRows.total_loss; simpl. lia.
Qed.

Lemma good_read h answers (w : stream) : good_stream w -> Forall (good h) (read (w h) answers).
Proof.
  intros G. specialize (G h). unfold read. apply Forall_concat.
  rewrite <- (firstn_skipn (length answers) (w h)) in G. now apply Forall_app in G.
Qed.

Lemma swing_nonneg h x y : 0 <= unit_rate * IZR (swing miss alarm (pub h) x y).
Proof.
  apply Rmult_le_pos; [apply unit_rate_nonneg|]. apply (IZR_le 0). unfold swing.
  destruct (Z.eq_dec _ _); lia.
Qed.

(** Monitor and draw are never both at their worst. *)
Lemma swing_cost h x y :
  INR (if Z.eq_dec (loss h y) (loss h x) then 0 else Z.to_nat miss) / scale
  + unit_rate * IZR (swing miss alarm (pub h) x y) <= epsilon.
Proof.
  pose proof miss_pos as M. unfold epsilon, swing, scale, unit_rate, c.
  destruct (Z.eq_dec _ _).
  - eapply Rle_trans; [|apply Rmax_l]. rewrite mult_IZR. right. simpl. field. lra.
  - eapply Rle_trans; [|apply Rmax_r]. rewrite INR_IZR_INZ, Z2Nat.id, plus_IZR by lia.
    right. field. lra.
Qed.

Lemma close_same {T} (p : T -> R) eps : is_law p -> 0 <= eps -> close eps (delta / (1 + delta)) p p.
Proof.
  intros (P & S & _) E. apply close_weaken with 0 0; auto.
  - apply Rmult_le_pos; auto. left; apply Rinv_0_lt_compat; lra.
  - apply pure_close; auto. apply pure_refl.
Qed.

Lemma replaced_row h earlier later before after x y l :
  rows h = earlier ++ (before ++ x :: after) :: later ->
  rows' h = earlier ++ (before ++ y :: after) :: later ->
  if unread l (length earlier)
  then ends_of rows h l = ends_of rows' h l /\ (forall m, draws_of rows h l m = draws_of rows' h l m)
  else exists e1 e2, e1 + e2 <= epsilon /\ ends_of rows h l <= exp e1 * ends_of rows' h l /\
       close e2 (delta / (1 + delta)) (draws_of rows h l) (draws_of rows' h l).
Proof.
  intros R R'. unfold unread. destruct (Nat.leb_spec (length l) (length earlier)) as [Short|Long].
  - split.
    + unfold ends_of. apply epoch_local; try apply one_sided_law, scale_pos.
      intros i Hi. rewrite R, R', !app_nth1 by lia. reflexivity.
    + intros m. unfold draws_of. rewrite R, R', !read_before by lia. reflexivity.
  - (* the epoch has read the replaced row *)
    set (d := if Z.eq_dec (loss h y) (loss h x) then 0%nat else Z.to_nat miss).
    assert (sets : forall w, good_stream w -> Forall lists_a_set (read (w h) l)).
    { intros w G. eapply Forall_impl; [|now apply good_read]. now intros a [? _]. }
    pose proof (sets rows good_rows) as set_x. pose proof (sets rows' good_rows') as set_y.
    pose proof (good_read h l rows good_rows) as good_x.
    pose proof (good_read h l rows' good_rows') as good_y.
    rewrite R, read_after in set_x, good_x by trivial.
    rewrite R', read_after in set_y, good_y by trivial.
    apply Forall_elt in good_x. apply Forall_elt in good_y.
    destruct good_x as [set_x' prior_x], good_y as [set_y' prior_y].
    pose proof (row_effects miss alarm lowers (published (pub h))
                  ltac:(lia) x y nothing nothing set_x' set_y') as (Sigma & _).
    exists (INR d / scale), (unit_rate * IZR (swing miss alarm (pub h) x y)).
    split; [|split].
    + apply swing_cost.
    + unfold ends_of. destruct (Lemma_1_one_sided scale scale_pos) as [Law Up].
      apply epoch_ratio with (i := length earlier); auto using scale_pos.
      * intros j J. rewrite R, R'.
        destruct (Nat.lt_ge_cases j (length earlier)); [now rewrite !app_nth1 by lia|].
        rewrite !app_nth2 by lia.
        replace (j - length earlier)%nat with (S (j - S (length earlier))) by lia. reflexivity.
      * rewrite R, R', !nth_middle, total_loss_replaced. unfold d.
        destruct (Z.eq_dec (loss h y) (loss h x)); lia.
    + unfold draws_of. destruct (_ || _).
      * rewrite R, R', !read_after by trivial.
        apply causes_draw_close; auto using unit_rate_nonneg. lia.
      * apply close_same; [apply ret_law|apply swing_nonneg].
Qed.

End Worlds.

(** For any number of epochs [n], whatever the adversary does, in both directions. *)
Theorem Theorem_15 : forall (rows rows' : stream) n,
  good_stream rows -> good_stream rows' -> adjacent unread rows rows' n [] ->
  close epsilon (delta / (1 + delta)) (run (gate rows) n []) (run (gate rows') n []) /\
  close epsilon (delta / (1 + delta)) (run (gate rows') n []) (run (gate rows) n []).
Proof.
  assert (0 <= epsilon) as E by (eapply Rle_trans; [|apply Rmax_l]; lra).
  assert (0 <= delta / (1 + delta)) as D.
  { apply Rmult_le_pos; auto. left; apply Rinv_0_lt_compat; lra. }
  assert (forall rows rows' n, good_stream rows -> good_stream rows' ->
    adjacent unread rows rows' n [] ->
    close epsilon (delta / (1 + delta)) (run (gate rows) n []) (run (gate rows') n [])) as One.
  { intros rows rows' n G G' A. apply streams_close with unread; auto.
    - intros h Same. simpl. unfold ends_of, draws_of. rewrite Same. auto.
    - intros. now apply replaced_row with later before after x y. }
  intros rows rows' n G G' A. split; apply One; auto. now apply adjacent_sym.
Qed.

(** A fixed stream, check after check: an epoch begins where the last one ended. *)
Definition answered (h : history) : nat :=
  fold_right (fun one total => length (fst one) + total)%nat 0%nat h.

Definition fixed (checks : list (list row)) : stream := fun h => skipn (answered h) checks.

Lemma fixed_adjacent earlier later before after x y n : forall h,
  let checks := earlier ++ (before ++ x :: after) :: later in
  let checks' := earlier ++ (before ++ y :: after) :: later in
  if (answered h <=? length earlier)%nat then adjacent unread (fixed checks) (fixed checks') n h
  else equal (fixed checks) (fixed checks') n h.
Proof.
  induction n as [|n IH]; intros h checks checks'; [destruct (_ <=? _)%nat; exact I|].
  assert (forall l (m : move), answered ((l, m) :: h) = (length l + answered h)%nat) as Next
    by reflexivity.
  destruct (Nat.leb_spec (answered h) (length earlier)) as [Before|After].
  - right. exists (skipn (answered h) earlier), later, before, after, x, y.
    assert (forall z, fixed (earlier ++ (before ++ z :: after) :: later) h
      = skipn (answered h) earlier ++ (before ++ z :: after) :: later) as Cut.
    { intros z. unfold fixed. rewrite skipn_app.
      now replace (answered h - length earlier)%nat with 0%nat by lia. }
    repeat split; try apply Cut. intros l m. specialize (IH ((l, m) :: h)). rewrite Next in IH.
    unfold unread. rewrite skipn_length.
    destruct (Nat.leb_spec (length l + answered h) (length earlier));
      destruct (Nat.leb_spec (length l) (length earlier - answered h)); auto; lia.
  - split.
    + unfold fixed, checks, checks'. rewrite !skipn_app. f_equal.
      now replace (answered h - length earlier)%nat with (S (answered h - S (length earlier))) by lia.
    + intros l m. specialize (IH ((l, m) :: h)). rewrite Next in IH.
      destruct (Nat.leb_spec (length l + answered h) (length earlier)); auto; lia.
Qed.

(** Two streams that differ in one row, wherever it is. *)
Corollary Theorem_15_fixed : forall earlier later before after x y n,
  let checks := earlier ++ (before ++ x :: after) :: later in
  let checks' := earlier ++ (before ++ y :: after) :: later in
  (forall h, Forall (Forall (good h)) checks) -> (forall h, Forall (Forall (good h)) checks') ->
  close epsilon (delta / (1 + delta)) (run (gate (fixed checks)) n []) (run (gate (fixed checks')) n []).
Proof.
  intros earlier later before after x y n checks checks' G G'.
  assert (forall c, (forall h, Forall (Forall (good h)) c) -> good_stream (fixed c)) as Good.
  { intros c Gc h. specialize (Gc h). unfold fixed.
    rewrite <- (firstn_skipn (answered h) c) in Gc. now apply Forall_app in Gc. }
  refine (proj1 (Theorem_15 _ _ n (Good _ G) (Good _ G') _)).
  exact (fixed_adjacent earlier later before after x y n []).
Qed.

End Gate.

