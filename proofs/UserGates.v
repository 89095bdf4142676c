(** Theorem 7 of docs/guarantee.md, "Users": MistakesGate where a user has at most [m] rounds in the stream.

    How it corresponds. As Theorem_7_epochs (Gates.v), but along every transcript up to [m] checks are touched, those
    with rounds of the user, and the noise of the monitor has scale m L / e_m. The rounds that a user has in one
    epoch are within the selector's terms together ([select_close]: any of the batches may be replaced), which
    the text asks for as "move one vote". Then the transcript is (e_m + m e_h, m d_h)-DP. A check with several
    rounds of the user counts once here, with mistakes moved by at most [L] in all. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Monitor Composition Gates.
Import ListNotations.
Open Scope R_scope.

(** * The monitor: one touched check after the other *)

Section Many.
Context {A : Type}.
Variables (fired : A -> bool) (p : Z -> R) (theta : list A -> Z) (restart : list A -> bool).
Variables (m m' : list A -> Z) (touched : list A -> bool) (L : nat) (s : R).
Hypothesis s_pos : 0 < s.
Hypothesis p_noise : noise s p.
Hypothesis same : forall h, touched h = false -> m h = m' h.
Hypothesis moved : forall h, (Z.abs (m' h - m h) <= Z.of_nat L)%Z.

(** The touched checks up to the one after [h]. *)
Definition touches (h : list A) : nat := ((if touched h then 1 else 0) + differing (fun g _ => touched g) h)%nat.

Lemma touches_grow later h : (touches h <= touches (later ++ h))%nat.
Proof. induction later as [|a later IH]; simpl; auto. unfold touches at 2; simpl. fold (touches (later ++ h)). lia. Qed.

(** The first [j] touched checks as in world 1, the others as in world 0. *)
Definition between (j : nat) (h : list A) : Z := if (touches h <=? j)%nat then m' h else m h.

Lemma between_near j : neighbours L (between j) (between (S j)) (fun h => touched h && (touches h =? S j)%nat).
Proof.
  split; [|split].
  - intros h T. unfold between. destruct (Nat.leb_spec (touches h) j), (Nat.leb_spec (touches h) (S j)); auto; try lia.
    apply same. destruct (touched h); auto. apply andb_false_iff in T. destruct T as [|T]; [discriminate|].
    apply Nat.eqb_neq in T. lia.
  - intros h. specialize (moved h). unfold between.
    destruct (Nat.leb_spec (touches h) j), (Nat.leb_spec (touches h) (S j)); lia.
  - intros h [|a later] T T'; auto. exfalso. apply andb_true_iff in T, T'. destruct T as [_ E], T' as [T' E'].
    apply Nat.eqb_eq in E, E'. pose proof (touches_grow later h) as G.
    change ((a :: later) ++ h) with (a :: (later ++ h)) in *. unfold touches in E' at 1. rewrite T' in E'.
    simpl in E'. fold (touches (later ++ h)) in E'. lia.
Qed.

Lemma fresh_ext (n n' : list A -> Z) l : (forall h, n h = n' h) ->
  fresh fired p p theta restart n [] l = fresh fired p p theta restart n' [] l.
Proof.
  intros E. destruct p_noise as [Lp Up].
  apply (fresh_equal fired p p theta restart n n' (fun _ => false) 0); [|intros later; reflexivity].
  split; [auto|split; [|discriminate]]. intros h; rewrite E; lia.
Qed.

Theorem monitor_many k l : (forall h, (touches h <= k)%nat) ->
  fresh fired p p theta restart m [] l <= exp (INR k * (INR L / s)) * fresh fired p p theta restart m' [] l.
Proof.
  intros K. destruct p_noise as [Lp Up].
  assert (forall j, fresh fired p p theta restart (between 0) [] l <=
                    exp (INR j * (INR L / s)) * fresh fired p p theta restart (between j) [] l) as Ch.
  { induction j as [|j IH]; [simpl; rewrite Rmult_0_l, exp_0; lra|].
    eapply Rle_trans; [apply IH|]. rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus, Rmult_assoc.
    apply Rmult_le_compat_l; [apply exp_pos_le|].
    apply (monitor_given_keys fired p p theta restart Lp Lp _ _ _ L s s_pos Up Up (between_near j)). }
  rewrite (fresh_ext m (between 0)).
  - rewrite (fresh_ext m' (between k)); auto. intros h. unfold between. destruct (Nat.leb_spec (touches h) k); auto.
    specialize (K h); lia.
  - intros h. unfold between. destruct (Nat.leb_spec (touches h) 0); auto. apply same.
    unfold touches in *. destruct (touched h); auto; lia.
Qed.
End Many.

(** * The gate *)

Section User.
Context {Key Batch : Type} `{EqDec Key}.
Local Notation History := (list (bool * option Key)).
Variable mistakes : History -> Batch -> Z.
Variable select : History -> list Batch -> option Key -> R.
Variable adjacent : Batch -> Batch -> Prop.
Variable theta : History -> Z.
Variable restart : History -> bool.
Variables (L m : nat) (e_m e_h d_h : R).
Hypothesis L_pos : (0 < L)%nat.
Hypothesis m_pos : (0 < m)%nat.
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis select_law : forall h u, is_law (select h u).
Hypothesis mistakes_move : forall h b b', adjacent b b' -> (Z.abs (mistakes h b' - mistakes h b) <= Z.of_nat L)%Z.

Definition some_replaced := Forall2 (fun b b' => b = b' \/ adjacent b b').
Hypothesis select_close : forall h u v, some_replaced u v -> close e_h d_h (select h u) (select h v).

Definition one_user (rows rows' : History -> Batch) (touched : History -> bool) :=
  (forall h, touched h = false -> rows h = rows' h) /\
  (forall h, touched h = true -> adjacent (rows h) (rows' h)) /\
  (forall h, (touches touched h <= m)%nat).

Lemma since_user rows rows' touched : one_user rows rows' touched -> forall h,
  some_replaced (since rows h) (since rows' h) /\
  (reads touched h = false -> since rows h = since rows' h).
Proof.
  intros (Same & Adj & _).
  assert (forall h, rows h = rows' h \/ adjacent (rows h) (rows' h)) as Each.
  { intros h. destruct (touched h) eqn:T; auto. }
  induction h as [|[b x] h [IH IE]]; simpl; split; unfold some_replaced.
  - constructor; auto.
  - intros T. apply orb_false_iff in T. now rewrite (Same [] (proj1 T)).
  - constructor; [auto|]. destruct b; [constructor|exact IH].
  - intros T. apply orb_false_iff in T. destruct T as [T R]. rewrite (Same _ T). destruct b; auto. now rewrite IE.
Qed.

Theorem Theorem_7_users rows rows' touched n : one_user rows rows' touched ->
  let gate rows := mistakes_gate mistakes select theta restart (one_sided (INR m * INR L / e_m)) rows n in
  is_law (gate rows) /\ close (e_m + INR m * e_h) (INR m * d_h) (gate rows) (gate rows').
Proof.
  intros One. pose proof One as (Same & Adj & Most).
  assert (0 < INR L) by now apply lt_0_INR. assert (0 < INR m) by now apply lt_0_INR.
  assert (0 < INR m * INR L / e_m) as S.
  { apply Rmult_lt_0_compat; [now apply Rmult_lt_0_compat|now apply Rinv_0_lt_compat]. }
  destruct (Lemma_1_one_sided _ S) as [Lp Up].
  assert (forall rows h b, is_law (select_at select rows h b)) as Law.
  { intros r h [|]; [apply select_law|apply ret_law]. }
  split; [apply gate_law; [now apply answers_of_ok|auto]|].
  apply Theorem_7 with (selected touched); auto; try (now apply answers_of_ok).
  - intros h. unfold answers_of.
    assert (INR m * (INR L / (INR m * INR L / e_m)) = e_m) as Scale by (field; repeat split; lra).
    set (s := INR m * INR L / e_m) in *. rewrite <- Scale.
    apply monitor_many with touched; auto; [now split| |].
    + intros g T. now rewrite (Same g T).
    + intros g. destruct (touched g) eqn:T; [now apply mistakes_move, Adj|]. rewrite (Same g T). lia.
  - intros h [|] x D; auto. unfold selected in D; simpl in D. unfold select_at.
    destruct (since_user rows rows' touched One h) as [_ E]. now rewrite (E D).
  - intros h [|] D; [|discriminate]. apply select_close. now apply (since_user rows rows' touched).
  - intros h. pose proof (selected_le_touched touched h). specialize (Most h). unfold touches in Most. lia.
Qed.
End User.
