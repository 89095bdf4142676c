(** Theorem 7 of docs/guarantee.md: the one gate.

    How it corresponds. A transcript is a list of events: the answer of a check ("fired" or not), counts that were
    released as evidence, a draw and its key (None where nothing was drawn). A history is a transcript so far,
    newest first. The schedule is public, that is, it is any function of the history: what is done next, a check,
    a release of counts or a draw ([next]); the threshold of a check ([limit]); whether the monitor starts afresh
    ([restart]; it does at every firing), and the scale of its noise then ([scale]). So windows, ends by age, and
    thresholds that read released counts are included. [machine_schedule] is a schedule that keeps a state, as
    the code does.
    [rows h] are the rounds of the check after [h]: a function of the history, so streams may react. A check adds
    their [loss] to the monitor's count; a release of counts reads the rounds since the last one, a draw those
    since the last draw ([since]), whatever happened in between. [gate] is the program that draws all of it.
    Gate_private: two worlds that differ in any rounds. What the rounds of a check cost the monitor ([shift]), the
    counts ([levy]) and the draw ([fee], [fine]) is stated per check; where it sums to at most (eps, delta) on
    every transcript, the gate is (eps, delta)-DP.
    Gate_event: two worlds that differ in one round. The premise is the joint inequality of one epoch. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Monitor Tree.
Import ListNotations.
Open Scope R_scope.

Inductive task := Check | Count | Draw.

#[export] Instance EqDec_task : EqDec task.
Proof. intros x y; decide equality. Defined.

Section Gate.
Context {V K Batch : Type} `{EqDec V} `{EqDec K}.

Inductive event := Answer (fired : bool) | Counted (counts : V) | Drawn (key : option K).

#[export] Instance EqDec_event : EqDec event.
Proof. intros x y; decide equality; apply eq_dec. Defined.

Local Notation history := (list event).

Record schedule := {
  next : history -> task;
  limit : history -> Z;
  restart : history -> bool;
  scale : history -> R;
  scale_pos : forall h, 0 < scale h }.

(** A schedule that keeps a state and notes every event in it. *)
Fixpoint state_of {S} (start : S) (note : S -> event -> S) (h : history) : S :=
  match h with [] => start | a :: g => note (state_of start note g) a end.

Definition machine_schedule {S} (start : S) (note : S -> event -> S) (to_do : S -> task) (threshold : S -> Z)
    (ends : S -> bool) (width : S -> R) (pos : forall s, 0 < width s) : schedule :=
  let state := state_of start note in
  {| next h := to_do (state h); limit h := threshold (state h); restart h := ends (state h); scale h := width (state h);
     scale_pos h := pos (state h) |}.

Variable plan : schedule.

Definition is_task (t : task) (h : history) : bool := if eq_dec (next plan h) t then true else false.

(** Where the monitor starts afresh, and the scale of the open epoch's noise. *)
Definition fresh_at (a : event) (g : history) : option R :=
  if match a with Answer b => b | _ => false end || restart plan (a :: g) then Some (scale plan (a :: g)) else None.

Fixpoint current (h : history) : R :=
  match h with [] => scale plan [] | a :: g => match fresh_at a g with Some s => s | None => current g end end.

(** The batches of the checks since the last task of kind [t], the latest first. *)
Fixpoint since (t : task) (rows : history -> Batch) (h : history) : list Batch :=
  match h with
  | [] => []
  | _ :: g => if is_task t g then [] else if is_task Check g then rows g :: since t rows g else since t rows g
  end.

Variable noise_of : R -> Z -> R.
Hypothesis noises : forall s, 0 < s -> noise s (noise_of s).
Variable loss : history -> Batch -> Z.
Variable counts : history -> list Batch -> V -> R.
Variable draw : history -> list Batch -> option K -> R.
Hypothesis counts_law : forall h u, is_law (counts h u).
Hypothesis draw_law : forall h u, is_law (draw h u).

Lemma current_at_least s : (forall h, s <= scale plan h) -> forall h, s <= current h.
Proof.
  intros Le h; induction h as [|a g IH]; simpl; auto. unfold fresh_at. destruct (_ || _); auto.
Qed.

(** * One world *)

Section World.
Variable rows : history -> Batch.

Definition lost (h : history) : Z := if is_task Check h then loss h (rows h) else 0%Z.

(** The event after [h], where the count is [c] and the threshold noise [r]. *)
Definition event_law (h : history) (c r : Z) : event -> R :=
  match next plan h with
  | Check => lmap Answer (check (noise_of (current h)) (limit plan h + r - (c + lost h)))
  | Count => lmap Counted (counts h (since Count rows h))
  | Draw => lmap Drawn (draw h (since Draw rows h))
  end.

Fixpoint play (n : nat) (h : history) (c r : Z) : list event -> R :=
  match n with
  | O => ret []
  | S k => Transcripts.next (event_law h c r) (fun a =>
      match fresh_at a h with
      | Some s => bind (noise_of s) (fun r' => play k (a :: h) 0 r')
      | None => play k (a :: h) (c + lost h) r
      end)
  end.

(** The transcript of [n] events. *)
Definition gate (n : nat) : list event -> R := bind (noise_of (scale plan [])) (fun r => play n [] 0 r).

(** The same, given the transcript: what the monitor has answered, and the laws of all else. *)
Definition item_of (a : event) (g : history) : item :=
  match next plan g, a with
  | Check, Answer b => watched noise_of (lost g) (limit plan g) b (fresh_at a g)
  | _, _ => passed (lost g) (fresh_at a g)
  end.

Fixpoint items (h : history) : list item :=
  match h with [] => [] | a :: g => item_of a g :: items g end.

Definition answers_weight (h : history) : R := mass noise_of (scale plan []) (items h).

Definition kernel_of (h : history) (a : event) : R :=
  match next plan h with
  | Check => match a with Answer _ => 1 | _ => 0 end
  | Count => lmap Counted (counts h (since Count rows h)) a
  | Draw => lmap Drawn (draw h (since Draw rows h)) a
  end.

Lemma fresh_at_pos a g s : fresh_at a g = Some s -> 0 < s.
Proof. unfold fresh_at. destruct (_ || _); [|discriminate]. intros E; inversion E. apply scale_pos. Qed.

Lemma item_fair a g : fair (item_of a g).
Proof.
  pose proof (fun s => fresh_at_pos a g s) as Pos. unfold item_of.
  destruct (next plan g), a as [b|v|k]; try (apply passed_fair; exact Pos).
  apply watched_fair; auto. intros ->. unfold fresh_at. simpl. discriminate.
Qed.

Lemma items_fair h : Forall fair (items h).
Proof. induction h; simpl; constructor; auto. apply item_fair. Qed.

Lemma item_fresh a g : fresh (item_of a g) = fresh_at a g.
Proof. unfold item_of. now destruct (next plan g), a. Qed.

Lemma item_loss a g : Monitor.loss (item_of a g) = lost g.
Proof. unfold item_of. now destruct (next plan g), a. Qed.

Lemma items_scale h : Monitor.scale (scale plan []) (items h) = current h.
Proof. induction h as [|a g IH]; simpl; auto. rewrite item_fresh, IH. reflexivity. Qed.

Let mu h := mu noise_of (scale plan []) (items h).
Let first_pos := scale_pos plan [].

Lemma mu_ok h : nonneg (mu h) /\ summable (mu h).
Proof. apply mu_bounds; auto. apply items_fair. Qed.

Lemma weight_cons a h : answers_weight (a :: h) =
  sum (fun r => mu h r * likely (item_of a h) (current h) (r - (count (items h) + lost h))).
Proof.
  unfold answers_weight. simpl items. rewrite mass_cons; auto.
  - apply sum_ext; intros r. unfold answered. now rewrite items_scale, item_loss.
  - constructor; [apply item_fair|apply items_fair].
Qed.

Lemma law_of_draws h : next plan h <> Check -> is_law (kernel_of h).
Proof. unfold kernel_of. destruct (next plan h); intros N; [tauto| |]; now apply lmap_law. Qed.

Definition gate_world : world (is_task Check).
Proof.
  refine {| weight := answers_weight; kernel := kernel_of |}.
  - intros h. apply sum_nonneg, mu_ok.
  - unfold answers_weight, mass. simpl. apply (noises _ first_pos).
  - intros h a. unfold kernel_of. destruct (next plan h) eqn:E.
    + destruct a; lra.
    + apply (lmap_law Counted _ (counts_law h (since Count rows h))).
    + apply (lmap_law Drawn _ (draw_law h (since Draw rows h))).
  - intros h W. unfold is_task in W. destruct (eq_dec (next plan h) Check) as [E|]; [|discriminate].
    assert (nonneg (fun a => kernel_of h a * answers_weight (a :: h))) as P.
    { intros a. apply Rmult_le_pos; [unfold kernel_of; rewrite E; destruct a; lra|apply sum_nonneg, mu_ok]. }
    destruct (sum_finite (fun a => kernel_of h a * answers_weight (a :: h)) [Answer true; Answer false]) as [S Eq]; auto.
    + repeat constructor; simpl; intuition discriminate.
    + intros [[|]|v|k] No; simpl in No; try tauto; unfold kernel_of; rewrite E; ring.
    + split; auto. rewrite Eq. simpl lsum. unfold kernel_of at 1 2. rewrite E, !weight_cons, Rplus_0_r, !Rmult_1_l.
      destruct (mu_ok h) as [Pm Sm]. destruct (noises (current h)) as [L _].
      { rewrite <- items_scale. apply Monitor.scale_pos; auto. apply items_fair. }
      unfold item_of. rewrite E. simpl likely.
      set (p := noise_of (current h)) in *. set (x := fun r => (limit plan h + (r - (count (items h) + lost h)))%Z).
      assert (forall b r, 0 <= check p (x r) b <= 1) as B.
      { intros b r. split; [now apply check_nonneg|]. apply sub_le_1, law_sub. now apply check_law. }
      assert (forall b, nonneg (fun r => mu h r * check p (x r) b) /\ summable (fun r => mu h r * check p (x r) b)) as Sb.
      { intros b. split; [intros r; apply Rmult_le_pos; [apply Pm|apply B]|].
        apply summable_le with (mu h); auto. intros r. rewrite <- (Rmult_1_r (mu h r)) at 2.
        apply Rmult_le_compat_l; [apply Pm|apply B]. }
      transitivity (sum (fun r => mu h r * check p (x r) true) + sum (fun r => mu h r * check p (x r) false)); [reflexivity|].
      rewrite <- sum_plus by apply Sb.
      apply sum_ext; intros r. rewrite <- Rmult_plus_distr_l, check_true, check_false by auto. unfold mu. ring.
  - intros h W. unfold is_task in W. destruct (eq_dec (next plan h) Check) as [|N]; [discriminate|].
    split; [now apply law_of_draws|]. intros a. rewrite weight_cons. apply sum_ext; intros r.
    unfold item_of. destruct (next plan h); [tauto| |]; simpl; apply Rmult_1_r.
Defined.

(** The program has this law. *)
Lemma event_law_law h c r : is_law (event_law h c r).
Proof.
  unfold event_law. destruct (next plan h); try (now apply lmap_law). apply lmap_law, check_law.
  apply noises. rewrite <- items_scale. apply Monitor.scale_pos; auto. apply items_fair.
Qed.

Lemma play_law n : forall h c r, is_law (play n h c r).
Proof.
  induction n as [|n IH]; intros h c r; simpl; [apply ret_law|].
  apply next_law; [apply event_law_law|]. intros a. destruct (fresh_at a h) as [s|] eqn:E; auto.
  apply bind_law; auto. apply noises. now apply fresh_at_pos with a h.
Qed.

Lemma lmap_at {A B} `{EqDec A} `{EqDec B} (f : A -> B) (p : A -> R) x : (forall y z, f y = f z -> y = z) -> nonneg p ->
  lmap f p (f x) = p x.
Proof.
  intros Inj P. unfold lmap, bind. destruct (sum_finite (fun y => p y * ret (f y) (f x)) [x]) as [_ ->].
  - intros y. apply Rmult_le_pos; [apply P|apply ret_law].
  - constructor; simpl; auto; constructor.
  - intros y No. unfold ret. destruct (eq_dec (f y) (f x)) as [E|]; [|ring]. apply Inj in E. subst. simpl in No; tauto.
  - simpl. unfold ret. destruct (eq_dec (f x) (f x)); [ring|tauto].
Qed.

Lemma lmap_off {A B} `{EqDec A} `{EqDec B} (f : A -> B) (p : A -> R) y : (forall x, f x <> y) -> lmap f p y = 0.
Proof.
  intros No. unfold lmap, bind. rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|].
  intros x. unfold ret. destruct (eq_dec (f x) y); [now elim (No x)|ring].
Qed.

Lemma event_law_eq h c r a : event_law h c r a =
  kernel_of h a * likely (item_of a h) (current h) (r - (c + lost h)).
Proof.
  unfold event_law, kernel_of, item_of. destruct (next plan h); try (simpl; ring).
  assert (nonneg (check (noise_of (current h)) (limit plan h + r - (c + lost h)))) as P.
  { apply check_law. apply noises. rewrite <- items_scale. apply Monitor.scale_pos; auto. apply items_fair. }
  destruct a as [b|v|k]; [|rewrite lmap_off by discriminate; simpl; ring..].
  rewrite lmap_at; auto; [|intros y z E; congruence]. simpl. rewrite Rmult_1_l. f_equal. lia.
Qed.

Lemma play_run n : forall h l, sum (fun r => mu h r * play n h (count (items h)) r l) = run _ gate_world n h l.
Proof.
  induction n as [|n IH]; intros h l.
  - simpl. destruct l as [|a l].
    + rewrite (sum_ext _ (mu h)); [reflexivity|]. intros r. unfold ret. destruct (eq_dec [] []); [ring|tauto].
    + rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|]. intros r. unfold ret.
      destruct (eq_dec [] (a :: l)); [discriminate|ring].
  - set (rest := fun a r => match fresh_at a h with
      | Some s => bind (noise_of s) (fun r' => play n (a :: h) 0 r')
      | None => play n (a :: h) (count (items h) + lost h) r end).
    assert (forall r a, nonneg (rest a r)) as Pr.
    { intros r a. unfold rest. destruct (fresh_at a h) as [s|] eqn:E; [|apply play_law].
      apply bind_law; [apply noises; now apply fresh_at_pos with a h|]. intros; apply play_law. }
    assert (forall r l, play (S n) h (count (items h)) r l = Transcripts.next (event_law h (count (items h)) r) (fun a => rest a r) l)
      as Unfold by reflexivity.
    destruct l as [|a l].
    + rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|]. intros r. rewrite Unfold, next_nil; [ring|auto].
    + simpl run. rewrite <- IH. change (kernel _ gate_world h a) with (kernel_of h a).
      destruct (mu_ok h) as [Pm Sm]. destruct (mu_ok (a :: h)) as [Pm' Sm'].
      assert (0 <= kernel_of h a) as Kn by apply (kernel_nonneg _ gate_world h a).
      assert (forall r, mu h r * play (S n) h (count (items h)) r (a :: l) = kernel_of h a *
        (mu h r * likely (item_of a h) (current h) (r - (count (items h) + lost h)) * rest a r l)) as Each.
      { intros r. rewrite Unfold, next_cons; auto; [|apply event_law_law]. rewrite event_law_eq. ring. }
      rewrite (sum_ext _ _ Each).
      set (q := fun r => mu h r * likely (item_of a h) (current h) (r - (count (items h) + lost h))) in *.
      assert (nonneg q /\ summable q) as [Pq Sq].
      { destruct (answered_bounds noise_of noises (scale plan []) first_pos (items h) (item_of a h)) as [Pa Sa].
        - constructor; [apply item_fair|apply items_fair].
        - unfold answered in Pa, Sa. rewrite items_scale, item_loss in Pa, Sa. split; assumption. }
      assert (forall f : Z -> R, (forall r, 0 <= f r <= 1) -> summable (fun r => q r * f r)) as Sf.
      { intros f B. apply summable_le with q; auto. intros r. rewrite <- (Rmult_1_r (q r)) at 2.
        apply Rmult_le_compat_l; [apply Pq|apply B]. }
      assert (forall p : list event -> R, is_law p -> 0 <= p l <= 1) as At.
      { intros p Lp. split; [apply Lp|]. now apply sub_le_1, law_sub. }
      assert (forall r, mu (a :: h) r = match fresh_at a h with Some s => sum q * noise_of s r | None => q r end) as Mu.
      { intros r. unfold mu. simpl items. rewrite mu_cons, item_fresh. unfold answered. rewrite items_scale, item_loss.
        destruct (fresh_at a h); reflexivity. }
      simpl items. simpl count. rewrite item_fresh, item_loss. unfold rest. destruct (fresh_at a h) as [s|] eqn:E.
      * assert (0 < s) as Sp by now apply fresh_at_pos with a h. destruct (noises s Sp) as [Ls _].
        set (Q := bind (noise_of s) (fun r' => play n (a :: h) 0 r') l).
        assert (0 <= Q <= 1) as Bq by (apply At, bind_law; auto; intros; apply play_law).
        rewrite sum_scal, sum_scal_r; auto; try tauto.
        f_equal. unfold Q, bind. rewrite <- sum_scal; auto; [|now apply sum_nonneg|].
        -- apply sum_ext; intros r. rewrite Mu. fold q. ring.
        -- destruct Ls as (Pn & Sn & _). apply summable_le with (noise_of s); auto. intros r.
           rewrite <- (Rmult_1_r (noise_of s r)) at 2. apply Rmult_le_compat_l; [apply Pn|].
           apply At, play_law.
      * rewrite sum_scal; auto; [|apply Sf; intros r; apply At, play_law].
        f_equal. apply sum_ext; intros r. now rewrite Mu.
