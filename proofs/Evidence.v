(** Theorem 16 of docs/guarantee.md, evidence: counts over disjoint windows, with discrete Laplace noise.

    How it corresponds. A row is counted in at most one cell, a function of the row and of what is public ([cell]; for
    causes that of Effect.v); [counts_of] are the numbers of the cells of a list, each released with its own noise of
    scale 2/e_v or more. counts_close: a replaced row leaves one cell and enters another, which costs e_v. That a row
    is in one window, and what the counts cost beside monitor and draw, is the gate's theorem ([levy], Gate.v). *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts.
Import ListNotations.
Open Scope R_scope.

(** Noise on each of a list of numbers. *)
Definition around (p : Z -> R) (n z : Z) : R := p (z - n)%Z.

Fixpoint noisy (p : Z -> R) (ns : list Z) : list Z -> R :=
  match ns with [] => ret [] | n :: rest => next (around p n) (fun _ => noisy p rest) end.

Lemma around_law p n : is_law p -> is_law (around p n).
Proof.
  intros (P & S & E). assert (nonneg (around p n)) as P' by (intros z; apply P).
  destruct (sum_shift p (- n) P) as [Sh Eq]. split; auto. split; [now apply Sh|]. now rewrite <- E, Eq.
Qed.

Lemma noisy_law p ns : is_law p -> is_law (noisy p ns).
Proof. intros L; induction ns; simpl; [apply ret_law|]. apply next_law; auto. now apply around_law. Qed.

Fixpoint distance (ns ms : list Z) : Z :=
  match ns, ms with n :: ns', m :: ms' => (Z.abs (m - n) + distance ns' ms')%Z | _, _ => 0%Z end.

Lemma around_ratio s n m : 0 < s -> pure (IZR (Z.abs (m - n)) / s) (around (laplace s) n) (around (laplace s) m).
Proof.
  intros S. assert (forall d k, laplace s k <= exp (IZR (Z.abs d) / s) * laplace s (k + d)%Z) as Move.
  { intros d k. assert (IZR (Z.abs d) = INR (Z.abs_nat d)) as -> by (now rewrite INR_IZR_INZ, Zabs2Nat.id_abs).
    destruct (Z.leb_spec 0 d).
    - replace d with (Z.of_nat (Z.abs_nat d)) at 2 by lia. apply U_by; auto. now apply laplace_U.
    - assert (forall x, laplace s (- x) = laplace s x) as Sym
        by (intros x; unfold laplace; now replace (Z.abs_nat (- x)) with (Z.abs_nat x) by lia).
      rewrite <- (Sym k), <- (Sym (k + d)%Z). replace (- (k + d))%Z with (- k + Z.of_nat (Z.abs_nat d))%Z by lia.
      apply U_by; auto. now apply laplace_U. }
  intros z. unfold around. specialize (Move (n - m)%Z (z - n)%Z). replace (z - n + (n - m))%Z with (z - m)%Z in Move by lia.
  replace (Z.abs (m - n)) with (Z.abs (n - m)) by lia. exact Move.
Qed.

(** Numbers that differ by [distance] in all. *)
Lemma noisy_ratio s ns ms : 0 < s -> length ns = length ms ->
  pure (IZR (distance ns ms) / s) (noisy (laplace s) ns) (noisy (laplace s) ms).
Proof.
  intros S. pose proof (laplace_law s S) as L.
  revert ms. induction ns as [|n ns IH]; intros [|m ms] Len; try discriminate; simpl.
  - unfold Rdiv. rewrite Rmult_0_l. apply pure_refl.
  - intros [|z zs].
    + rewrite !next_nil; [lra| |]; intros; apply noisy_law; auto.
    + rewrite !next_cons; try (intros; apply noisy_law; auto); try (apply around_law; auto).
      assert (IZR (Z.abs (m - n) + distance ns ms) / s = IZR (Z.abs (m - n)) / s + IZR (distance ns ms) / s) as ->
        by (rewrite plus_IZR; field; lra).
      rewrite exp_plus.
      replace (exp (IZR (Z.abs (m - n)) / s) * exp (IZR (distance ns ms) / s) * (around (laplace s) m z * noisy (laplace s) ms zs))
        with ((exp (IZR (Z.abs (m - n)) / s) * around (laplace s) m z) * (exp (IZR (distance ns ms) / s) * noisy (laplace s) ms zs))
        by ring.
      apply Rmult_le_compat; [apply around_law; auto|apply noisy_law; auto| |apply IH; auto].
      now apply around_ratio.
Qed.

Lemma noisy_close s D ns ms : 0 < s -> length ns = length ms -> (distance ns ms <= D)%Z ->
  is_law (noisy (laplace s) ns) /\ close (IZR D / s) 0 (noisy (laplace s) ns) (noisy (laplace s) ms).
Proof.
  intros S Len Le. pose proof (laplace_law s S) as L. split; [now apply noisy_law|].
  destruct (noisy_law (laplace s) ms L) as (P & Sm & _). apply pure_close; auto.
  eapply pure_weaken; auto; [|now apply noisy_ratio]. apply IZR_le in Le.
  apply Rmult_le_compat_r; auto. left; now apply Rinv_0_lt_compat.
Qed.

(** Noise of scale D/e or more costs at most e where numbers move by D. *)
Lemma cost_at_scale D e s : 0 < e -> 0 < D -> D / e <= s -> 0 < s /\ D / s <= e.
Proof.
  intros E P S. assert (0 < D / e) by now apply Rdiv_lt_0_compat. split; [lra|].
  apply (Rmult_le_reg_r s); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rle_trans with (e * (D / e)); [right; field; lra|]. apply Rmult_le_compat_l; lra.
Qed.

Section Counts.
Context {Row Cell : Type} `{EqDec Cell}.
Variable cell : Row -> option Cell.
Variable cells : list Cell.

Definition in_cell (c : Cell) (x : Row) : Z :=
  match cell x with Some d => if eq_dec d c then 1%Z else 0%Z | None => 0%Z end.

Definition number (rows : list Row) (c : Cell) : Z := fold_right (fun x total => in_cell c x + total)%Z 0%Z rows.

Definition counts_of (s : R) (rows : list Row) : list Z -> R := noisy (laplace s) (map (number rows) cells).

Hypothesis distinct : NoDup cells.

(** A replaced row leaves a cell and enters another. *)
Lemma number_distance before after x y :
  (distance (map (number (before ++ x :: after)) cells) (map (number (before ++ y :: after)) cells) <= 2)%Z.
Proof.
  assert (forall c, number (before ++ y :: after) c - number (before ++ x :: after) c = in_cell c y - in_cell c x)%Z as Move.
  { intros c. induction before as [|z before IH]; unfold number in *; simpl; lia. }
  assert (forall z l, NoDup l -> (0 <= fold_right (fun c t => in_cell c z + t)%Z 0%Z l <= 1)%Z) as One.
  { intros z l N. induction N as [|c l No N IH]; simpl; [lia|].
    unfold in_cell at 1 3. destruct (cell z) as [d|] eqn:E; [|lia]. destruct (eq_dec d c) as [->|]; [|lia].
    assert (fold_right (fun c t => in_cell c z + t)%Z 0%Z l = 0)%Z; [|lia].
    clear - No E. induction l as [|c' l IH]; simpl; auto. rewrite IH by (simpl in No; tauto).
    unfold in_cell. rewrite E. destruct (eq_dec c c') as [->|]; [simpl in No; tauto|reflexivity]. }
  assert (forall l, distance (map (number (before ++ x :: after)) l) (map (number (before ++ y :: after)) l)
    <= fold_right (fun c t => in_cell c x + t)%Z 0%Z l + fold_right (fun c t => in_cell c y + t)%Z 0%Z l)%Z as Le.
  { assert (forall c z, 0 <= in_cell c z)%Z as P.
    { intros c z. unfold in_cell. destruct (cell z); [destruct (eq_dec _ _)|]; lia. }
    induction l as [|c l IH]; simpl; [lia|]. rewrite Move. pose proof (P c x). pose proof (P c y). lia. }
  pose proof (Le cells). pose proof (One x cells distinct). pose proof (One y cells distinct). lia.
Qed.

Theorem counts_close e s before after x y : 0 < e -> 2 / e <= s ->
  is_law (counts_of s (before ++ x :: after)) /\
  close e 0 (counts_of s (before ++ x :: after)) (counts_of s (before ++ y :: after)).
Proof.
  intros E S. destruct (cost_at_scale 2 e s) as [Sp Le]; [lra..|].
  pose proof (laplace_law s Sp) as L. destruct (noisy_law _ (map (number (before ++ y :: after)) cells) L) as (P & Sm & _).
  destruct (noisy_close s 2 (map (number (before ++ x :: after)) cells) (map (number (before ++ y :: after)) cells))
    as [Law C]; auto; [now rewrite !map_length|apply number_distance|].
  split; [exact Law|]. now apply close_weaken with (2 / s) 0; auto; lra.
Qed.
End Counts.
