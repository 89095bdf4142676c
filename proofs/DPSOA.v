(** Theorem 9 of docs/guarantee.md: the learner [DPSOA], monitor, forest and draws, no premise about a mechanism left.

    How it corresponds. Rules are numbered ([Z]), as keys are in Selection.v. The forest is that of Forest.v. A draw
    searches or compares, which is public. A search draws by the unknown-domain selection of Theorem 5, at
    [q * q <= exp e_h] and [low + top = delta], from the votes that are left where rules that are left out ([keep]) and a
    public [margin] are taken off; [keys] lists all keys that occur. A comparison draws one of the known rules, or None
    for the published one, by minus their own mistakes and public penalties (Compare.v). Every tree begins an epoch in
    a state that is a function of the transcript. The monitor counts the mistakes of the published rule, with
    one-sided noise of scale m/e_m or more.
    A neighbour replaces the rows of at most [m] rounds ([rounds g] of them in the check after [g]), on every
    transcript all of one tree: m = 1 is one event, and a user has at most m rounds, routed by user. Two of them may
    be in one check, or in one epoch. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Selection.
From Littlestone Require Import Laws Noise Transcripts Monitor Tree Exponential Gate Compare Forest.
Import ListNotations.
Open Scope R_scope.

Lemma moved_vote_moved (n n' : Z -> nat) : moved_vote n n' -> exists gain loss, moved gain loss n n'.
Proof.
  intros (old & new & Move).
  assert (forall k v, votes_for k v = if is v k then 1%nat else 0%nat) as Votes.
  { intros k [r|]; simpl; auto. destruct (eq_dec r k) as [->|N]; [now rewrite Z.eqb_refl|].
    destruct (Z.eqb_spec k r); auto. congruence. }
  destruct (eq_dec old new) as [->|Other].
  - exists None, None. split; [reflexivity|]. intros k. specialize (Move k). simpl. lia.
  - exists new, old. split.
    + intros k. destruct new as [i|], old as [j|]; simpl; auto; [|apply andb_false_r].
      destruct (Z.eqb_spec k i); destruct (Z.eqb_spec k j); auto. congruence.
    + intros k. specialize (Move k). now rewrite !Votes in Move.
Qed.

(** A public margin is taken off every count, down to 0. *)
Definition less_margin (margin : nat) (n : Z -> nat) (k : Z) : nat := (n k - margin)%nat.

Lemma moved_less_margin margin gain loss n n' : moved gain loss n n' ->
  exists gain' loss', moved gain' loss' (less_margin margin n) (less_margin margin n').
Proof.
  intros [Apart Move].
  set (kept := fun (o : option Z) (count : Z -> nat) =>
    match o with Some i => if (margin <? count i)%nat then o else None | None => None end).
  assert (forall o count k, is (kept o count) k = is o k && (margin <? count k)%nat) as Kept.
  { intros [i|] count k; [|reflexivity]. unfold kept. destruct (Z.eq_dec k i) as [->|N].
    - destruct (margin <? count i)%nat; simpl; rewrite ?Z.eqb_refl; reflexivity.
    - apply Z.eqb_neq in N. destruct (margin <? count i)%nat; simpl; rewrite N; reflexivity. }
  exists (kept gain n'), (kept loss n). split.
  - intros k. rewrite !Kept. specialize (Apart k). destruct (is gain k), (is loss k); simpl in *;
      rewrite ?andb_false_r; auto; discriminate.
  - intros k. rewrite !Kept. specialize (Move k). specialize (Apart k). unfold less_margin.
    destruct (is gain k), (is loss k); try discriminate; simpl in *;
      repeat match goal with |- context [(?x <? ?y)%nat] => destruct (Nat.ltb_spec x y) end; lia.
Qed.

Section DPSOA.

Context {X State : Type}.
Local Notation history := (list (event (V := unit) (K := Z))).
Local Notation batch := (list (round (X := X))).

(** The forest; the random bits are fixed. *)
Variable trees : nat.
Variable route : nat -> nat.
Variable learn : nat -> State -> nat -> X -> bool -> State.
Variable vote : nat -> State -> option Z.
Variable predict : Z -> X -> bool.

(** Public: functions of the transcript. *)
Variable plan : schedule (V := unit) (K := Z).
Variable published : history -> Z.
Variable start : history -> nat -> State.
Variable comparing : history -> bool.
Variable keep : history -> Z -> bool.
Variable margin : history -> nat.
Variable known : history -> list Z.
Variable penalty : history -> option Z -> R.

Variables (q : R) (curve : nat -> R) (low top : R) (keys : list Z) (e_m e_h : R) (m : nat).
Hypothesis q_gt_1 : 1 < q.
Hypothesis growth : q * q <= exp e_h.
Hypothesis terms : curve_terms q low top curve.
Hypothesis distinct : NoDup keys.
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_pos : 0 < e_h.
Hypothesis m_pos : (0 < m)%nat.
Hypothesis scales : forall h, INR m / e_m <= scale plan h.

(** The rounds of an epoch, in their order: batches come the latest first. *)
Definition epoch_rounds (u : list batch) : list (round (X := X)) := concat (rev u).

Definition search (h : history) (rounds : list (round (X := X))) : option Z -> R :=
  select q curve keys (less_margin (margin h)
    (passed_on (keep h) (votes vote trees (grow route learn (start h) rounds)))).

Definition comparison (h : history) (rounds : list (round (X := X))) : option Z -> R :=
  compare (published h) (None :: map Some (known h)) (penalty h) (e_h / 2) (fun r => total_of (mistake predict r) rounds).

Definition dpsoa_draw (h : history) (u : list batch) : option Z -> R :=
  if comparing h then comparison h (epoch_rounds u) else search h (epoch_rounds u).

Definition dpsoa : (history -> batch) -> nat -> history -> R :=
  gate plan one_sided (fun h rows => total_of (mistake predict (published h)) rows) no_counts dpsoa_draw.

Lemma search_law h rounds : is_law (search h rounds).
Proof. now apply (select_law q curve low top). Qed.

Lemma comparison_law h rounds : is_law (comparison h rounds).
Proof. apply compare_law. discriminate. Qed.

Lemma delta_nonneg : 0 <= low + top.
Proof. destruct terms as ((A & B) & (C & D) & _); lra. Qed.

(** One vote moves, however many rounds of the tree are replaced. *)
Lemma search_close h j k u v : replaced route j k u v -> close e_h (low + top) (search h u) (search h v).
Proof.
  intros Rep. apply replaced_tree in Rep.
  pose proof (forest_sensitivity trees route learn vote j (start h) u v Rep) as Moved.
  apply moved_vote_passed with (keep := keep h) in Moved. apply moved_vote_moved in Moved as (gain & loss & Moved).
  apply moved_less_margin with (margin := margin h) in Moved as (gain' & loss' & Moved).
  exact (proj1 (Theorem_5_both q curve low top keys q_gt_1 terms distinct e_h gain' loss' _ _ growth Moved)).
Qed.

(** Scores move by one for each replaced round. *)
Lemma comparison_close h j k u v : replaced route j k u v -> close (INR k * e_h) 0 (comparison h u) (comparison h v).
Proof.
  intros Rep. replace (INR k * e_h) with (e_h / 2 * (2 * IZR (Z.of_nat k))) by (rewrite <- INR_IZR_INZ; field).
  apply compare_close; [discriminate|lra|]. intros r. now apply mistakes_sensitivity with route j.
Qed.

Lemma dpsoa_draw_close h j k u v : replaced route j k (epoch_rounds u) (epoch_rounds v) ->
  close (INR k * e_h) (INR k * (low + top)) (dpsoa_draw h u) (dpsoa_draw h v).
Proof.
  intros Rep. pose proof delta_nonneg as D. unfold dpsoa_draw. destruct (comparing h).
  - destruct (comparison_law h (epoch_rounds v)) as (P & S & _). apply close_weaken with (INR k * e_h) 0; auto; [lra| |].
    + apply Rmult_le_pos; auto. apply pos_INR.
    + now apply comparison_close with j.
  - destruct (search_law h (epoch_rounds v)) as (P & S & _). destruct k as [|k].
    + rewrite (replaced_none _ _ _ _ _ Rep eq_refl). simpl. rewrite !Rmult_0_l. apply pure_close; auto. apply pure_refl.
    + apply close_weaken with e_h (low + top); auto; [| |now apply search_close with j (Datatypes.S k)].
      all: rewrite S_INR; pose proof (pos_INR k);
        assert (0 <= INR k * e_h) by (apply Rmult_le_pos; lra);
        assert (0 <= INR k * (low + top)) by (apply Rmult_le_pos; lra); lra.
Qed.

Section Worlds.
Variables rows rows' : history -> batch.
Variable rounds : history -> nat.
(** On every transcript at most [m] rounds are replaced, all of them rounds of one tree. *)
Hypothesis one_unit : forall h, exists j, forall g a later, h = later ++ a :: g -> next plan g = Check ->
  replaced route j (rounds g) (rows g) (rows' g).
Hypothesis at_most_m : forall h, total plan (fun g => INR (rounds g)) h <= INR m.

Lemma epoch_replaced j h : (forall g a later, h = later ++ a :: g -> next plan g = Check ->
    replaced route j (rounds g) (rows g) (rows' g)) ->
  exists k, replaced route j k (epoch_rounds (since plan Draw rows h)) (epoch_rounds (since plan Draw rows' h)) /\
    due plan (fun g => INR (rounds g)) Draw h = INR k.
Proof.
  unfold epoch_rounds. induction h as [|a g IH]; intros Rep; simpl.
  - exists 0%nat. split; [constructor|reflexivity].
  - unfold is_task. destruct (eq_dec (next plan g) Draw) as [|N]; [exists 0%nat; split; [constructor|reflexivity]|].
    destruct IH as (k & Rk & Dk).
    { intros g' a' later E. apply (Rep g' a' (a :: later)). now rewrite E. }
    destruct (eq_dec (next plan g) Check) as [W|W].
    + exists (k + rounds g)%nat. simpl. rewrite !concat_app. simpl. rewrite !app_nil_r. split.
      * apply replaced_app; auto. now apply (Rep g a []).
      * rewrite plus_INR, Dk. ring.
    + exists k. split; auto. rewrite Dk. ring.
Qed.

Theorem Theorem_9 n : is_law (dpsoa rows n) /\
  close (e_m + INR m * e_h) (INR m * (low + top)) (dpsoa rows n) (dpsoa rows' n).
Proof.
  assert (0 < INR m) as M by now apply lt_0_INR. pose proof delta_nonneg as D.
  assert (0 < INR m / e_m) as Pos by now apply Rdiv_lt_0_compat.
  set (each := fun (c : R) (g : history) => INR (rounds g) * c).
  assert (forall c h, due plan (each c) Draw h = due plan (fun g => INR (rounds g)) Draw h * c) as Due.
  { intros c h; induction h as [|a g IH]; simpl; [ring|]. rewrite IH. unfold each.
    destruct (is_task plan Draw g); [ring|]. destruct (is_task plan Check g); ring. }
  assert (forall c h, total plan (each c) h = total plan (fun g => INR (rounds g)) h * c) as Total.
  { intros c h; induction h as [|a g IH]; simpl; [ring|]. rewrite IH. unfold each. destruct (is_task plan Check g); ring. }
  assert (forall c, 0 <= c -> nonneg (each c)) as Each.
  { intros c C g. apply Rmult_le_pos; auto. apply pos_INR. }
  apply Gate_private with (each (e_m / INR m)) (fun _ => 0) (each e_h) (each (low + top)); try (apply Each; lra).
  - intros s S. now apply Lemma_1_one_sided.
  - intros h u. apply ret_law.
  - intros h u. unfold dpsoa_draw. destruct (comparing h); [apply comparison_law|apply search_law].
  - intros h; lra.
  - intros g W. destruct (one_unit (Answer true :: g)) as [j Rep]. specialize (Rep g (Answer true) [] eq_refl W).
    apply mistakes_sensitivity with (predict := predict) (r := published g) in Rep. apply IZR_le in Rep.
    rewrite <- INR_IZR_INZ in Rep. pose proof (current_at_least plan _ scales g) as Sc. unfold each.
    apply (Rmult_le_reg_r (current plan g)); [lra|]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    eapply Rle_trans; [apply Rep|].
    apply Rle_trans with (INR (rounds g) * (e_m / INR m) * (INR m / e_m)); [right; field; lra|].
    apply Rmult_le_compat_l; auto. apply Rmult_le_pos; [apply pos_INR|]. left; now apply Rdiv_lt_0_compat.
  - intros h W. replace (due plan (fun _ => 0) Count h) with 0.
    + destruct (ret_law tt) as (P & S & _). apply pure_close; auto. apply pure_refl.
    + clear. induction h as [|a g IH]; simpl; auto. rewrite <- IH.
      destruct (is_task plan Count g); auto. destruct (is_task plan Check g); ring.
  - intros h W. destruct (one_unit h) as [j Rep]. destruct (epoch_replaced j h Rep) as (k & Rk & Dk).
    rewrite !Due, Dk. now apply dpsoa_draw_close with j.
  - intros h. rewrite !total_plus, !Total.
    replace (total plan (fun _ => 0) h) with 0.
    + specialize (at_most_m h). replace (e_m + INR m * e_h) with (INR m * (e_m / INR m + e_h)) by (field; lra).
      apply Rle_trans with (total plan (fun g => INR (rounds g)) h * (e_m / INR m + e_h)); [right; ring|].
      apply Rmult_le_compat_r; auto. assert (0 < e_m / INR m) by now apply Rdiv_lt_0_compat. lra.
    + clear. induction h as [|a g IH]; simpl; auto. rewrite <- IH. destruct (is_task plan Check g); ring.
  - intros h. rewrite Total. apply Rmult_le_compat_r; auto.
Qed.
End Worlds.
End DPSOA.
