(** Theorem 9 of docs/guarantee.md: what the gate reads of a forest, and the learner [DPSOA].

    How it corresponds. A round is a number and a row; a null round has no row and keeps its number.
    [route] maps the number of a round (or of its user) to a tree: random bits, which are not secret,
    so the proof fixes them. [learn i s n x y] is the state of tree [i] after the row of round [n],
    [vote i s] its vote. Both are any functions of their arguments: so flat forests, where a tree is
    one learner ([flat_learn] and [flat_vote]), and tournaments, whose guesses are hashed from the
    tree's own numbers, are both covered. That the Python code computes functions of these arguments and
    of nothing else is not proved here: tests/learners/test_gate_inputs.py looks for that.

    forest_sensitivity: rounds that are replaced, all routed to one tree, move one vote at most.
    mistakes_sensitivity: one replaced round changes the mistakes of its check by at most one.
    Theorem_9: with these, the epochs gate of Theorem 7 applies, searches and comparisons alike.
    Theorem_9_single: one forest for the whole stream, with HistSparse. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts SparseVector Monitor Composition Gates.
Import ListNotations.
Open Scope nat_scope.

Section Forest.

Context {X Rule State : Type} `{EqDec Rule}.

Definition round : Type := nat * option (X * bool).

Variable trees : nat.
Variable route : nat -> nat.
Variable learn : nat -> State -> nat -> X -> bool -> State.
Variable vote : nat -> State -> option Rule.

Definition learn_round (f : nat -> State) (one : round) : nat -> State :=
  fun i => match snd one with
           | Some (x, y) => if Nat.eqb i (route (fst one)) then learn i (f i) (fst one) x y else f i
           | None => f i
           end.

(** The forest after some rounds. *)
Definition grow (f : nat -> State) (rounds : list round) : nat -> State :=
  fold_left learn_round rounds f.

Definition votes_for (k : Rule) (v : option Rule) : nat :=
  match v with Some r => if eq_dec r k then 1 else 0 | None => 0 end.

(** The ballot of the first [n] trees: how many votes each rule has. *)
Fixpoint votes (n : nat) (f : nat -> State) (k : Rule) : nat :=
  match n with O => 0 | S m => votes m f k + votes_for k (vote m (f m)) end.

(** One vote moves: from [old] to [new], where either may be no vote at all. *)
Definition moved_vote (b b' : Rule -> nat) : Prop :=
  exists old new, forall k, b' k + votes_for k old = b k + votes_for k new.

(** The same rounds, but for rows that all go to tree [j]. *)
Definition one_tree (j : nat) (u v : list round) : Prop :=
  Forall2 (fun a b => fst a = fst b /\ (snd a = snd b \/ route (fst a) = j)) u v.

Lemma other_trees j u v : one_tree j u v -> forall f f' i, i <> j -> f i = f' i ->
  grow f u i = grow f' v i.
Proof.
  intros Near; induction Near as [|a b u v [Number Row] Near IH]; intros f f' i J Same; auto.
  simpl. apply IH; auto. unfold learn_round. rewrite <- Number.
  destruct Row as [<-|Routed].
  - destruct (snd a) as [[x y]|]; auto. now rewrite Same.
  - rewrite Routed. destruct (Nat.eqb_spec i j); [tauto|].
    destruct (snd a) as [[x y]|], (snd b) as [[x' y']|]; auto.
Qed.

Lemma one_vote j f f' : (forall i, i <> j -> f i = f' i) -> moved_vote (votes trees f) (votes trees f').
Proof.
  intros Same.
  assert (forall n k, if j <? n
    then votes n f' k + votes_for k (vote j (f j)) = votes n f k + votes_for k (vote j (f' j))
    else votes n f' k = votes n f k) as Count.
  { induction n as [|n IH]; intros k; [reflexivity|]. specialize (IH k). simpl votes.
    destruct (Nat.eq_dec n j) as [->|N].
    - destruct (Nat.ltb_spec j j); [lia|]. destruct (Nat.ltb_spec j (S j)); lia.
    - rewrite (Same n N).
      destruct (Nat.ltb_spec j n); destruct (Nat.ltb_spec j (S n)); lia. }
  destruct (j <? trees) eqn:In_forest.
  - exists (vote j (f j)), (vote j (f' j)). intros k. specialize (Count trees k).
    now rewrite In_forest in Count.
  - exists None, None. intros k. specialize (Count trees k). rewrite In_forest in Count. simpl. lia.
Qed.

(** Whatever rounds are replaced, if all are routed to one tree, one vote moves at most. *)
Theorem forest_sensitivity j start u v : one_tree j u v ->
  moved_vote (votes trees (grow start u)) (votes trees (grow start v)).
Proof. intros Near. apply one_vote with j. intros i J. now apply other_trees with j. Qed.

(** Votes for rules that are left out, which is public, are not passed on. *)
Definition passed_on (keep : Rule -> bool) (b : Rule -> nat) (k : Rule) : nat :=
  if keep k then b k else 0.

Lemma moved_vote_passed keep b b' : moved_vote b b' -> moved_vote (passed_on keep b) (passed_on keep b').
Proof.
  intros (old & new & Move).
  set (kept := fun v : option Rule =>
    match v with Some r => if keep r then v else None | None => None end).
  assert (forall k v, keep k = true -> votes_for k (kept v) = votes_for k v) as Kept.
  { intros k [r|] K; auto. simpl. destruct (keep r) eqn:R; auto. simpl.
    destruct (eq_dec r k); auto. congruence. }
  assert (forall k v, keep k = false -> votes_for k (kept v) = 0) as Out.
  { intros k [r|] K; auto. simpl. destruct (keep r) eqn:R; auto. simpl.
    destruct (eq_dec r k); auto. congruence. }
  exists (kept old), (kept new). intros k. unfold passed_on.
  destruct (keep k) eqn:K; [now rewrite !Kept|now rewrite !Out].
Qed.

(** * Mistakes *)

Variable predict : Rule -> X -> bool.

Definition mistake (r : Rule) (one : round) : Z :=
  match snd one with Some (x, y) => if Bool.eqb (predict r x) y then 0 else 1 | None => 0 end.

Definition mistakes_of (r : Rule) (rounds : list round) : Z :=
  fold_right (fun one count => mistake r one + count)%Z 0%Z rounds.

(** One replaced row: the number of its round, and all other rounds, are the same. *)
Definition one_row (u v : list round) : Prop :=
  exists before n x y after, u = before ++ (n, x) :: after /\ v = before ++ (n, y) :: after.

Theorem mistakes_sensitivity r u v : one_row u v -> (Z.abs (mistakes_of r v - mistakes_of r u) <= 1)%Z.
Proof.
  intros (before & n & x & y & after & -> & ->).
  assert (forall l l', mistakes_of r (l ++ l') = mistakes_of r l + mistakes_of r l')%Z as App.
  { induction l; intros l'; simpl; auto. rewrite IHl. lia. }
  rewrite !App. simpl. assert (forall one, 0 <= mistake r one <= 1)%Z as Bound.
  { intros [m [[x' y']|]]; unfold mistake; simpl; [destruct (Bool.eqb _ _)|]; lia. }
  pose proof (Bound (n, x)). pose proof (Bound (n, y)). lia.
Qed.

Lemma same_rounds j u : one_tree j u u.
Proof. induction u; constructor; auto. Qed.

Lemma one_row_one_tree u v : one_row u v -> exists j, one_tree j u v.
Proof.
  intros (before & n & x & y & after & -> & ->). exists (route n).
  apply Forall2_app; [apply same_rounds|]. constructor; [auto|apply same_rounds].
Qed.

(** * The learner with epochs *)

Section Learner.

Local Notation Step := (bool * option Rule)%type.
Local Notation Batch := (list round).

(** Public, functions of the transcript: the published rule, the state in which every tree begins the
    epoch, how many checks the epoch has had since its last restart, the rules that are left out,
    whether the epoch compares known rules, thresholds and restarts of the monitor. *)
Variable published : list Step -> Rule.
Variable start : list Step -> nat -> State.
Variable age : list Step -> nat.
Variable keep : list Step -> Rule -> bool.
Variable comparing : list Step -> bool.
Variable theta : list Step -> Z.
Variable restart : list Step -> bool.

(** The selectors: of a search, which reads votes, and of a comparison, which reads mistakes. *)
Variable search : list Step -> (Rule -> nat) -> option Rule -> R.
Variable compare : list Step -> (Rule -> Z) -> option Rule -> R.
Variables e_m e_h d_h : R.
Open Scope R_scope.
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis search_law : forall h b, is_law (search h b).
Hypothesis compare_law : forall h c, is_law (compare h c).
(** Theorems 4 and 5: a moved vote; Theorem 6: counts that move by one at most. *)
Hypothesis search_close : forall h b b', moved_vote b b' -> close e_h d_h (search h b) (search h b').
Hypothesis compare_close : forall h c c', (forall k, (Z.abs (c' k - c k) <= 1)%Z) ->
  close e_h d_h (compare h c) (compare h c').

(** The rounds of an epoch, in their order: [u] has the batches of its checks, the latest first. *)
Definition epoch_rounds (h : list Step) (u : list Batch) : list round :=
  concat (rev (firstn (age h) u)).

Definition selection (h : list Step) (u : list Batch) : option Rule -> R :=
  let rounds := epoch_rounds h u in
  if comparing h then compare h (fun k => mistakes_of k rounds)
  else search h (passed_on (keep h) (votes trees (grow (start h) rounds))).

Definition learner : (list Step -> Batch) -> nat -> list Step -> R :=
  mistakes_gate (fun h b => mistakes_of (published h) b) selection theta restart
    (one_sided (INR 1 / e_m)).

Lemma epoch_rounds_replaced h u v : one_replaced one_row u v ->
  epoch_rounds h u = epoch_rounds h v \/ one_row (epoch_rounds h u) (epoch_rounds h v).
Proof.
  intros (pre & b & b' & post & -> & -> & before & n & x & y & after & -> & ->).
  unfold epoch_rounds. rewrite !firstn_app.
  destruct (age h - length pre)%nat as [|more]; [left; reflexivity|right].
  simpl. rewrite !rev_app_distr. simpl. rewrite !concat_app. simpl.
  rewrite !app_nil_r, <- !app_assoc. simpl.
  exists (concat (rev (firstn more post)) ++ before), n, x, y,
    (after ++ concat (rev (firstn (age h) pre))).
  now rewrite <- !app_assoc.
Qed.

Lemma moved_none (b : Rule -> nat) : moved_vote b b.
Proof. exists None, None. reflexivity. Qed.

(** All rules that the learner publishes, and the checks at which its gate fires. *)
Theorem Theorem_9 rows rows' touched n : one_round one_row rows rows' touched ->
  is_law (learner rows n) /\ close (e_m + e_h) d_h (learner rows n) (learner rows' n).
Proof.
  intros One. unfold learner.
  apply (Theorem_7_epochs (fun h b => mistakes_of (published h) b) selection one_row theta restart
           1 e_m e_h d_h) with touched; auto.
  - intros h u. unfold selection. destruct (comparing h); auto.
  - intros h b b' A. now apply mistakes_sensitivity.
  - intros h u v A. unfold selection. apply epoch_rounds_replaced with (h := h) in A.
    destruct (comparing h).
    + apply compare_close. intros k. destruct A as [->|A]; [lia|]. now apply mistakes_sensitivity.
    + apply search_close, moved_vote_passed. destruct A as [->|A]; [apply moved_none|].
      apply one_row_one_tree in A as [j A]. now apply forest_sensitivity with j.
Qed.

End Learner.

(** * One forest for the whole stream *)

Section Single.

Local Notation Step := (bool * option Rule)%type.

Variable published : list Step -> Rule.
Variable start : nat -> State.
Variable theta : list Step -> Z.
Variable search : list Step -> (Rule -> nat) -> option Rule -> R.
Variables (c : nat) (e1 e2 e_h d_h : R).
Open Scope R_scope.
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis search_law : forall h b, is_law (search h b).
Hypothesis search_close : forall h b b', moved_vote b b' -> close e_h d_h (search h b) (search h b').

Fixpoint so_far (rows : list Step -> list round) (h : list Step) : list round :=
  match h with [] => rows [] | _ :: g => so_far rows g ++ rows h end.

Definition ballot (rows : list Step -> list round) (h : list Step) : Rule -> nat :=
  votes trees (grow start (so_far rows h)).

Definition lost (rows : list Step -> list round) (h : list Step) : Z :=
  (Z.of_nat trees - Z.of_nat (ballot rows h (published h)))%Z.

Definition single_learner (rows : list Step -> list round) : nat -> list Step -> R :=
  hist_sparse theta c e1 e2 (lost rows) (fun h => search h (ballot rows h)).

(** Along every transcript the replaced rounds go to one tree: one round, routed by its number, or all
    rounds of a user, however many, routed by the user's. *)
Theorem Theorem_9_single rows rows' n :
  (forall h, exists j, one_tree j (so_far rows h) (so_far rows' h)) ->
  is_law (single_learner rows n) /\
  close (e1 + e2 + INR c * e_h) (INR c * d_h) (single_learner rows n) (single_learner rows' n).
Proof.
  intros Near.
  assert (forall h, moved_vote (ballot rows h) (ballot rows' h)) as Moved.
  { intros h. destruct (Near h) as [j N]. now apply forest_sensitivity with j. }
  apply Theorem_7_hist_sparse; auto.
  intros h. destruct (Moved h) as (old & new & Move). specialize (Move (published h)).
  assert (forall k v, (votes_for k v <= 1)%nat) as Bound.
  { intros k [r|]; simpl; [destruct (eq_dec r k)|]; lia. }
  pose proof (Bound (published h) old). pose proof (Bound (published h) new). unfold lost. lia.
Qed.

End Single.
End Forest.

(** A flat forest: every tree is one learner, which changes its state where its rule errs. *)
Section Flat.

Context {X Rule State : Type}.
Variable predict : Rule -> X -> bool.
Variable rule_of : State -> option Rule.
Variable update : State -> X -> bool -> State.

Definition flat_learn (tree : nat) (s : State) (number : nat) (x : X) (y : bool) : State :=
  match rule_of s with
  | Some r => if Bool.eqb (predict r x) y then s else update s x y
  | None => s
  end.

Definition flat_vote (tree : nat) (s : State) : option Rule := rule_of s.

Corollary flat_forest_sensitivity `{EqDec Rule} trees route j start u v :
  one_tree route j u v ->
  moved_vote (votes flat_vote trees (grow route flat_learn start u))
             (votes flat_vote trees (grow route flat_learn start v)).
Proof. apply forest_sensitivity. Qed.

End Flat.
