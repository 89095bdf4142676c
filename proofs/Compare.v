(** Theorems 10 and 17 of docs/guarantee.md: a draw by the losses of rules, and the gate with it.

    How it corresponds. Candidates are rules, and None, which is to stay with the published rule: [compare] draws
    one by the exponential mechanism, its score being minus what it has lost since the last draw (for None, what
    the published rule has lost), minus a public penalty. So it is the draw of private experts with and without
    staying, and a comparison of settling, where None is the published key with its own mistakes and its margin.
    Losses are in units, at most [b] a round: 1 for mistakes, more where false alarms cost less than misses.
    compare_close: the lemma of this draw, for losses that move by [D] units: D = b for one round.
    Theorem_17: the gate with it, on any schedule, for one replaced round: (e + 2s, 0). Theorem_10 is the case
    without staying. Not proved here: that no smaller epsilon will do. *)

From Coq Require Import Reals List Lra Lia ZArith Bool Permutation.
From Littlestone Require Import Laws Noise Transcripts Monitor Tree Exponential Gate.
Import ListNotations.
Open Scope R_scope.

Section Compare.
Context {Rule : Type} `{EqDec Rule}.
Variables (published : Rule) (candidates : list (option Rule)) (penalty : option Rule -> R) (rate : R).

Definition score (lost : Rule -> Z) (m : option Rule) : R :=
  - IZR (lost (match m with Some r => r | None => published end)) - penalty m.

Definition compare (lost : Rule -> Z) : option Rule -> R := exponential (listed candidates) rate (score lost).

Hypothesis some : candidates <> [].
Hypothesis rate_nonneg : 0 <= rate.

Lemma compare_law lost : is_law (compare lost).
Proof. apply exponential_law; [apply listed_nonneg|now apply listed_drawable]. Qed.

Theorem compare_close lost lost' D : (forall r, (Z.abs (lost' r - lost r) <= D)%Z) ->
  close (rate * (2 * IZR D)) 0 (compare lost) (compare lost').
Proof.
  intros Moved. pose proof (compare_law lost') as (P & S & _). apply pure_close; auto.
  replace (2 * IZR D) with (IZR D + IZR D) by ring. apply exponential_ratio; auto.
  - apply listed_nonneg.
  - intros m. unfold score. set (r := match m with Some r => r | None => published end). specialize (Moved r).
    assert (- IZR D <= IZR (lost' r) - IZR (lost r) <= IZR D); [|lra].
    rewrite <- minus_IZR, <- opp_IZR. split; apply IZR_le; lia.
  - now apply listed_drawable.
Qed.
End Compare.

(** * The gate *)

(** One row differs. *)
Definition one_row {Row} (u v : list Row) := exists before after x y, u = before ++ x :: after /\ v = before ++ y :: after.

Section Sums.
Context {Row : Type}.
Variable f : Row -> Z.
Definition total_of (rows : list Row) : Z := fold_right (fun x total => f x + total)%Z 0%Z rows.
Lemma total_cons x u : total_of (x :: u) = (f x + total_of u)%Z.
Proof. reflexivity. Qed.
Lemma total_app u v : total_of (u ++ v) = (total_of u + total_of v)%Z.
Proof. induction u; simpl; lia. Qed.
Lemma total_permutation u v : Permutation u v -> total_of u = total_of v.
Proof. unfold total_of. induction 1; simpl; lia. Qed.
Lemma total_row b u v : (forall x, (0 <= f x <= b)%Z) -> one_row u v -> (Z.abs (total_of v - total_of u) <= b)%Z.
Proof.
  intros B (before & after & x & y & -> & ->). rewrite !total_app. simpl. pose proof (B x). pose proof (B y). lia.
Qed.
Lemma total_concat pre post (u v : list Row) :
  (total_of (concat (pre ++ v :: post)) - total_of (concat (pre ++ u :: post)) = total_of v - total_of u)%Z.
Proof. rewrite !concat_app. simpl. rewrite !total_app. lia. Qed.
End Sums.

Section Stay.
Context {Row Rule : Type} `{EqDec Rule}.
Local Notation history := (list (event (V := unit) (K := Rule))).
Variable loss : Rule -> Row -> Z.
Variable b : Z.
Variables e s : R.
Hypothesis loss_bounds : forall r x, (0 <= loss r x <= b)%Z.
Hypothesis b_pos : (0 < b)%Z.
Hypothesis e_pos : 0 < e.
Hypothesis s_nonneg : 0 <= s.

