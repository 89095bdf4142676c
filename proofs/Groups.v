(** Theorem 14 of docs/guarantee.md: rows that are in several rounds, replaced one round after the other.

    How it corresponds. [run w] is what the learner publishes on the stream [w]; [near] is the relation of
    streams that differ in one round. [steps near k w w'] says that k replacements lead from w to w'. The delta
    is that of the text: delta (1 + e^eps + ... + e^((k-1) eps)). *)

From Coq Require Import Reals List Lra Lia.
From Littlestone Require Import Laws.
Open Scope R_scope.

Inductive steps {W} (near : W -> W -> Prop) : nat -> W -> W -> Prop :=
| no_step w : steps near 0 w w
| one_step k w w1 w' : near w w1 -> steps near k w1 w' -> steps near (S k) w w'.

(** 1 + e^eps + ... + e^((k-1) eps) *)
Fixpoint powers (eps : R) (k : nat) : R :=
  match k with O => 0 | S j => powers eps j + exp (INR j * eps) end.

Lemma powers_step eps k : powers eps (S k) = 1 + exp eps * powers eps k.
Proof.
  induction k as [|k IH]; [simpl; rewrite Rmult_0_l, exp_0; ring|].
  transitivity (powers eps (S k) + exp (INR (S k) * eps)); [reflexivity|]. rewrite IH at 1. rewrite S_INR.
  replace ((INR k + 1) * eps) with (eps + INR k * eps) by ring. rewrite exp_plus. simpl powers. ring.
Qed.

Theorem Theorem_14 {W T} (near : W -> W -> Prop) (run : W -> T -> R) eps delta k w w' :
  (forall u v, near u v -> close eps delta (run u) (run v)) ->
  steps near k w w' -> close (INR k * eps) (delta * powers eps k) (run w) (run w').
Proof.
  intros One St. induction St as [w|k w w1 w' N _ IH].
  - simpl. rewrite Rmult_0_l, Rmult_0_r. intros S. rewrite exp_0; lra.
  - rewrite powers_step, S_INR. replace ((INR k + 1) * eps) with (eps + INR k * eps) by ring.
    replace (delta * (1 + exp eps * powers eps k)) with (delta + exp eps * (delta * powers eps k)) by ring.
    now apply close_trans with (run w1); [apply One|].
Qed.