Qed.

Theorem gate_is_program n l : gate n l = transcripts _ gate_world n l.
Proof. unfold gate, bind, transcripts. now rewrite <- play_run. Qed.

Theorem gate_law n : is_law (gate n).
Proof. apply bind_law; [apply noises, first_pos|]. intros; apply play_law. Qed.
End World.

(** * Two worlds *)

(** Sums over the checks of a history: of all of them, and of those since the last task of kind [t]. *)
Fixpoint total (f : history -> R) (h : history) : R :=
  match h with [] => 0 | _ :: g => (if is_task Check g then f g else 0) + total f g end.
Fixpoint due (f : history -> R) (t : task) (h : history) : R :=
  match h with
  | [] => 0
  | _ :: g => if is_task t g then 0 else (if is_task Check g then f g else 0) + due f t g
  end.

Lemma due_nonneg f t : nonneg f -> nonneg (due f t).
Proof.
  intros P h; induction h as [|a g IH]; simpl; [lra|]. destruct (is_task t g); [lra|].
  specialize (P g). destruct (is_task Check g); lra.
Qed.

(** Every round is read by one task of a kind at most. *)
Lemma spent_due f t : t <> Check -> forall h,
  spent (is_task Check) (fun g => if is_task t g then due f t g else 0) h + due f t h = total f h.
