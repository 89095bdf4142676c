(** Theorem 15: the causes learner, monitor and draw together, over any number of epochs.

    An epoch that begins with the history [h] has [length (thresholds h)] checks at most. The monitor
    counts the loss of the published rule on the rows of each check. The epoch ends at the first
    answer "yes", or when all of its checks said "no": at its age, if [at_age h], or because the
    stream ends. An end is the list of the answers. Where an epoch ends at a firing or at its age, a
    move is drawn from the scores of the rows that the epoch has read; a stream that ends draws
    nothing. Counts and threshold noise belong to one epoch.

    Thresholds, ages and what else is public are functions of the history. So are the rows: the
    adversary chooses them for both worlds, given the transcript, and they differ in one round. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor Epochs CausesRows CausesDraw.
Import ListNotations.
Open Scope R_scope.

(** One epoch of the monitor: answers up to the first "yes", [n] at most. *)
Section Watch.

Variables p_T p_Q : Z -> R.
Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.
Variable theta : nat -> Z.

Fixpoint watch (m : nat -> Z) (n i : nat) (c t : Z) : list bool -> R :=
  match n with
  | O => ret []
  | S k =>
      next (check p_Q (theta i + t - (c + m i)))
        (fun b : bool => if b then ret [] else watch m k (S i) (c + m i) t)
  end.

Definition epoch_answers (m : nat -> Z) (n : nat) : list bool -> R :=
  bind p_T (fun t => watch m n 0 0 t).

Lemma watch_law m n : forall i c t, is_law (watch m n i c t).
Proof.
  induction n; intros i c t; simpl; [apply ret_law|].
  apply next_law; [now apply check_law|]. intros [|]; [apply ret_law|auto].
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

Notation answered := (Monitor.weight (fun b : bool => b) p_T p_Q (fun h => theta (length h)) (fun _ => false)).

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
  - assert (forall b : bool, nonneg (if b then ret [] else watch m n (S (length h)) (c + m (length h)) t))
      as N by (intros [|]; [apply ret_law|apply watch_law]).
    simpl watch. destruct l as [|b l]; [now rewrite next_nil|].
    rewrite next_cons; auto; [|intros b'; now apply check_nonneg].
    rewrite weight_cons. unfold Monitor.ends, fresh. destruct b.
    + destruct l as [|b' l]; simpl.
      * rewrite Rest. unfold ret. destruct (eq_dec [] []) as [|E]; [reflexivity|now elim E].
      * unfold ret. destruct (eq_dec [] (b' :: l)); [discriminate|ring].
    + change (S (length h)) with (length (false :: h)). rewrite IHn. simpl.
      destruct (complete n l); ring.
Qed.

Lemma epoch_weight m n l : epoch_answers m n l =
  if complete n l
  then fresh (fun b : bool => b) p_T p_Q (fun h => theta (length h)) (fun _ => false)
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

Section Gate.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation move := (move pattern outcome).
Notation public := (public (pattern := pattern) (outcome := outcome)).
Notation history := (history (E := list bool) (M := move)).
(** The rows of each check of the epoch that begins with a history. *)
Notation stream := (history -> list (list row)).

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
  epoch_answers (one_sided scale) (one_sided scale) (fun i => nth i (thresholds h) 0%Z)
    (fun i => total_loss h (nth i (rows h) [])) (length (thresholds h)).

Definition draws_of (rows : stream) (h : history) (answers : list bool) : move -> R :=
  if existsb (fun yes => yes) answers || at_age h
  then draw h (read (rows h) answers) else ret nothing.

Lemma miss_pos : 0 < IZR miss.
Proof. apply (IZR_lt 0). lia. Qed.

Lemma scale_pos : 0 < scale.
Proof. apply Rmult_lt_0_compat; [apply miss_pos|now apply Rinv_0_lt_compat]. Qed.

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

(** Two streams that differ in one round. [equal]: not after [h]. [adjacent]: the round is still to
    come, or lies in the epoch that begins with [h]; then, if the epoch ends before the check that
    reads it, it is still to come. *)
Fixpoint equal (rows rows' : stream) (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S k => rows h = rows' h /\ forall l m, equal rows rows' k ((l, m) :: h)
  end.

Fixpoint adjacent (rows rows' : stream) (n : nat) (h : history) : Prop :=
  match n with
  | O => True
  | S k =>
      (rows h = rows' h /\ forall l m, adjacent rows rows' k ((l, m) :: h)) \/
      exists earlier later before after x y,
        rows h = earlier ++ (before ++ x :: after) :: later /\
        rows' h = earlier ++ (before ++ y :: after) :: later /\
        forall l m, if (length l <=? length earlier)%nat
                    then adjacent rows rows' k ((l, m) :: h)
                    else equal rows rows' k ((l, m) :: h)
  end.

Lemma equal_sym rows rows' n : forall h, equal rows rows' n h -> equal rows' rows n h.
Proof. induction n; simpl; auto. intros h [Same Rest]; split; auto. Qed.

Lemma adjacent_sym rows rows' n : forall h, adjacent rows rows' n h -> adjacent rows' rows n h.
Proof.
  induction n as [|n IH]; simpl; auto.
  intros h [[Same Rest]|(earlier & later & before & after & x & y & R & R' & Rest)].
  - left; split; auto.
  - right. exists earlier, later, before, after, y, x. repeat split; auto.
    intros l m. specialize (Rest l m). destruct (_ <=? _)%nat; auto using equal_sym.
Qed.

Section Worlds.

Variables rows rows' : stream.
Hypothesis good_rows : good_stream rows.
Hypothesis good_rows' : good_stream rows'.

Lemma equal_same n : forall h, equal rows rows' n h -> same (gate rows) (gate rows') n h.
Proof.
  induction n as [|n IH]; simpl; auto. intros h [Same Rest].
  unfold ends_of, draws_of. rewrite Same. repeat split; auto.
Qed.

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

Lemma adjacent_near n : forall h, adjacent rows rows' n h ->
  near (gate rows) (gate rows') epsilon (delta / (1 + delta)) n h.
Proof.
  induction n as [|n IH]; simpl; auto.
  intros h [[Same Rest]|(earlier & later & before & after & x & y & R & R' & Rest)].
  - exists (fun _ => false). intros l. unfold ends_of, draws_of. rewrite Same.
    split; [auto|discriminate].
  - exists (fun l => (length earlier <? length l)%nat). intros l. specialize (Rest l).
    destruct (Nat.ltb_spec (length earlier) (length l)) as [Long|Short]; split; try discriminate; intros _.
    + (* the epoch has read the replaced row *)
      assert (forall m, equal rows rows' n ((l, m) :: h)) as Rest'.
      { intros m. specialize (Rest m). destruct (Nat.leb_spec (length l) (length earlier)); auto. lia. }
      split; [|intros m; now apply equal_same].
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
      * apply swing_cost.
      * unfold ends_of. destruct (Lemma_1_one_sided scale scale_pos) as [Law Up].
        apply epoch_ratio with (i := length earlier); auto using scale_pos.
        -- intros j J. rewrite R, R'.
           destruct (Nat.lt_ge_cases j (length earlier)); [now rewrite !app_nth1 by lia|].
           rewrite !app_nth2 by lia.
           replace (j - length earlier)%nat with (S (j - S (length earlier))) by lia. reflexivity.
        -- rewrite R, R', !nth_middle, total_loss_replaced. unfold d.
           destruct (Z.eq_dec (loss h y) (loss h x)); lia.
      * unfold draws_of. destruct (_ || _).
        -- rewrite R, R', !read_after by trivial.
           apply causes_draw_close; auto using unit_rate_nonneg. lia.
        -- apply close_same; [apply ret_law|apply swing_nonneg].
    + assert (forall m, adjacent rows rows' n ((l, m) :: h)) as Rest'.
      { intros m. specialize (Rest m). destruct (Nat.leb_spec (length l) (length earlier)); auto. lia. }
      repeat split; auto.
      * unfold ends_of. apply epoch_local; try apply one_sided_law, scale_pos.
        intros i Hi. rewrite R, R', !app_nth1 by lia. reflexivity.
      * intros m. unfold draws_of. rewrite R, R', !read_before by lia. reflexivity.
Qed.

End Worlds.

(** For any number of epochs [n], whatever the adversary does, in both directions. *)
Theorem Theorem_15 : forall (rows rows' : stream) n,
  good_stream rows -> good_stream rows' -> adjacent rows rows' n [] ->
  close epsilon (delta / (1 + delta)) (run (gate rows) n []) (run (gate rows') n []) /\
  close epsilon (delta / (1 + delta)) (run (gate rows') n []) (run (gate rows) n []).
Proof.
  assert (0 <= epsilon) as E by (eapply Rle_trans; [|apply Rmax_l]; lra).
  assert (0 <= delta / (1 + delta)) as D.
  { apply Rmult_le_pos; auto. left; apply Rinv_0_lt_compat; lra. }
  intros rows rows' n G G' A. split; apply epochs_close; auto; apply adjacent_near; auto.
  now apply adjacent_sym.
Qed.

End Gate.

