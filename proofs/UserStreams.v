(** Theorem 19 of docs/guarantee.md, the stream: epochs that end at public times, whose draws read a few rounds of each user
    and whose counts count one; and Theorem 20 for a table of users.

    How it corresponds. A round is a user and a row. Where a draw is made, [rounds h] are those of its epoch. Of each user
    it reads the first R of them, in the first m epochs in which the user has a round: [users_at], a function of who
    appears when, as in PrivateCauses._within_cap. [window h] are the rounds that counts are about, one of a user at most:
    [Theorem_19_counted] has the first of each user, as CauseCounts.note_user. Worlds differ in the rows of one user, at the same places ([same_but]); rows may be chosen
    on the way, for both worlds. There is no monitor, so releases follow each other as in Releases.v, and rates, weights,
    c0, deltas and scales are functions of what was released.
    Theorem_19: costs of what reads or counts the user, added up on every path.
    Theorem_19_constant: one s, c0 and delta_1, E windows: (e_v + 2 (1 + c0) s m, m R delta_1).
    Theorem_20_users: a finished table, of whose users some rows are read, by an order that has nothing to do with them.
    Theorem_20_users_order: a file in another order, if every order of reading is as likely. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Tree Gate Compare Effect CausesDraw Evidence Releases Tables Users.
Import ListNotations.
Open Scope R_scope.

(** How often a path comes by. *)
Fixpoint times {X} (f : list X -> bool) (h : list X) : nat :=
  match h with [] => 0 | _ :: g => (if f g then 1 else 0) + times f g end%nat.

Lemma spent_times {X} `{EqDec X} (c : list X -> R) (f f' : list X -> bool) x x' :
  (forall g, c g <= (if f g then x else 0) + (if f' g then x' else 0)) -> forall h, spent (fun _ => false) c h <= INR (times f h) * x + INR (times f' h) * x'.
Proof.
  intros Le h. induction h as [|a g IH]; cbn [spent times]; [simpl; lra|]. specialize (Le g). rewrite !plus_INR.
  destruct (f g), (f' g); simpl INR; lra.
Qed.

Section Users.

Context {user pattern outcome : Type} `{EqDec user} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation change := (change pattern outcome).
Notation history := (list (event (V := list Z) (K := change))).
Notation spent := (spent (fun _ : history => false)).
Notation round := (user * row)%type.

Variable lowers : list pattern -> key -> bool.
Variable next : history -> step.
Variable pub : history -> public pattern outcome.
Variables delta scale : history -> R.
Variable cells : history -> list (option key * option outcome).
Variable units : Z.
Variable lowest : history -> Z.
(** R of the text is [cap] here: the rounds of a user that an epoch reads. *)
Variables cap m : nat.

Hypothesis delta_nonneg : forall h, 0 <= delta h.
Hypothesis scale_pos : forall h, 0 < scale h.
Hypothesis distinct : forall h, NoDup (cells h).
Hypothesis public_ok : forall h, proper (pub h).
Hypothesis units_nonneg : (0 <= units)%Z.
Hypothesis lowest_nonneg : forall h, (0 <= lowest h)%Z.
Hypothesis most_of_users : forall h, (units <= most (pub h))%Z.

Definition draw_of (users : history -> list (list row)) (h : history) : move pattern outcome -> R :=
  user_draw lowers units (lowest h) (delta h) (pub h) (users h).

Definition user_release (counted : history -> list row) (users : history -> list (list row)) :=
  release_at next pub scale cells counted (draw_of users).

(** 2 (1 + c0) s *)
Definition user_fee (h : history) : R := rate (pub h) * IZR (2 * (units + lowest h)).
Definition user_loss (h : history) : R := delta h * INR cap.

Definition good_users (users : list (list row)) : Prop := forall h, Forall (good (pub h)) users.

(** The rows of one user replaced, of whom [cap] are read at most. *)
Definition one_user (u v : list (list row)) : Prop := exists before after x y,
  u = before ++ x :: after /\ v = before ++ y :: after /\ (length x <= cap)%nat /\ (length y <= cap)%nat.

Lemma user_lawful counted users h : lawful (user_release counted users h).
Proof. apply release_lawful; auto. intros _. now apply user_draw_law. Qed.

Lemma user_near counted counted' users users' h :
  (next h = CountPositives \/ next h = CountCells -> one_row (counted h) (counted' h)) ->
  (next h = DrawMove -> one_user (users h) (users' h) /\ good_users (users h) /\ good_users (users' h)) ->
  near (cost next scale user_fee h) (chance next user_loss h) (user_release counted users h) (user_release counted' users' h).
Proof.
  intros Counts Draws. apply release_near; auto. intros D.
  destruct (Draws D) as ((before & after & x & y & E & E' & Fx & Fy) & G & G'). unfold draw_of.
  specialize (G h). specialize (G' h). rewrite E in *. rewrite E' in *.
  assert (0 <= user_loss h) by (apply Rmult_le_pos; [auto|apply pos_INR]).
  destruct (user_draw_law lowers units (lowest h) (delta h) (delta_nonneg h) (pub h) (public_ok h) (before ++ y :: after)) as (P & S & _).
  apply close_weaken with (user_fee h) (user_loss h / (1 + user_loss h)); auto; [lra|now apply share_le|].
  now apply user_draw_close.
Qed.

(** * Streams *)

Definition rows_of (rounds : list round) (who : user) : list row :=
  map snd (filter (fun r => if eq_dec (fst r) who then true else false) rounds).

Definition appears (who : user) (rounds : list round) : bool := if in_dec eq_dec who (map fst rounds) then true else false.

Section World.
Variables rounds window : history -> list round.

(** The epochs before [h] in which a user has a round. *)
Definition in_epoch (who : user) (g : history) : bool := match next g with DrawMove => appears who (rounds g) | _ => false end.
Definition may_read (h : history) (who : user) : bool := (times (in_epoch who) h <? m)%nat.

Definition users_at (h : history) : list (list row) :=
  map (fun who => firstn cap (rows_of (rounds h) who)) (filter (may_read h) (nodup eq_dec (map fst (rounds h)))).

Definition user_stream : history -> release (list Z) change := user_release (fun h => map snd (window h)) users_at.

(** Where the user is read, or counted. *)
Definition is_read (who : user) (h : history) : bool := in_epoch who h && may_read h who.
Definition is_counted (who : user) (h : history) : bool :=
  match next h with CountPositives | CountCells => appears who (window h) | _ => false end.

Lemma read_at_most who h : (times (is_read who) h <= m)%nat.
Proof.
  assert (times (is_read who) h <= times (in_epoch who) h /\ times (is_read who) h <= m)%nat as [_ Le]; auto.
  induction h as [|a g [IH IH']]; simpl; [lia|]. unfold is_read at 1 3. unfold may_read. destruct (in_epoch who g); simpl; [|lia].
  destruct (Nat.ltb_spec (times (in_epoch who) g) m); lia.
Qed.

Definition user_cost (who : user) (h : history) : R :=
  if is_read who h || is_counted who h then cost next scale user_fee h else 0.
Definition user_chance (who : user) (h : history) : R := if is_read who h then user_loss h else 0.
End World.

(** The same users at the same places, and the same rows but those of one. *)
Definition same_but (who : user) (u v : list round) : Prop :=
  Forall2 (fun a b => fst a = fst b /\ (fst a = who \/ snd a = snd b)) u v.

Lemma same_users who u v : same_but who u v -> map fst u = map fst v.
Proof. induction 1 as [|a b u v [E _] _ IH]; simpl; congruence. Qed.

Lemma same_others who other u v : same_but who u v -> other <> who -> rows_of u other = rows_of v other.
Proof.
  intros S No. induction S as [|[a x] [b y] u v [E Same] _ IH]; [reflexivity|]. simpl in E, Same. subst b.
  unfold rows_of in *. simpl. destruct (eq_dec a other) as [->|]; simpl; auto. destruct Same as [-> | ->]; [tauto|congruence].
Qed.

Lemma same_rows who u v : same_but who u v -> ~ In who (map fst u) -> u = v.
Proof.
  intros S No. induction S as [|[a x] [b y] u v [E Same] _ IH]; [reflexivity|]. simpl in *. subst b.
  rewrite IH by tauto. destruct Same as [-> | ->]; tauto.
Qed.

Lemma same_once who u v : same_but who u v -> NoDup (map fst u) -> In who (map fst u) -> one_row (map snd u) (map snd v).
Proof.
  intros S N I. induction S as [|[a x] [b y] u v [E Same] S IH]; [destruct I|]. simpl in *. subst b.
  inversion_clear N as [|? ? No N']. destruct (eq_dec a who) as [->|Other].
  - rewrite (same_rows who u v S No). now exists [], (map snd v), x, y.
  - destruct Same as [ | ->]; [tauto|]. destruct IH as (before & after & x' & y' & -> & ->); auto; [tauto|].
    now exists (y :: before), after, x', y'.
Qed.

Section Worlds.
Variable who : user.
Variables rounds rounds' window window' : history -> list round.
Hypothesis same_rounds : forall h, same_but who (rounds h) (rounds' h).
Hypothesis same_windows : forall h, same_but who (window h) (window' h).
Hypothesis good_rounds : forall g h, good (pub h) (map snd (rounds g)) /\ good (pub h) (map snd (rounds' g)).
(** A window counts one round of a user at most. *)
Hypothesis counted_once : forall h, NoDup (map fst (window h)).

Lemma same_times other h : times (in_epoch rounds' other) h = times (in_epoch rounds other) h.
Proof.
  induction h as [|a g IH]; simpl; auto. rewrite IH. unfold in_epoch, appears. now rewrite (same_users _ _ _ (same_rounds g)).
Qed.

Lemma users_good some g : (forall h, good (pub h) (map snd (some g))) -> good_users (users_at some g).
Proof.
  intros G h. apply Forall_forall. intros rows I. apply in_map_iff in I as (other & <- & _).
  apply Forall_forall. intros x I. pose proof (proj1 (Forall_forall _ _) (G h)) as Each. apply Each.
  assert (In x (rows_of (some g) other)) as I' by (rewrite <- (firstn_skipn cap); apply in_or_app; now left).
  apply in_map_iff in I' as (r & <- & I'). apply filter_In in I'. apply in_map. tauto.
Qed.

Lemma users_differ h : is_read rounds who h = true -> one_user (users_at rounds h) (users_at rounds' h).
Proof.
  intros Read. apply andb_prop in Read as [In_epoch May]. unfold in_epoch, appears in In_epoch.
  destruct (next h); try discriminate. destruct (in_dec eq_dec who (map fst (rounds h))) as [I|]; [|discriminate].
  unfold users_at. rewrite <- (same_users _ _ _ (same_rounds h)).
  rewrite (filter_ext (may_read rounds' h) (may_read rounds h)) by (intros other; unfold may_read; now rewrite same_times).
  assert (In who (filter (may_read rounds h) (nodup eq_dec (map fst (rounds h))))) as I' by now apply filter_In; rewrite nodup_In.
  assert (NoDup (filter (may_read rounds h) (nodup eq_dec (map fst (rounds h))))) as N by apply NoDup_filter, NoDup_nodup.
  apply in_split in I' as (before & after & E). rewrite E in *. apply NoDup_remove_2 in N.
  assert (forall l, ~ In who l -> map (fun w => firstn cap (rows_of (rounds h) w)) l = map (fun w => firstn cap (rows_of (rounds' h) w)) l) as Same.
  { intros l No. apply map_ext_in. intros w Iw. f_equal. apply same_others with who; auto. intros ->. contradiction. }
  rewrite in_app_iff in N. rewrite !map_app, (Same before), !map_cons, (Same after) by tauto.
  eexists _, _, _, _. split; [reflexivity|]. split; [reflexivity|]. rewrite !firstn_length. lia.
Qed.

Lemma users_alike h : next h = DrawMove -> is_read rounds who h = false -> users_at rounds h = users_at rounds' h.
Proof.
  intros D No. unfold users_at. rewrite <- (same_users _ _ _ (same_rounds h)).
  rewrite (filter_ext (may_read rounds' h) (may_read rounds h)) by (intros other; unfold may_read; now rewrite same_times).
  apply map_ext_in. intros w I. f_equal. apply same_others with who; auto. intros ->.
  apply filter_In in I as [I May]. apply nodup_In in I. unfold is_read, in_epoch, appears in No. rewrite D, May in No.
  destruct (in_dec eq_dec who (map fst (rounds h))); [discriminate|contradiction].
Qed.

Lemma stream_near h : near (user_cost rounds window who h) (user_chance rounds who h)
  (user_stream rounds window h) (user_stream rounds' window' h).
Proof.
  unfold user_cost, user_chance. destruct (is_read rounds who h) eqn:Read.
  - assert (next h = DrawMove) as D.
    { unfold is_read, in_epoch in Read. destruct (next h); auto; discriminate. }
    cbn [orb]. replace (user_loss h) with (chance next user_loss h) by (unfold chance; now rewrite D).
    apply user_near; [intros [W|W]; congruence|]. intros _. split; [now apply users_differ|].
    split; apply users_good; intros h'; apply good_rounds.
  - cbn [orb]. destruct (is_counted window who h) eqn:Counted.
    + unfold is_counted in Counted. replace 0 with (chance next user_loss h) by (unfold chance; now destruct (next h)).
      apply user_near; [|intros D; rewrite D in Counted; discriminate]. intros _. apply same_once with who; auto.
      unfold appears in Counted. destruct (in_dec eq_dec who (map fst (window h))) as [I|]; auto. destruct (next h); discriminate.
    + replace (user_stream rounds' window' h) with (user_stream rounds window h); [apply near_same; try lra; apply user_lawful|].
      unfold user_stream, user_release, release_at, draw_of. unfold is_counted, appears in Counted.
      destruct (next h) eqn:W; auto.
      * destruct (in_dec eq_dec who (map fst (window h))); [discriminate|]. now rewrite (same_rows who _ _ (same_windows h)).
      * now rewrite (users_alike h W Read).
      * destruct (in_dec eq_dec who (map fst (window h))); [discriminate|]. now rewrite (same_rows who _ _ (same_windows h)).
Qed.

Theorem Theorem_19 eps total n :
  (forall h, spent (user_cost rounds window who) h <= eps) -> (forall h, spent (user_chance rounds who) h <= total) ->
  is_law (releases (user_stream rounds window) n) /\
  close eps total (releases (user_stream rounds window) n) (releases (user_stream rounds' window') n).
Proof.
  intros E D. apply releases_close with (user_cost rounds window who) (user_chance rounds who); auto;
    intros h; try apply user_lawful. apply stream_near.
Qed.

(** Numbers that do not change: m epochs that read the user, E windows that count one of its rounds. *)
Theorem Theorem_19_constant (e_v s delta_1 : R) (E : nat) (l : Z) n :
  0 < e_v -> 0 <= s -> 0 <= delta_1 -> (0 < units)%Z -> (0 < E)%nat ->
  (forall h, rate (pub h) = s / IZR units /\ lowest h = l /\ delta h = delta_1 /\ 2 * INR E / e_v <= scale h) ->
  (forall h, next h <> CountPositives) -> (forall h, (times (is_counted window who) h <= E)%nat) ->
  let c0 := IZR l / IZR units in
  is_law (releases (user_stream rounds window) n) /\
  close (e_v + 2 * (1 + c0) * s * INR m) (INR m * INR cap * delta_1)
    (releases (user_stream rounds window) n) (releases (user_stream rounds' window') n).
Proof.
  intros Ev S D1 U Ep Constant NoBase Windows c0.
  assert (0 < IZR units) as Ur by now apply (IZR_lt 0).
  assert (0 < INR E) as Er by now apply lt_0_INR.
  assert (0 <= c0) as C0.
  { apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat]. destruct (Constant []) as (_ & <- & _). now apply (IZR_le 0). }
  assert (0 <= (1 + c0) * s) by (apply Rmult_le_pos; lra).
  assert (0 <= INR cap * delta_1) by (apply Rmult_le_pos; [apply pos_INR|auto]).
  assert (0 < e_v / INR E) as Each by now apply Rdiv_lt_0_compat.
  apply Theorem_19.
  - intros h. eapply Rle_trans; [apply (spent_times _ (is_read rounds who) (is_counted window who) (2 * (1 + c0) * s) (e_v / INR E))|].
    + intros g. destruct (Constant g) as (Rg & Lg & _ & Sg). unfold user_cost.
      destruct (is_read rounds who g) eqn:Read; cbn [orb].
      * assert (next g = DrawMove) as Dg by (unfold is_read, in_epoch in Read; destruct (next g); auto; discriminate).
        apply Rle_trans with (2 * (1 + c0) * s); [|destruct (is_counted window who g); lra].
        unfold cost, user_fee. rewrite Dg, Rg, Lg, mult_IZR, plus_IZR. right. unfold c0. field. lra.
      * destruct (is_counted window who g) eqn:Counted; [|lra]. unfold is_counted in Counted. unfold cost.
        specialize (NoBase g). destruct (next g); try discriminate; try tauto.
        destruct (cost_at_scale (2 * INR E) e_v (scale g)) as [_ Le]; [lra..|].
        apply Rle_trans with (2 * INR E / scale g / INR E); [right; field; pose proof (scale_pos g); split; lra|].
        assert (2 * INR E / scale g / INR E <= e_v / INR E); [|lra]. apply Rmult_le_compat_r; auto. left. now apply Rinv_0_lt_compat.
    + pose proof (le_INR _ _ (read_at_most rounds who h)) as Reads. pose proof (le_INR _ _ (Windows h)) as Counts.
      apply Rmult_le_compat_r with (r := 2 * (1 + c0) * s) in Reads; [|lra].
      apply Rmult_le_compat_r with (r := e_v / INR E) in Counts; [|lra].
      replace (INR E * (e_v / INR E)) with e_v in Counts by (field; lra). lra.
  - intros h. eapply Rle_trans; [apply (spent_times _ (is_read rounds who) (fun _ => false) (INR cap * delta_1) 0)|].
    + intros g. destruct (Constant g) as (_ & _ & Dg & _). unfold user_chance, user_loss. rewrite Dg.
      destruct (is_read rounds who g); lra.
    + pose proof (le_INR _ _ (read_at_most rounds who h)) as Reads.
      apply Rmult_le_compat_r with (r := INR cap * delta_1) in Reads; lra.
Qed.
End Worlds.

(** * Users counted once *)

(** The first round of each user, in order: what the evidence counts of an epoch. *)
Fixpoint firsts (seen : list user) (l : list round) : list round :=
  match l with
  | [] => []
  | a :: rest => if in_dec eq_dec (fst a) seen then firsts seen rest else a :: firsts (fst a :: seen) rest
  end.

Lemma firsts_unseen seen l who : In who (map fst (firsts seen l)) -> ~ In who seen.
Proof.
  revert seen. induction l as [|a l IH]; intros seen; simpl; [tauto|]. destruct (in_dec eq_dec (fst a) seen) as [I|No]; [apply IH|].
  simpl. intros [<-|I]; [exact No|]. intros I'. apply (IH _ I). now right.
Qed.

Lemma firsts_once seen l : NoDup (map fst (firsts seen l)).
Proof.
  revert seen. induction l as [|a l IH]; intros seen; simpl; [constructor|].
  destruct (in_dec eq_dec (fst a) seen); [apply IH|]. simpl. constructor; [|apply IH].
  intros I. apply firsts_unseen in I. apply I. now left.
Qed.

Lemma firsts_same who seen u v : same_but who u v -> same_but who (firsts seen u) (firsts seen v).
Proof.
  intros S. revert seen. induction S as [|a b u v [E Same] S IH]; intros seen; simpl; [constructor|]. rewrite <- E.
  destruct (in_dec eq_dec (fst a) seen); [apply IH|]. constructor; [now split|apply IH].
Qed.

(** Of the rounds of an epoch the first of each user is counted: nothing is asked of windows any more. *)
Corollary Theorem_19_counted who (rounds rounds' epoch epoch' : history -> list round) eps total n :
  (forall h, same_but who (rounds h) (rounds' h)) -> (forall h, same_but who (epoch h) (epoch' h)) ->
  (forall g h, good (pub h) (map snd (rounds g)) /\ good (pub h) (map snd (rounds' g))) ->
  let window h := firsts [] (epoch h) in let window' h := firsts [] (epoch' h) in
  (forall h, spent (user_cost rounds window who) h <= eps) -> (forall h, spent (user_chance rounds who) h <= total) ->
  is_law (releases (user_stream rounds window) n) /\
  close eps total (releases (user_stream rounds window) n) (releases (user_stream rounds' window') n).
Proof.
  intros Rounds Epochs Good window window'. apply Theorem_19; auto; intros h.
  - apply firsts_same, Epochs.
  - apply firsts_once.
Qed.

(** * Tables *)

(** All rows that are read of each user, the first of which is counted. *)
Definition user_table (users : list (list row)) : history -> release (list Z) change :=
  user_release (fun _ => map (hd null) users) (fun _ => users).

Definition read_by {Order} (p : Order -> R) (users : Order -> list (list row)) (n : nat) :=
  bind p (fun o => releases (user_table (users o)) n).

Theorem Theorem_20_users {Order} `{EqDec Order} (p : Order -> R) users users' eps total n : is_law p ->
  (forall o, one_user (users o) (users' o) /\ good_users (users o) /\ good_users (users' o)) -> 0 <= total ->
  (forall h, spent (cost next scale user_fee) h <= eps) -> (forall h, spent (chance next user_loss) h <= total) ->
  is_law (read_by p users n) /\ close eps total (read_by p users n) (read_by p users' n).
Proof.
  intros Law One T E D.
  assert (forall o, is_law (releases (user_table (users o)) n) /\
    close eps total (releases (user_table (users o)) n) (releases (user_table (users' o)) n)) as Each.
  { intros o. destruct (One o) as (One' & G & G').
    apply releases_close with (cost next scale user_fee) (chance next user_loss); auto; intros h; try apply user_lawful.
    apply user_near; auto. intros _. destruct One' as (before & after & x & y & -> & -> & _).
    rewrite !map_app. simpl. eexists _, _, _, _. split; reflexivity. }
  assert (forall o, is_law (releases (user_table (users' o)) n)) as Law' by (intros o; apply follow_run; intros h; apply user_lawful).
  split; [apply bind_law; auto; intros o; apply Each|].
  refine (close_mixture eps total p _ _ Law T _ _ (fun o => proj2 (Each o))); intros o; apply law_sub;
    [exact (proj1 (Each o))|exact (Law' o)].
Qed.

(** A file in another order is read as if by another order: [g] of it, which is as likely. *)
Theorem Theorem_20_users_order {Order} `{EqDec Order} (p : Order -> R) (g : Order -> Order) users users' n : is_law p ->
  (forall o o', g o = g o' -> o = o') -> (forall o, exists o', g o' = o) -> (forall o, p (g o) = p o) ->
  (forall o, users' o = users (g o)) -> forall l, read_by p users' n l = read_by p users n l.
Proof.
  intros (P & _ & _) Inj Onto Same Users l. unfold read_by, bind.
  destruct (sum_reindex g (fun o => p o * releases (user_table (users o)) n l)) as [_ ->]; auto.
  - intros o. apply Rmult_le_pos; [apply P|]. apply follow_run. intros h. apply user_lawful.
  - intros o _. destruct (Onto o) as [o' <-]. now exists o'.
  - apply sum_ext. intros o. now rewrite Users, Same.
Qed.

End Users.