Proof.
  intros N; induction h as [|a g IH]; simpl; [ring|]. rewrite <- IH. unfold is_task.
  destruct (eq_dec (next plan g) t) as [E|D], (eq_dec (next plan g) Check) as [E'|D']; try congruence; ring.
Qed.

Section Worlds.
Variables rows rows' : history -> Batch.
Variables shift levy fee fine : history -> R.
Variables eps delta : R.
Hypothesis levy_nonneg : nonneg levy.
Hypothesis fee_nonneg : nonneg fee.
Hypothesis fine_nonneg : nonneg fine.
(** The monitor: by how much the losses of a check differ, over the scale of its noise. *)
Hypothesis monitor_shift : forall g, next plan g = Check ->
  IZR (Z.abs (loss g (rows' g) - loss g (rows g))) / current g <= shift g.
(** Counts and draws: what all the rounds cost that one of them reads. *)
Hypothesis counts_close : forall h, next plan h = Count ->
  close (due levy Count h) 0 (counts h (since Count rows h)) (counts h (since Count rows' h)).
Hypothesis draw_close : forall h, next plan h = Draw ->
  close (due fee Draw h) (due fine Draw h) (draw h (since Draw rows h)) (draw h (since Draw rows' h)).
(** On every transcript. *)
Hypothesis within_eps : forall h, total (fun g => shift g + levy g + fee g) h <= eps.
Hypothesis within_delta : forall h, total fine h <= delta.

Lemma total_plus f1 f2 h : total (fun g => f1 g + f2 g) h = total f1 h + total f2 h.
Proof. induction h as [|a g IH]; simpl; [ring|]. rewrite IH. destruct (is_task Check g); ring. Qed.

Lemma items_distance h : distance (scale plan []) (items rows h) (items rows' h) <= total shift h.
Proof.
  induction h as [|a g IH]; simpl; [lra|]. rewrite !item_loss, items_scale. unfold lost, is_task.
  destruct (eq_dec (next plan g) Check) as [E|N].
  - specialize (monitor_shift g E). lra.
  - simpl. unfold Rdiv. rewrite Rmult_0_l. lra.
Qed.

Lemma items_same h : Forall2 same (items rows h) (items rows' h).
Proof.
  induction h as [|a g IH]; simpl; constructor; auto. unfold item_of.
  destruct (next plan g), a; split; reflexivity.
Qed.

Theorem Gate_private n : is_law (gate rows n) /\ close eps delta (gate rows n) (gate rows' n).
Proof.
  split; [apply gate_law|]. intros T.
  assert (forall r, prob (gate r n) T = prob (transcripts _ (gate_world r) n) T) as Same.
  { intros r. apply sum_ext; intros l. unfold on. now rewrite gate_is_program. }
  rewrite !Same. clear Same. revert T.
  set (e := fun h => (if is_task Count h then due levy Count h else 0) + (if is_task Draw h then due fee Draw h else 0)).
  set (d := fun h => if is_task Draw h then due fine Draw h else 0).
  assert (forall c1 c2 h, spent (is_task Check) (fun g => c1 g + c2 g) h
    = spent (is_task Check) c1 h + spent (is_task Check) c2 h) as Plus.
  { intros c1 c2 h; induction h as [|a g IH]; simpl; [ring|]. rewrite IH. destruct (is_task Check g); ring. }
  apply tree_close with e d.
  - intros h a W. unfold is_task in W. simpl. unfold kernel_of. destruct (next plan h); try discriminate; reflexivity.
  - intros h W. unfold is_task in W. simpl. unfold kernel_of, e, d, is_task.
    destruct (next plan h) eqn:E; try discriminate; simpl; rewrite ?Rplus_0_l, ?Rplus_0_r.
    + apply close_lmap; try apply counts_law. now apply counts_close.
    + apply close_lmap; try apply draw_law. now apply draw_close.
  - intros h. simpl. eapply Rle_trans.
    + apply (Theorem_3 noise_of noises (scale plan []) (scale_pos plan [])); try apply items_fair. apply items_same.
    + apply Rmult_le_compat_r; [apply sum_nonneg, mu_ok|]. apply exp_le.
      pose proof (items_distance h). specialize (within_eps h). rewrite !total_plus in within_eps.
      unfold e. rewrite Plus.
      pose proof (spent_due levy Count ltac:(discriminate) h). pose proof (due_nonneg levy Count levy_nonneg h).
      pose proof (spent_due fee Draw ltac:(discriminate) h). pose proof (due_nonneg fee Draw fee_nonneg h). lra.
  - intros h. pose proof (spent_due fine Draw ltac:(discriminate) h).
    pose proof (due_nonneg fine Draw fine_nonneg h). specialize (within_delta h). unfold d. lra.
Qed.
End Worlds.

(** * Two worlds that differ in one round *)

(** The round of the check after [g] is still to be read by a task of kind [t] when that comes after [h]. *)
Inductive open (t : task) (g : history) : history -> Prop :=
| open_now a : next plan g = Check -> open t g (a :: g)
| open_later a h : open t g h -> next plan h <> t -> open t g (a :: h).

(** At most one check on every transcript has a round that differs; where it is, may be chosen on the way. *)
Definition one_check (rows rows' : history -> Batch) (touched : history -> bool) :=
  (forall h, touched h = false -> rows h = rows' h) /\
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []).

Section Event.
Variables rows rows' : history -> Batch.
Variable touched : history -> bool.
Hypothesis once : one_check rows rows' touched.

(** [f] at the touched checks. *)
Definition at_touched (f : history -> R) (g : history) : R := if touched g then f g else 0.

Lemma total_once f bound : 0 <= bound -> (forall g, touched g = true -> next plan g = Check -> f g <= bound) ->
  forall h, total (at_touched f) h <= bound.
Proof.
  intros B Le. destruct once as [_ Once].
  assert (forall h, total (at_touched f) h <= bound /\
    ((forall g later, h = later ++ g -> later <> [] -> touched g = false) -> total (at_touched f) h = 0)) as Both.
  { induction h as [|a g [IH Zero]]; simpl; [split; [lra|auto]|].
    destruct (touched g) eqn:T.
    - assert (total (at_touched f) g = 0) as Before.
      { apply Zero. intros g' later E N. destruct (touched g') eqn:T'; auto.
        rewrite E in T. now elim N; apply (Once g' later). }
      rewrite Before. split.
      + unfold at_touched, is_task. rewrite T. destruct (eq_dec (next plan g) Check) as [W|]; [|lra].
        specialize (Le g T W). lra.
      + intros No. specialize (No g [a] eq_refl ltac:(discriminate)). congruence.
    - unfold at_touched at 1 3. rewrite T. split; [destruct (is_task Check g); lra|].
      intros No. rewrite Zero; [destruct (is_task Check g); ring|].
      intros g' later E N. apply (No g' (a :: later)); [now rewrite E|discriminate]. }
  intros h; apply Both.
Qed.

(** What a task reads is equal in both worlds, or differs in the one check. *)
Lemma since_once t : t <> Check -> forall h,
  since t rows h = since t rows' h /\ (forall f, due (at_touched f) t h = 0) \/
  exists g pre post, touched g = true /\ open t g h /\ since t rows h = pre ++ rows g :: post /\
    since t rows' h = pre ++ rows' g :: post /\ forall f, due (at_touched f) t h = f g.
Proof.
  intros N. destruct once as [Same Once].
  assert (forall g h, open t g h -> exists later, later <> [] /\ h = later ++ g) as Before.
  { intros g h Op. induction Op as [a|a h Op (later & Ne & ->)]; [exists [a]|exists (a :: later)]; split; auto; discriminate. }
  induction h as [|a g IH]; simpl; auto.
  unfold is_task. destruct (eq_dec (next plan g) t) as [|Nt]; auto.
  destruct (eq_dec (next plan g) Check) as [W|W]; [destruct (touched g) eqn:T|].
  - right. exists g, [], (since t rows g). destruct IH as [[<- Zero]|(g' & pre & post & T' & Op & _)].
    + repeat split; auto; [now constructor|]. intros f. rewrite Zero. unfold at_touched. rewrite T. ring.
    + exfalso. destruct (Before g' g Op) as (later & Ne & ->). now apply Ne, (Once g' later).
  - rewrite (Same g T). destruct IH as [[-> Zero]|(g' & pre & post & T' & Op & -> & -> & Due)].
    + left. split; auto. intros f. rewrite Zero. unfold at_touched. rewrite T. ring.
    + right. exists g', (rows' g :: pre), post. repeat split; auto; [now constructor|].
      intros f. rewrite Due. unfold at_touched. rewrite T. ring.
  - destruct IH as [[-> Zero]|(g' & pre & post & T' & Op & -> & -> & Due)].
    + left. split; auto. intros f. rewrite Zero. ring.
    + right. exists g', pre, post. repeat split; auto; [now constructor|]. intros f. rewrite Due. ring.
Qed.

Variables (levy eps delta : R) (fee : history -> R).
Hypothesis levy_nonneg : 0 <= levy.
Hypothesis delta_nonneg : 0 <= delta.
Hypothesis fee_nonneg : nonneg fee.
Hypothesis eps_nonneg : 0 <= eps.

(** The joint inequality: what one round costs the monitor, the counts and the draw together. *)
Hypothesis joint : forall g, touched g = true -> next plan g = Check ->
  IZR (Z.abs (loss g (rows' g) - loss g (rows g))) / current g + levy + fee g <= eps.
Hypothesis counts_close : forall g h pre post, touched g = true -> open Count g h -> next plan h = Count ->
  since Count rows h = pre ++ rows g :: post -> since Count rows' h = pre ++ rows' g :: post ->
  close levy 0 (counts h (pre ++ rows g :: post)) (counts h (pre ++ rows' g :: post)).
Hypothesis draw_close : forall g h pre post, touched g = true -> open Draw g h -> next plan h = Draw ->
  since Draw rows h = pre ++ rows g :: post -> since Draw rows' h = pre ++ rows' g :: post ->
  close (fee g) delta (draw h (pre ++ rows g :: post)) (draw h (pre ++ rows' g :: post)).

Theorem Gate_event n : is_law (gate rows n) /\ close eps delta (gate rows n) (gate rows' n).
Proof.
  set (shift := fun g => IZR (Z.abs (loss g (rows' g) - loss g (rows g))) / current g).
  assert (forall {T} (p : T -> R), is_law p -> close 0 0 p p) as Refl.
  { intros T p (P & S & _). apply pure_close; auto. apply pure_refl. }
  apply Gate_private with (at_touched shift) (at_touched (fun _ => levy)) (at_touched fee) (at_touched (fun _ => delta)).
  - intros g. unfold at_touched. destruct (touched g); lra.
  - intros g. unfold at_touched. destruct (touched g); [apply fee_nonneg|lra].
  - intros g. unfold at_touched. destruct (touched g); lra.
  - intros g W. unfold at_touched. destruct (touched g) eqn:T; [unfold shift; lra|]. destruct once as [Same _].
    rewrite (Same g T), Z.sub_diag. simpl. unfold Rdiv. lra.
  - intros h W. destruct (since_once Count ltac:(discriminate) h) as [[-> ->]|(g & pre & post & T & Op & E & E' & ->)].
    + now apply Refl.
    + rewrite E, E'. now apply counts_close.
  - intros h W. destruct (since_once Draw ltac:(discriminate) h) as [[-> Zero]|(g & pre & post & T & Op & E & E' & Due)].
    + rewrite !Zero. now apply Refl.
    + rewrite !Due, E, E'. now apply draw_close.
  - intros h. rewrite !total_plus.
    apply Rle_trans with (total (at_touched (fun g => shift g + levy + fee g)) h).
    + right. unfold at_touched. clear. induction h as [|a g IH]; simpl; [ring|]. rewrite <- IH.
      destruct (is_task Check g); [|ring]. destruct (touched g); ring.
    + apply total_once; auto.
  - intros h. apply total_once; auto. intros; lra.
Qed.
End Event.

(** Two given streams of batches that differ in one of them. *)
Fixpoint checks (h : history) : nat :=
  match h with [] => 0 | _ :: g => ((if is_task Check g then 1 else 0) + checks g)%nat end.

Definition fixed (stream : list Batch) (none : Batch) (h : history) : Batch :=
  if is_task Check h then nth (checks h) stream none else none.

Lemma fixed_once before after x y none : one_check (fixed (before ++ x :: after) none) (fixed (before ++ y :: after) none)
  (fun h => is_task Check h && (checks h =? length before)%nat).
Proof.
  split.
  - intros h T. unfold fixed. destruct (is_task Check h); auto. simpl in T. apply Nat.eqb_neq in T.
    destruct (Nat.lt_ge_cases (checks h) (length before)); [now rewrite !app_nth1 by lia|].
    rewrite !app_nth2 by lia. replace (checks h - length before)%nat with (S (checks h - S (length before))) by lia.
    reflexivity.
  - intros h later T T'. apply andb_prop in T, T'. destruct T as [W E], T' as [_ E']. apply Nat.eqb_eq in E, E'.
    assert (forall later, later = [] \/ (S (checks h) <= checks (later ++ h))%nat) as Grow.
    { induction later0 as [|a l [->|IH]]; auto; right; simpl; [rewrite W|]; lia. }
    destruct (Grow later); auto. lia.
Qed.

End Gate.
