(** The learner [DPSOA] as a whole: monitor, forest and selectors, no premise about a mechanism left.

    How it corresponds. Rules are numbered ([Z]), as keys are in Selection.v. The forest is that of
    Forest.v. A search draws by the unknown-domain selection of Theorem 5, at [q * q <= exp e_h] and
    [low + top = delta], from the votes that are left where rules that are left out and a public
    [margin] are taken off; [keys] lists all keys that occur. A comparison draws one of the known
    rules, or none, by the exponential mechanism of Theorem 6, from minus their mistakes and public
    penalties. The monitor is that of Theorem 3, with one-sided noise of scale 1/e_m. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Selection.
From Littlestone Require Import Laws Noise Monitor Gates Exponential Forest.
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
Local Notation Step := (bool * option Z)%type.

(** The forest; the random bits are fixed. *)
Variable trees : nat.
Variable route : nat -> nat.
Variable learn : nat -> State -> nat -> X -> bool -> State.
Variable vote : nat -> State -> option Z.
Variable predict : Z -> X -> bool.

(** Public: functions of the transcript. *)
Variable published : list Step -> Z.
Variable start : list Step -> nat -> State.
Variable age : list Step -> nat.
Variable keep : list Step -> Z -> bool.
Variable margin : list Step -> nat.
Variable comparing : list Step -> bool.
Variable known : list Step -> list Z.
Variable penalty : list Step -> option Z -> R.
Variable theta : list Step -> Z.
Variable restart : list Step -> bool.

Variables (q : R) (curve : nat -> R) (low top : R) (keys : list Z) (e_m e_h : R).
Hypothesis q_gt_1 : 1 < q.
Hypothesis growth : q * q <= exp e_h.
Hypothesis terms : curve_terms q low top curve.
Hypothesis distinct : NoDup keys.
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_pos : 0 < e_h.

Definition search (h : list Step) (votes : Z -> nat) : option Z -> R :=
  select q curve keys (less_margin (margin h) votes).

Definition compare (h : list Step) (mistakes : Z -> Z) : option Z -> R :=
  exponential (listed (None :: map Some (known h))) (e_h / (2 * 1))
    (fun m => match m with Some k => - IZR (mistakes k) - penalty h m | None => - penalty h m end).

Definition dpsoa : (list Step -> list (round (X := X))) -> nat -> list Step -> R :=
  learner trees route learn vote predict published start age keep comparing theta restart
    search compare e_m.

Theorem Theorem_9_whole rows rows' touched n : one_round one_row rows rows' touched ->
  is_law (dpsoa rows n) /\ close (e_m + e_h) (low + top) (dpsoa rows n) (dpsoa rows' n).
Proof.
  assert (0 <= low + top) as Delta by (destruct terms as ((A & B) & (C & D) & _); lra).
  assert (forall h (c c' : Z -> Z), (forall k, (Z.abs (c' k - c k) <= 1)%Z) ->
    is_law (compare h c) /\ close e_h 0 (compare h c) (compare h c')) as Compare.
  { intros h c c' Moved. apply Theorem_6_list; [discriminate|auto|lra|]. intros [k|].
    - specialize (Moved k). apply IZR_le in Moved. rewrite abs_IZR, minus_IZR in Moved.
      rewrite Rabs_minus_sym.
      replace (- IZR (c k) - penalty h (Some k) - (- IZR (c' k) - penalty h (Some k)))
        with (IZR (c' k) - IZR (c k)) by ring. exact Moved.
    - rewrite Rminus_eq_0, Rabs_R0. lra. }
  intros One. apply Theorem_9 with touched; auto; try lra.
  - intros h b. now apply (select_law q curve low top).
  - intros h c. apply (Compare h c c). intros k. rewrite Z.sub_diag. simpl. lia.
  - intros h b b' Moved. apply moved_vote_moved in Moved as (gain & loss & Moved).
    apply moved_less_margin with (margin := margin h) in Moved as (gain' & loss' & Moved).
    exact (proj1 (Theorem_5_both q curve low top keys q_gt_1 terms distinct e_h gain' loss' _ _
      growth Moved)).
  - intros h c c' Moved. destruct (Compare h c c' Moved) as [_ Close].
    destruct (Compare h c' c') as [(P & S & _) _]; [intros k; rewrite Z.sub_diag; simpl; lia|].
    apply close_weaken with e_h 0; auto; lra.
Qed.

End DPSOA.
