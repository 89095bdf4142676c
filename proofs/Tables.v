(** Theorem 20 of docs/guarantee.md: a finished table, all of whose rows are read by all that is released.

    How it corresponds. The table is a list of rows, of which one is replaced. Releases follow each other (Releases.v):
    the noisy number of positive rows, draws, noisy counts of what stands, or nothing more. Which comes next, the rate,
    the weights, the delta and the published causes of a draw, the scale of noise and the cells that are counted are
    functions of what was released before: [next], [pub], [delta], [scale], [cells]. A draw is that of CausesDraw.v,
    which has no monitor here, so its costs are 0. The code adds keys and does not drop or replace: a case of it.
    Theorem_20: costs that add up to at most (eps, total) on every path cost that.
    Theorem_20_refusing: no premise on paths, if what would exceed the budget is not made.
    Theorem_20_order: the law is the same for every order of the rows.
    Left out: how the code chooses rates (a function of what was released), and that it passes over the rows anew for
    every draw. A table of users is in Users.v. *)

From Coq Require Import Reals List Lra Lia ZArith Bool Permutation.
From Littlestone Require Import Laws Noise Tree Gate Compare Effect CausesDraw Evidence Releases.
Import ListNotations.
Open Scope R_scope.

Inductive step := CountPositives | DrawMove | CountCells | Stop.

Section Table.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation change := (change pattern outcome).
Notation move := (move pattern outcome).
Notation history := (list (event (V := list Z) (K := change))).
Notation spent := (spent (fun _ : history => false)).

Variable next : history -> step.
Variable pub : history -> public pattern outcome.
Variables delta scale : history -> R.
Variable cells : history -> list (option key * option outcome).

Hypothesis delta_nonneg : forall h, 0 <= delta h.
Hypothesis scale_pos : forall h, 0 < scale h.
Hypothesis distinct : forall h, NoDup (cells h).
Hypothesis public_ok : forall h, proper (pub h).

Definition positive_row (x : row) : option unit := match x with example _ (Some _) => Some tt | _ => None end.

Definition cell_at (h : history) (x : row) : option (option key * option outcome) :=
  cell (effect_of (positive (pub h)) (negative (pub h)) 0 0 (published (pub h)) x).

(** What is released after [h]: [counted] are the rows that counts are about, [law] is that of a draw. *)
Definition release_at (counted : history -> list row) (law : history -> move -> R) (h : history) : release (list Z) change :=
  match next h with
  | CountPositives => Numbers (counts_of positive_row [tt] (scale h) (counted h))
  | DrawMove => Move (law h)
  | CountCells => Numbers (counts_of (cell_at h) (cells h) (scale h) (counted h))
  | Stop => Nothing
  end.

Definition cost (fee : history -> R) (h : history) : R :=
  match next h with CountPositives => 1 / scale h | DrawMove => fee h | CountCells => 2 / scale h | Stop => 0 end.

Definition chance (loss : history -> R) (h : history) : R := match next h with DrawMove => loss h | _ => 0 end.

Lemma release_lawful counted law h : (next h = DrawMove -> is_law (law h)) -> lawful (release_at counted law h).
Proof.
  intros Law. unfold release_at. destruct (next h); simpl; auto; now apply noisy_law, laplace_law.
Qed.

(** A replaced row is one positive row more or less, and leaves one cell for another. *)
Lemma positives_distance (before after : list row) x y :
  (distance (map (number positive_row (before ++ x :: after)) [tt]) (map (number positive_row (before ++ y :: after)) [tt]) <= 1)%Z.
Proof.
  assert (forall u z v, number positive_row (u ++ z :: v) tt = number positive_row (u ++ v) tt + in_cell positive_row tt z)%Z as One.
  { intros u z v. induction u as [|a u IH]; unfold number in *; simpl; lia. }
  simpl. rewrite !One. unfold in_cell. destruct (positive_row x) as [[]|], (positive_row y) as [[]|]; simpl; lia.
Qed.