(** Public: functions of the transcript so far. *)
Variable plan : schedule (V := unit) (K := Rule).
Variable published : history -> Rule.
Variable candidates : history -> list (option Rule).
Variable penalty : history -> option Rule -> R.
Hypothesis some : forall h, candidates h <> [].
Hypothesis scales : forall h, IZR b / e <= scale plan h.

Definition stay_draw (h : history) (u : list (list Row)) : option Rule -> R :=
  compare (published h) (candidates h) (penalty h) (s / IZR b) (fun r => total_of (loss r) (concat u)).

(** There is no evidence. *)
Definition no_counts {V B : Type} (h : V) (u : B) : unit -> R := ret tt.

Definition stay_gate : (history -> list Row) -> nat -> list event -> R :=
  gate plan one_sided (fun h rows => total_of (loss (published h)) rows) no_counts stay_draw.

Lemma b_R : 0 < IZR b.
Proof. now apply (IZR_lt 0). Qed.

Theorem Theorem_17 rows rows' touched n : one_check rows rows' touched ->
  (forall g, touched g = true -> one_row (rows g) (rows' g)) ->
  is_law (stay_gate rows n) /\ close (e + 2 * s) 0 (stay_gate rows n) (stay_gate rows' n).
Proof.
  intros Once Row1. pose proof b_R as B.
  assert (0 <= s / IZR b) as Rate by (apply Rmult_le_pos; auto; left; now apply Rinv_0_lt_compat).
  assert (0 < IZR b / e) as Pos by (apply Rdiv_lt_0_compat; auto).
  apply Gate_event with (touched := touched) (levy := 0) (fee := fun _ => 2 * s); try assumption; try lra.
  - intros sc Sc. now apply Lemma_1_one_sided.
  - intros h u. apply ret_law.
  - intros h u. now apply compare_law.
  - intros h; lra.
  - intros g T _. pose proof (total_row (loss (published g)) b _ _ (loss_bounds _) (Row1 g T)) as Moved.
    apply IZR_le in Moved. pose proof (current_at_least plan _ scales g) as Sc.
    assert (IZR (Z.abs (total_of (loss (published g)) (rows' g) - total_of (loss (published g)) (rows g))) / current plan g
            <= e); [|lra].
    apply (Rmult_le_reg_r (current plan g)); [lra|]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    apply Rle_trans with (e * (IZR b / e)); [|apply Rmult_le_compat_l; lra].
    replace (e * (IZR b / e)) with (IZR b) by (field; lra). exact Moved.
  - intros g h pre post T _ _ _ _. destruct (ret_law tt) as (P & S & _). apply pure_close; auto. apply pure_refl.
  - intros g h pre post T _ _ _ _. unfold stay_draw.
    replace (2 * s) with (s / IZR b * (2 * IZR b)) by (field; lra). apply compare_close; auto.
    intros r. rewrite total_concat. apply total_row; auto.
Qed.
End Stay.

(** Private experts without staying: the published rule is one of those that are drawn from. *)
Corollary Theorem_10 {Row Rule} `{EqDec Rule} (loss : Rule -> Row -> Z) b e s plan published rules penalty
    (rows rows' : list (event (V := unit) (K := Rule)) -> list Row) touched n :
  (forall r x, (0 <= loss r x <= b)%Z) -> (0 < b)%Z -> 0 < e -> 0 <= s -> rules <> [] ->
  (forall h, IZR b / e <= scale plan h) -> one_check rows rows' touched ->
  (forall g, touched g = true -> one_row (rows g) (rows' g)) ->
  let experts := stay_gate loss b s plan published (fun _ => map Some rules) penalty in
  is_law (experts rows n) /\ close (e + 2 * s) 0 (experts rows n) (experts rows' n).
Proof.
  intros L B E S R Sc Once Row1. apply (Theorem_17 loss b e s) with touched; auto.
  intros h. destruct rules; [tauto|discriminate].
Qed.
