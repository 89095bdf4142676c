(** Theorem 7 for HistSparse (Algorithm 2, repaired), and Theorem 9 for one forest over the whole stream.

    How it corresponds. Checks are those of the sparse vector (Theorem 2), at most [c] of which fire; after a firing a
    key is drawn. Every draw may read the whole stream, so all of them cost: (e1 + e2 + c e_h, c d_h). Queries, thresholds
    and draws are functions of the history, newest first, of answers and keys.
    Theorem_9_single: queries are lost votes of the published rule, draws read the ballot of a forest (Forest.v); the
    replaced rounds go to one tree on every transcript, so this is the learner per event, and per user without a cap. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts SparseVector Tree Compare Forest.
Import ListNotations.
Open Scope R_scope.

Section Hist_sparse.
Context {Key : Type} `{EqDec Key}.

Inductive event := Answer (fired : bool) | Drawn (key : option Key).

#[export] Instance EqDec_event : EqDec event.
Proof. intros x y; decide equality; apply eq_dec. Defined.

Local Notation history := (list event).

Definition fired (a : event) : bool := match a with Answer b => b | _ => false end.

(** A check, unless the last check has fired. *)
Fixpoint asks (h : history) : bool := match h with [] => true | a :: g => negb (asks g && fired a) end.

Fixpoint firings (h : history) : nat :=
  match h with [] => 0 | a :: g => ((if asks g && fired a then 1 else 0) + firings g)%nat end.

Variables (c : nat) (e1 e2 e_h d_h : R) (theta : history -> Z).
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.

Let p_T := laplace (1 / e1).
Let p_Q := laplace (2 * INR c / e2).

Lemma laws : noise (INR 1 / e1) p_T /\ noise (2 * INR c * INR 1 / e2) p_Q.
Proof.
  assert (0 < INR c) by now apply lt_0_INR. simpl INR. rewrite Rmult_1_r. unfold p_T, p_Q.
  split; apply Lemma_1_laplace; apply Rdiv_lt_0_compat; lra.
Qed.

Let LT : is_law p_T := proj1 (proj1 laws).
Let LQ : is_law p_Q := proj1 (proj2 laws).

(** After the c-th firing there is none, so no key either. *)
Definition key_law (sel : history -> option Key -> R) (h : history) : option Key -> R :=
  if (firings h <=? c)%nat then sel h else ret None.

Section World.
Variables (q : history -> Z) (sel : history -> option Key -> R).
Hypothesis sel_law : forall h, is_law (sel h).

Lemma key_law_law h : is_law (key_law sel h).
Proof. unfold key_law. destruct (_ <=? _)%nat; [apply sel_law|apply ret_law]. Qed.

Definition votes_world : world asks.
Proof.
  refine {| weight h := sv_weight fired asks p_T p_Q theta c q (rev h);
            kernel h a := if asks h then match a with Answer _ => 1 | _ => 0 end else lmap Drawn (key_law sel h) a |}.
  - intros h. apply sum_nonneg. now apply given_summable.
  - now apply sv_nil.
  - intros h a. destruct (asks h); [destruct a; lra|]. apply (lmap_law Drawn _ (key_law_law h)).
  - intros h Ask. rewrite Ask.
    destruct (sum_finite (fun a => match a with Answer _ => 1 | _ => 0 end *
      sv_weight fired asks p_T p_Q theta c q (rev (a :: h))) [Answer true; Answer false]) as [S ->].
    + intros a. apply Rmult_le_pos; [destruct a; lra|]. apply sum_nonneg. now apply given_summable.
    + repeat constructor; simpl; intuition discriminate.
    + intros [[|]|k] No; simpl in No; try tauto; ring.
    + split; auto. simpl. rewrite Rplus_0_r, !Rmult_1_l. apply sv_total; auto. now rewrite rev_involutive.
  - intros h Ask. rewrite Ask. split; [apply lmap_law, key_law_law|]. intros a. simpl. apply sv_passed.
    now rewrite rev_involutive.
Defined.

Definition hist_sparse (n : nat) : history -> R := transcripts asks votes_world n.
End World.

Theorem Theorem_7_hist_sparse q q' sel sel' (sel_law : forall h, is_law (sel h)) (sel'_law : forall h, is_law (sel' h)) n :
  (** A moved vote moves the lost votes by one, and every ballot by one vote. *)
  (forall h, (Z.abs (q h - q' h) <= 1)%Z) -> (forall h, close e_h d_h (sel h) (sel' h)) ->
  is_law (hist_sparse q sel sel_law n) /\
  close (e1 + e2 + INR c * e_h) (INR c * d_h) (hist_sparse q sel sel_law n) (hist_sparse q' sel' sel'_law n).
Proof.
  intros Lost Ballots. split; [apply transcripts_law|].
  set (cost := fun (x : R) (h : history) => if (firings h <=? c)%nat then x else 0).
  assert (forall x h, 0 <= x -> spent asks (cost x) h + (if asks h then 0 else cost x h) <= INR (Nat.min c (firings h)) * x) as Spent.
  { intros x h X. induction h as [|a g IH]; [simpl; rewrite Nat.min_0_r; simpl; lra|].
    assert (cost x (a :: g) = if ((if asks g && fired a then 1 else 0) + firings g <=? c)%nat then x else 0) as Now
      by reflexivity.
    cbn [spent asks firings]. rewrite Now. clear Now. destruct (asks g); cbn [andb negb]; [|simpl; lra].
    destruct (fired a); cbn [negb]; [|simpl; lra].
    destruct (Nat.leb_spec (1 + firings g) c).
    - rewrite Nat.min_r by lia. rewrite Nat.min_r in IH by lia. rewrite plus_INR. simpl INR. lra.
    - rewrite Nat.min_l by lia. rewrite Nat.min_l in IH by lia. lra. }
  assert (forall x h, 0 <= x -> spent asks (cost x) h <= INR c * x) as Most.
  { intros x h X. specialize (Spent x h X).
    assert (INR (Nat.min c (firings h)) * x <= INR c * x) by (apply Rmult_le_compat_r; auto; apply le_INR; lia).
    assert (0 <= cost x h) by (unfold cost; destruct (_ <=? _)%nat; lra). destruct (asks h); lra. }
  pose proof (proj2 (proj1 laws)) as UT. pose proof (proj2 (proj2 laws)) as UQ.
  apply tree_close with (cost e_h) (cost d_h).
  - intros h a Ask. simpl. now rewrite Ask.
  - intros h Ask. simpl. rewrite Ask. destruct (key_law_law sel sel_law h) as (P & S & _), (key_law_law sel' sel'_law h) as (P' & S' & _).
    apply close_lmap; auto. unfold key_law, cost. destruct (_ <=? _)%nat; auto.
    destruct (ret_law (@None Key)) as (Pr & Sr & _). apply pure_close; auto. apply pure_refl.
  - intros h. simpl. apply Rle_trans with (exp (e1 + e2) * sv_weight fired asks p_T p_Q theta c q' (rev h)).
    + apply (sparse_vector_given_keys fired asks p_T p_Q theta LT LQ q q' 1 c e1 e2); auto.
    + apply Rmult_le_compat_r; [apply sum_nonneg; now apply given_summable|]. apply exp_le.
      specialize (Most e_h h e_h_nonneg). lra.
  - intros h. now apply Most.
Qed.

(** * One forest for the whole stream *)

Section Single.
Context {X State : Type}.
Variables (trees : nat) (route : nat -> nat) (learn : nat -> State -> nat -> X -> bool -> State).
Variables (vote : nat -> State -> option Key) (published : history -> Key) (start : nat -> State).
Variable search : history -> (Key -> nat) -> option Key -> R.
Hypothesis search_law : forall h b, is_law (search h b).
Hypothesis search_close : forall h b b', moved_vote b b' -> close e_h d_h (search h b) (search h b').

(** The rounds up to a history, and the ballot of the forest after them. *)
Variables rounds rounds' : history -> list (round (X := X)).
Definition ballot (rows : list (round (X := X))) : Key -> nat := votes vote trees (grow route learn start rows).
Definition lost (rows : history -> list (round (X := X))) (h : history) : Z :=
  (Z.of_nat trees - Z.of_nat (ballot (rows h) (published h)))%Z.
Definition single_learner (rows : history -> list (round (X := X))) : nat -> history -> R :=
  hist_sparse (lost rows) (fun h => search h (ballot (rows h))) (fun h => search_law h _).

(** On every transcript the replaced rounds go to one tree: one round, routed by its number, or all rounds of a
    user, however many, routed by the user's. *)
Theorem Theorem_9_single n : (forall h, exists j, one_tree route j (rounds h) (rounds' h)) ->
  is_law (single_learner rounds n) /\
  close (e1 + e2 + INR c * e_h) (INR c * d_h) (single_learner rounds n) (single_learner rounds' n).
Proof.
  intros Near.
  assert (forall h, moved_vote (ballot (rounds h)) (ballot (rounds' h))) as Moved.
  { intros h. destruct (Near h) as [j N]. now apply forest_sensitivity with j. }
  apply Theorem_7_hist_sparse; auto.
  intros h. destruct (Moved h) as (old & new & Move). specialize (Move (published h)).
  assert (forall (k : Key) v, (votes_for k v <= 1)%nat) as Bound.
  { intros k [r|]; simpl; [destruct (eq_dec r k)|]; lia. }
  pose proof (Bound (published h) old). pose proof (Bound (published h) new). unfold lost. lia.
Qed.
End Single.
End Hist_sparse.
