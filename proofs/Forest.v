(** Theorem 9 of docs/guarantee.md: what a draw reads of a forest.

    How it corresponds. A round is a number and a row; a null round has no row and keeps its number.
    [route] maps the number of a round (or of its user) to a tree: random bits, which are not secret,
    so the proof fixes them. [learn i s n x y] is the state of tree [i] after the row of round [n],
    [vote i s] its vote. Both are any functions of their arguments: so flat forests, where a tree is
    one learner ([flat_learn] and [flat_vote]), and tournaments, whose guesses are hashed from the
    tree's own numbers, are both covered. That the Python code computes functions of these arguments and
    of nothing else is not proved here: tests/learners/test_gate_inputs.py looks for that.

    forest_sensitivity: rounds that are replaced, all routed to one tree, move one vote at most.
    mistakes_sensitivity: [k] replaced rounds change the mistakes of any rule by at most [k].
    DPSOA.v has the learner with epochs, HistSparse.v that with one forest for the whole stream. *)

From Coq Require Import List Lia ZArith Bool.
From Littlestone Require Import Laws Compare.
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

(** * Replaced rounds *)

(** The rows of [k] rounds differ, all of them routed to tree [j]: one round, or the rounds of a user that are
    routed by the user's number. Numbers stay, also those of null rounds. *)
Inductive replaced (j : nat) : nat -> list round -> list round -> Prop :=
| none_replaced : replaced j 0 [] []
| not_replaced a k u v : replaced j k u v -> replaced j k (a :: u) (a :: v)
| one_replaced n x y k u v : route n = j -> replaced j k u v -> replaced j (S k) ((n, x) :: u) ((n, y) :: v).

Lemma replaced_tree j k u v : replaced j k u v -> one_tree j u v.
Proof. intros Rep; induction Rep; constructor; auto. Qed.

Lemma replaced_none j k u v : replaced j k u v -> k = 0 -> u = v.
Proof. intros Rep; induction Rep; intros; auto; [f_equal; auto|discriminate]. Qed.

Lemma replaced_app j k u v : replaced j k u v -> forall l u' v', replaced j l u' v' -> replaced j (k + l) (u ++ u') (v ++ v').
Proof. intros Rep; induction Rep; intros l u' v' Rep'; simpl; auto; constructor; auto. Qed.

Variable predict : Rule -> X -> bool.

Definition mistake (r : Rule) (one : round) : Z :=
  match snd one with Some (x, y) => if Bool.eqb (predict r x) y then 0 else 1 | None => 0 end.

Theorem mistakes_sensitivity r j k u v : replaced j k u v ->
  (Z.abs (total_of (mistake r) v - total_of (mistake r) u) <= Z.of_nat k)%Z.
Proof.
  assert (forall one, 0 <= mistake r one <= 1)%Z as Bound.
  { intros [m [[x' y']|]]; unfold mistake; simpl; [destruct (Bool.eqb _ _)|]; lia. }
  intros Rep; induction Rep as [|a k u v Rep IH|n x y k u v J Rep IH]; simpl; [lia|lia|].
  pose proof (Bound (n, x)). pose proof (Bound (n, y)). lia.
Qed.
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