Lemma release_near counted counted' law law' fee loss h :
  (next h = CountPositives \/ next h = CountCells -> one_row (counted h) (counted' h)) ->
  (next h = DrawMove -> close (fee h) (loss h) (law h) (law' h)) ->
  near (cost fee h) (chance loss h) (release_at counted law h) (release_at counted' law' h).
Proof.
  intros Counts Draws. unfold cost, chance, release_at.
  destruct (next h); simpl near; [|auto| |lra]; destruct Counts as (before & after & x & y & -> & ->); auto.
  - apply (noisy_close (scale h) 1); auto. apply positives_distance.
  - apply (noisy_close (scale h) 2); auto; [now rewrite !map_length|]. apply number_distance, distinct.
Qed.

(** * Rows *)

Variable lowers : list pattern -> key -> bool.

Definition table (rows : list row) : history -> release (list Z) change :=
  release_at (fun _ => rows) (fun h => draw lowers (delta h) (pub h) 0 0 rows).

(** 2 s for a draw whose rate is s for the larger of the two weights. *)
Definition draw_fee (h : history) : R := rate (pub h) * IZR (2 * Z.max (positive (pub h)) (negative (pub h))).

Definition good_rows (rows : list row) : Prop :=
  forall h, Forall (fun x => lists_a_set x /\ within_prior (pub h) x) rows.

Lemma share_le d : 0 <= d -> d / (1 + d) <= d.
Proof.
  intros D. apply (Rmult_le_reg_r (1 + d)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. nra.
Qed.

Lemma table_lawful rows h : lawful (table rows h).
Proof. apply release_lawful. intros _. now apply draw_law. Qed.

Lemma table_near rows rows' h : good_rows rows -> good_rows rows' -> one_row rows rows' ->
  near (cost draw_fee h) (chance delta h) (table rows h) (table rows' h).
Proof.
  intros Good Good' One. apply release_near; auto. intros _. destruct One as (before & after & x & y & -> & ->).
  specialize (Good h). specialize (Good' h).
  destruct (draw_law lowers (delta h) (delta_nonneg h) (pub h) (public_ok h) 0 0 (before ++ y :: after)) as (P & S & _).
  apply close_weaken with (draw_fee h) (delta h / (1 + delta h)); auto; [lra|now apply share_le|].
  apply draw_alone; auto.
  - eapply Forall_impl; [|exact Good]. now intros z [L _]. - eapply Forall_impl; [|exact Good']. now intros z [L _].
  - apply Forall_elt in Good. tauto. - apply Forall_elt in Good'. tauto.
Qed.

Theorem Theorem_20 rows rows' eps total n : good_rows rows -> good_rows rows' -> one_row rows rows' ->
  (forall h, spent (cost draw_fee) h <= eps) -> (forall h, spent (chance delta) h <= total) ->
  is_law (releases (table rows) n) /\ close eps total (releases (table rows) n) (releases (table rows') n).
Proof.
  intros Good Good' One E D. apply releases_close with (cost draw_fee) (chance delta); auto;
    intros h; try apply table_lawful. now apply table_near.
Qed.

Theorem Theorem_20_refusing rows rows' eps total n : good_rows rows -> good_rows rows' -> one_row rows rows' ->
  0 <= eps -> 0 <= total -> let bounded := refusing (cost draw_fee) (chance delta) eps total in
  is_law (releases (bounded (table rows)) n) /\
  close eps total (releases (bounded (table rows)) n) (releases (bounded (table rows')) n).
Proof.
  intros Good Good' One E D bounded. apply refusing_close; auto; intros h; try apply table_lawful. now apply table_near.
Qed.

(** * Order *)

Lemma existsb_permutation {X} (f : X -> bool) u v : Permutation u v -> existsb f u = existsb f v.
Proof. induction 1 as [|x u v _ IH|x y u|u v w _ IH _ IH']; simpl; try congruence. now destruct (f x), (f y). Qed.

Lemma counts_order {Cell} `{EqDec Cell} (cell : row -> option Cell) some s u v : Permutation u v ->
  counts_of cell some s u = counts_of cell some s v.
Proof.
  intros Same. unfold counts_of. f_equal. apply map_ext. intros c. now apply (total_permutation (in_cell cell c)).
Qed.

Theorem Theorem_20_order rows rows' n : Permutation rows rows' ->
  forall l, releases (table rows) n l = releases (table rows') n l.
Proof.
  intros Same. apply releases_same; try apply table_lawful. intros h a. unfold table, release_at.
  rewrite !(counts_order _ _ _ _ _ Same). destruct (next h); trivial. simpl law_of. apply sum_ext. intros m. f_equal.
  apply scored_ext.
  - intros m'. now apply (total_permutation (fun x => moved _ _ 0 0 lowers _ x m')).
  - intros m'. now apply (total_permutation (fun x => support _ _ 0 0 lowers _ x m')).
  - intros k. now apply existsb_permutation.
Qed.

End Table.
