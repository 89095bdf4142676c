(** Theorem 10 of docs/guarantee.md: epochs with the exponential mechanism and a public prior.

    How it corresponds. Rules are drawn from a list; [loss x b] is the number of mistakes of rule [x] on the
    batch [b] of a check. The monitor counts the mistakes of the published rule, a function of the
    transcript. At a firing a rule is drawn with e_h from scores: minus the mistakes of each rule since the
    last firing, minus a [penalty] that is a function of the transcript so far. A replaced round moves the
    mistakes of every rule by at most one. Streams that react, public restarts of the monitor, and any
    number of releases are included (Gates.v). *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Exponential Composition Gates.
Import ListNotations.
Open Scope R_scope.

Section Experts.
Context {Rule Batch : Type} `{EqDec Rule}.
Local Notation History := (list (bool * option Rule)).
Variable rules : list Rule.
Variable loss : Rule -> Batch -> Z.
Variable published : History -> Rule.
Variable penalty : History -> Rule -> R.
Variable theta : History -> Z.
Variable restart : History -> bool.
Variables e_m e_h : R.
Hypothesis some_rule : rules <> [].
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_pos : 0 < e_h.

Definition one_more_or_less (b b' : Batch) := forall x, (Z.abs (loss x b' - loss x b) <= 1)%Z.

Definition score (h : History) (epoch : list Batch) (x : Rule) : R :=
  - lsum (fun b => IZR (loss x b)) epoch - penalty h x.

Definition draw (h : History) (epoch : list Batch) : option Rule -> R :=
  lmap Some (exponential (listed rules) (e_h / (2 * 1)) (score h epoch)).

Definition experts (rows : History -> Batch) (n : nat) : History -> R :=
  mistakes_gate (fun h b => loss (published h) b) draw theta restart (one_sided (INR 1 / e_m)) rows n.

Lemma score_moves h u v x : one_replaced one_more_or_less u v -> Rabs (score h v x - score h u x) <= 1.
Proof.
  intros (pre & b & b' & post & -> & -> & A). unfold score. rewrite !lsum_app. simpl.
  specialize (A x). assert (- 1 <= IZR (loss x b') - IZR (loss x b) <= 1) as B.
  { rewrite <- minus_IZR. split; [apply (IZR_le (- 1))|apply (IZR_le _ 1)]; lia. }
  unfold Rabs. destruct Rcase_abs; lra.
Qed.

Theorem Theorem_10 rows rows' touched n : one_round one_more_or_less rows rows' touched ->
  is_law (experts rows n) /\ close (e_m + e_h) 0 (experts rows n) (experts rows' n).
Proof.
  intros One.
  assert (forall h u, is_law (exponential (listed rules) (e_h / (2 * 1)) (score h u))) as Law.
  { intros h u. apply (Theorem_6_list rules (score h u) (score h u) e_h 1); auto; [lra|].
    intros x. rewrite Rminus_eq_0, Rabs_R0; lra. }
  apply Theorem_7_epochs with one_more_or_less touched; auto; try lra.
  - intros h u. apply lmap_law, Law.
  - intros h u v A. destruct (Law h u) as (P & S & _), (Law h v) as (P' & S' & _).
    apply close_lmap; auto. apply Theorem_6_list; auto; [lra|]. intros x. now apply score_moves.
Qed.
End Experts.
