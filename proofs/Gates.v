(** Theorem 7 of docs/guarantee.md: gates, with deltas along the tree of transcripts; and two of the gates
    that it names, MistakesGate (with what SettlingGate adds) and HistSparse.

    How it corresponds. A step of the transcript is (fired, key): whether the monitor fired at a check, and
    the key that was released, or None. Transcripts are newest first; [transcripts answers (step sel) n] is
    the law of those of [n] checks (Composition.v): the probability [answers h] of the monitor's answers
    given the keys, times the laws [sel h b] of the keys given what came before. Everything may depend on
    the transcript, so streams react. Theorem_7 is the statement there, for any [k].
    Theorem_7_epochs: MistakesGate. [rows h] is the batch of rounds of the check after [h]; its mistakes
    are those of the published rule, a function of the history, and the ballot is made of the batches since
    the last firing ([since]). At most one check along every transcript has a replaced round. Which
    selection is made, and from which public state, may depend on the history: so searches and
    comparisons of SettlingGate are the case of a [select] that reads it. Public restarts of the monitor
    are included. That the selection itself is (e_h, d_h)-DP is a hypothesis here (Theorems 4, 5 and 6).
    Theorem_7_hist_sparse: HistSparse. UserGates.v has MistakesGate per user. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts SparseVector Monitor Composition.
Import ListNotations.
Open Scope R_scope.

Section Gate.
Context {Key : Type} `{EqDec Key}.
Local Notation Step := (bool * option Key)%type.

(** The probabilities of a monitor's answers given the keys: an answer is given before its key is drawn,
    so it does not depend on that key; and it is yes or no. *)
Definition monitor_answers (w : list Step -> R) :=
  nonneg w /\ w [] = 1 /\
  (forall h b x y, w ((b, x) :: h) = w ((b, y) :: h)) /\
  (forall h x y, w ((true, x) :: h) + w ((false, y) :: h) = w h).

Definition step (sel : list Step -> bool -> option Key -> R) (h : list Step) (a : Step) : R := sel h (fst a) (snd a).

(** Summing over a step: the two answers, and for each the keys. *)
Lemma sum_answers (f : Step -> R) : nonneg f -> (forall b, summable (fun x => f (b, x))) ->
  summable f /\ sum f = sum (fun x => f (true, x)) + sum (fun x => f (false, x)).
Proof.
  intros P S.
  assert (nonneg (fun b => sum (fun x => f (b, x)))) as N by (intros b; apply sum_nonneg, S).
  destruct (sum_finite (fun b => sum (fun x => f (b, x))) [true; false]) as [S2 E]; auto.
  - repeat constructor; simpl; intuition discriminate.
  - intros [] B; simpl in B; tauto.
  - destruct (sum_pair f) as [Sf ->]; auto; [now split|]. split; auto. rewrite E; simpl; ring.
Qed.

Section Two_worlds.
Variables answers answers' : list Step -> R.
Variables sel sel' : list Step -> bool -> option Key -> R.
Variable differ : list Step -> bool -> bool.
Variables (k : nat) (e_m e_h d_h : R).
Hypothesis answers_ok : monitor_answers answers.
Hypothesis answers'_ok : monitor_answers answers'.
Hypothesis sel_law : forall h b, is_law (sel h b).
Hypothesis sel'_law : forall h b, is_law (sel' h b).
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.

(** The monitor: for every transcript, the answers given the keys. *)
Hypothesis monitor_ratio : forall h, answers h <= exp e_m * answers' h.
(** The selections: equal, or (e_h, d_h)-close; at most [k] of the second kind on every transcript. *)
Hypothesis agree : forall h b x, differ h b = false -> sel h b x = sel' h b x.
Hypothesis selector : forall h b, differ h b = true -> close e_h d_h (sel h b) (sel' h b).
Hypothesis at_most_k : forall h, (differing (fun g a => differ g (fst a)) h <= k)%nat.

Lemma gate_node (w : list Step -> R) (s : list Step -> bool -> option Key -> R) : monitor_answers w ->
  (forall h b, is_law (s h b)) -> forall g,
  summable (fun a => w (a :: g) * step s g a) /\ sum (fun a => w (a :: g) * step s g a) = w g.
Proof.
  intros (P & _ & Same & Total) L g.
  assert (forall b x, w ((b, x) :: g) * step s g (b, x) = w ((b, None) :: g) * s g b x) as E.
  { intros b x. rewrite (Same g b x None). reflexivity. }
  assert (forall b, summable (fun x => w ((b, x) :: g) * step s g (b, x)) /\
                    sum (fun x => w ((b, x) :: g) * step s g (b, x)) = w ((b, None) :: g)) as B.
  { intros b. destruct (L g b) as (_ & S & One). split.
    - eapply summable_ext; [intros; symmetry; apply E|]. apply summable_scal; auto.
    - rewrite (sum_ext _ _ (E b)), sum_scal, One; auto. ring. }
  destruct (sum_answers (fun a => w (a :: g) * step s g a)) as [S Eq].
  - intros a. apply Rmult_le_pos; auto. apply L.
  - intros b; apply B.
  - split; auto. rewrite Eq. destruct (B true) as [_ ->], (B false) as [_ ->]. apply Total.
Qed.

Theorem gate_law w s n : monitor_answers w -> (forall h b, is_law (s h b)) -> is_law (transcripts w (step s) n).
Proof.
  intros W L. pose proof W as (P & W0 & _). apply transcripts_law; auto.
  - intros h a; apply L. - now apply gate_node.
Qed.

Theorem Theorem_7 n : close (e_m + INR k * e_h) (INR k * d_h)
  (transcripts answers (step sel) n) (transcripts answers' (step sel') n).
Proof.
  pose proof answers_ok as (P & W0 & Same & Total). pose proof answers'_ok as (P' & _).
  apply tree_of_transcripts with (fun g a => differ g (fst a)); auto.
  - rewrite W0; lra.
  - intros h a; apply sel_law.
  - intros h a; apply sel'_law.
  - intros h [b x] D; now apply agree.
  - intros g x y X Y.
    set (differ_at := fun (h : list Step) (a : Step) => differ h (fst a)).
    set (left := fun b => (k - ((if differ g b then 1 else 0) + differing differ_at g))%nat).
    set (delta := fun b => if differ g b then 1 else 0).
    set (c := fun b z => common (step sel) (step sel') differ_at e_h g (b, z)).
    assert (forall b, INR (left b) + delta b = INR (k - differing differ_at g)) as Budget.
    { intros b; unfold left, delta. destruct (differ g b) eqn:D; [|simpl; rewrite Rplus_0_r; f_equal; lia].
      pose proof (at_most_k ((b, None) :: g)) as M. simpl in M. rewrite D in M. fold differ_at in M.
      rewrite <- S_INR. f_equal. lia. }
    assert (forall b, let f := fun z => sel g b z * x + (sel g b z - c b z) * y + INR (left b) * d_h * (c b z * y) in
              summable f /\ sum f <= x + (INR (left b) + delta b) * d_h * y) as Node.
    { intros b. apply one_node; auto; [now apply law_sub| |apply pos_INR|].
      - intros z. apply (common_bounds (step sel) (step sel')); [intros h a; apply sel_law|intros h a; apply sel'_law].
      - unfold c, common, differ_at, delta; simpl. destruct (differ g b) eqn:D.
        + rewrite Rmult_1_l. apply (excess_mass e_h d_h (sel g b) (sel' g b)); auto; now apply law_sub.
        + assert (forall z, 0 = sel g b z - step sel g (b, z)) as Z by (intros; unfold step; simpl; ring). split.
          * eapply summable_ext; [apply Z|apply summable_zero].
          * rewrite <- (sum_ext _ _ Z), sum_zero; lra. }
    set (l := loss answers (step sel) (step sel') differ_at k e_h d_h g x y).
    assert (forall b z, answers ((b, None) :: g) *
              (sel g b z * x + (sel g b z - c b z) * y + INR (left b) * d_h * (c b z * y)) = l (b, z)) as E.
    { intros b z. unfold l, loss. rewrite (Same g b z None). reflexivity. }
    assert (forall b, summable (fun z => l (b, z)) /\
              sum (fun z => l (b, z)) <=
              answers ((b, None) :: g) * (x + INR (k - differing differ_at g) * d_h * y)) as B.
    { intros b. destruct (Node b) as [S Bd]. split.
      - eapply summable_ext; [apply E|]. now apply summable_scal.
      - rewrite <- (sum_ext _ _ (E b)), sum_scal; auto. apply Rmult_le_compat_l; auto.
        rewrite <- (Budget b). exact Bd. }
    destruct (sum_answers l) as [S Eq].
    + intros [b z]. rewrite <- E. apply Rmult_le_pos; auto.
      assert (0 <= c b z <= sel g b z) as Cz.
      { apply (common_bounds (step sel) (step sel')); [intros h a; apply sel_law|intros h a; apply sel'_law]. }
      assert (0 <= sel g b z * x) by (apply Rmult_le_pos; lra).
      assert (0 <= (sel g b z - c b z) * y) by (apply Rmult_le_pos; lra).
      assert (0 <= INR (left b) * d_h * (c b z * y)); [|lra].
      apply Rmult_le_pos; [apply Rmult_le_pos; auto; apply pos_INR|apply Rmult_le_pos; lra].
    + intros b; apply B.
    + split; auto. fold l. rewrite Eq. fold differ_at. rewrite <- (Total g None None), Rmult_plus_distr_r.
      apply Rplus_le_compat; apply B.
  - destruct (gate_law answers' sel' n) as (_ & S & _); auto.
Qed.
End Two_worlds.

(** * MistakesGate: epochs of a monitor, and one selection at each firing *)

Section Epochs.
Context {Batch : Type}.
Variable mistakes : list Step -> Batch -> Z.
Variable select : list Step -> list Batch -> option Key -> R.
Variable adjacent : Batch -> Batch -> Prop.
Variable theta : list Step -> Z.
Variable restart : list Step -> bool.
Variables (L : nat) (e_m e_h d_h : R).

(** What the ballot of a firing after [h] is made of: the batches since the last firing. *)
Fixpoint since (rows : list Step -> Batch) (h : list Step) : list Batch :=
  rows h :: match h with [] => [] | (b, _) :: g => if b then [] else since rows g end.

(** A selection at a firing, and no key otherwise. *)
Definition select_at (rows : list Step -> Batch) (h : list Step) (b : bool) : option Key -> R :=
  if b then select h (since rows h) else ret None.

Definition answers_of (p : Z -> R) (rows : list Step -> Batch) (h : list Step) : R :=
  fresh fst p p theta restart (fun g => mistakes g (rows g)) [] (rev h).

(** The transcript of [n] checks. *)
Definition mistakes_gate (p : Z -> R) (rows : list Step -> Batch) (n : nat) : list Step -> R :=
  transcripts (answers_of p rows) (step (select_at rows)) n.

Definition one_replaced (u v : list Batch) := exists pre b b' post,
  u = pre ++ b :: post /\ v = pre ++ b' :: post /\ adjacent b b'.

Definition one_round (rows rows' : list Step -> Batch) (touched : list Step -> bool) :=
  (forall h, touched h = false -> rows h = rows' h) /\
  (forall h, touched h = true -> adjacent (rows h) (rows' h)) /\
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []).

Hypothesis L_pos : (0 < L)%nat.
Hypothesis e_m_pos : 0 < e_m.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis select_law : forall h u, is_law (select h u).
(** A replaced round moves the mistakes of its check by at most [L], and the selection is
    (e_h, d_h)-DP with respect to it. *)
Hypothesis mistakes_move : forall h b b', adjacent b b' -> (Z.abs (mistakes h b' - mistakes h b) <= Z.of_nat L)%Z.
Hypothesis select_close : forall h u v, one_replaced u v -> close e_h d_h (select h u) (select h v).

Lemma answers_of_ok p rows : is_law p -> monitor_answers (answers_of p rows).
Proof.
  intros Lp. unfold answers_of. repeat split.
  - intros h. now apply fresh_bounds.
  - now apply fresh_nil.
  - intros h b x y; simpl. now apply fresh_last.
  - intros h x y; simpl. now apply fresh_total.
Qed.

(** Whether the selection at a firing after [h] reads the touched check. *)
Fixpoint reads (touched : list Step -> bool) (h : list Step) : bool :=
  touched h || match h with [] => false | (b, _) :: g => if b then false else reads touched g end.

Lemma since_equal rows rows' (touched : list Step -> bool) : (forall h, touched h = false -> rows h = rows' h) ->
  forall h, (forall g later, h = later ++ g -> touched g = false) -> since rows h = since rows' h.
Proof.
  intros Same; induction h as [|[b x] h IH]; intros C; simpl; rewrite (Same _ (C _ [] eq_refl)); auto.
  assert (since rows h = since rows' h); [|destruct b; congruence].
  apply IH. intros g later E. apply (C g ((b, x) :: later)). now rewrite E.
Qed.

Lemma since_reads rows rows' touched : one_round rows rows' touched -> forall h,
  if reads touched h then one_replaced (since rows h) (since rows' h) else since rows h = since rows' h.
Proof.
  intros (Same & Adj & Once). induction h as [|[b x] h IH]; simpl.
  - destruct (touched []) eqn:T; simpl; [|now rewrite (Same [] T)].
    exists [], (rows []), (rows' []), []. auto.
  - destruct (touched ((b, x) :: h)) eqn:T; simpl.
    + exists [], (rows ((b, x) :: h)), (rows' ((b, x) :: h)), (if b then [] else since rows h). split; [auto|].
      split; [|auto]. simpl. f_equal. destruct b; auto. symmetry. apply since_equal with touched; auto.
      intros g later E. destruct (touched g) eqn:Tg; auto. exfalso. rewrite E in T.
      specialize (Once g ((false, x) :: later) Tg T). discriminate.
    + rewrite (Same _ T). destruct b; auto. destruct (reads touched h).
      * destruct IH as (pre & u & v & post & -> & -> & A). exists (rows' ((false, x) :: h) :: pre), u, v, post. auto.
      * now rewrite IH.
Qed.

(** A round is read by one selection at most, the one that ends its epoch. *)
Definition selected (touched : list Step -> bool) (h : list Step) (b : bool) : bool := b && reads touched h.

Lemma selected_le_touched touched h :
  (differing (fun g a => selected touched g (fst a)) h <= differing (fun g _ => touched g) h)%nat.
Proof.
  clear - touched h.
  (* What was touched before [h], and is still to be selected. *)
  set (pending := fun h : list Step =>
    match h with [] => false | (b, _) :: g => if b then false else reads touched g end).
  assert (forall h, reads touched h = touched h || pending h) as Rd by (intros [|[b x] g]; reflexivity).
  assert (differing (fun g a => selected touched g (fst a)) h + (if pending h then 1 else 0) <=
          differing (fun g _ => touched g) h)%nat as Le; [|lia].
  induction h as [|[b x] h IH]; simpl; auto. unfold selected at 1; simpl. rewrite Rd.
  destruct (touched h), b, (pending h); simpl; lia.
Qed.

Lemma read_once touched : (forall h later, touched h = true -> touched (later ++ h) = true -> later = []) ->
  forall h, (differing (fun g a => selected touched g (fst a)) h <= 1)%nat.
Proof.
  intros Once h. pose proof (selected_le_touched touched h).
  destruct (once_counts touched Once h) as [Z|[Z _]]; lia.
Qed.

(** The epochs gate: (e_m + e_h, d_h) for any number of releases, and any noise with property (U). *)
Theorem epochs_gate p rows rows' touched n : noise (INR L / e_m) p -> one_round rows rows' touched ->
  close (e_m + e_h) d_h (mistakes_gate p rows n) (mistakes_gate p rows' n).
Proof.
  intros [Lp Up] One. pose proof One as (Same & Adj & Once).
  rewrite <- (Rmult_1_l e_h), <- (Rmult_1_l d_h). change 1 with (INR 1).
  apply Theorem_7 with (selected touched); auto; try (now apply answers_of_ok).
  - intros h [|]; [apply select_law|apply ret_law].
  - intros h [|]; [apply select_law|apply ret_law].
  - intros h. unfold answers_of.
    assert (0 < INR L) by now apply lt_0_INR.
    replace e_m with (INR L / (INR L / e_m)) at 1 by (field; split; lra).
    apply monitor_given_keys with touched; auto.
    + apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
    + split; [|split; auto].
      * intros g T. now rewrite (Same g T).
      * intros g. destruct (touched g) eqn:T; [now apply mistakes_move, Adj|]. rewrite (Same g T). lia.
  - intros h [|] x D; auto. unfold selected in D; simpl in D. unfold select_at.
    pose proof (since_reads rows rows' touched One h) as E. rewrite D in E. now rewrite E.
  - intros h [|] D; [|discriminate]. unfold selected in D; simpl in D. unfold select_at.
    pose proof (since_reads rows rows' touched One h) as E. rewrite D in E. now apply select_close.
  - now apply read_once.
Qed.

(** With the noise that the code draws: one-sided, of scale L/e_m. It is a law over transcripts. *)
Theorem Theorem_7_epochs rows rows' touched n : one_round rows rows' touched ->
  let gate rows := mistakes_gate (one_sided (INR L / e_m)) rows n in
  is_law (gate rows) /\ close (e_m + e_h) d_h (gate rows) (gate rows').
Proof.
  intros One. assert (0 < INR L) by now apply lt_0_INR.
  assert (0 < INR L / e_m) as S by (apply Rmult_lt_0_compat; auto; now apply Rinv_0_lt_compat).
  pose proof (Lemma_1_one_sided _ S) as N. split.
  - apply gate_law; [apply answers_of_ok, N|]. intros h [|]; [apply select_law|apply ret_law].
  - now apply epochs_gate with touched.
Qed.
End Epochs.

(** * HistSparse: sparse vector, and a selection at each of its c firings *)

Section Hist_sparse.
Variables (q q' theta : list Step -> Z) (sel sel' : list Step -> option Key -> R).
Variables (c : nat) (e1 e2 e_h d_h : R).
Hypothesis c_pos : (0 < c)%nat.
Hypothesis e1_pos : 0 < e1.
Hypothesis e2_pos : 0 < e2.
Hypothesis e_h_nonneg : 0 <= e_h.
Hypothesis d_h_nonneg : 0 <= d_h.
Hypothesis sel_law : forall h, is_law (sel h).
Hypothesis sel'_law : forall h, is_law (sel' h).
(** A moved vote moves the lost votes by one, and every ballot by one vote. *)
Hypothesis lost_votes : forall h, (Z.abs (q h - q' h) <= 1)%Z.
Hypothesis ballots : forall h, close e_h d_h (sel h) (sel' h).

Fixpoint firings (h : list Step) : nat :=
  match h with [] => 0 | (b, _) :: g => ((if b then 1 else 0) + firings g)%nat end.

(** After the c-th firing there is none, so no key either. *)
Definition selects (h : list Step) (b : bool) : bool := b && (firings h <? c)%nat.
Definition key_law (sel : list Step -> option Key -> R) (h : list Step) (b : bool) : option Key -> R :=
  if selects h b then sel h else ret None.

Definition hist_sparse (q : list Step -> Z) (sel : list Step -> option Key -> R) (n : nat) : list Step -> R :=
  transcripts (fun h => sv_weight fst (laplace (1 / e1)) (laplace (2 * INR c / e2)) theta c q (rev h))
              (step (key_law sel)) n.

Theorem Theorem_7_hist_sparse n :
  is_law (hist_sparse q sel n) /\
  close (e1 + e2 + INR c * e_h) (INR c * d_h) (hist_sparse q sel n) (hist_sparse q' sel' n).
Proof.
  assert (0 < INR c) by now apply lt_0_INR.
  assert (0 < 1 / e1) as S1 by (apply Rmult_lt_0_compat; [lra|now apply Rinv_0_lt_compat]).
  assert (0 < 2 * INR c / e2) as S2 by (apply Rmult_lt_0_compat; [lra|now apply Rinv_0_lt_compat]).
  destruct (Lemma_1_laplace _ S1) as [L1 U1], (Lemma_1_laplace _ S2) as [L2 U2].
  assert (forall q : list Step -> Z, monitor_answers
            (fun h => sv_weight fst (laplace (1 / e1)) (laplace (2 * INR c / e2)) theta c q (rev h))) as Ok.
  { intros q0. repeat split.
    - intros h. apply sum_nonneg. now apply given_summable.
    - now apply sv_nil.
    - intros h b x y; simpl. now apply sv_last.
    - intros h x y; simpl. now apply sv_total. }
  assert (forall s h b, (forall h, is_law (s h)) -> is_law (key_law s h b)) as Law.
  { intros s h b Ls. unfold key_law. destruct (selects h b); [apply Ls|apply ret_law]. }
  split; [apply gate_law; auto|].
  apply Theorem_7 with selects; auto.
  - intros h. apply (sparse_vector_given_keys fst _ _ theta L1 L2 q q' 1 c e1 e2); auto.
    replace (2 * INR c * INR 1 / e2) with (2 * INR c / e2) by (simpl; field; lra). auto.
  - intros h b x D. unfold key_law. now rewrite D.
  - intros h b D. unfold key_law. rewrite D. apply ballots.
  - assert (forall h, (differing (fun g a => selects g (fst a)) h <= c /\
                          differing (fun g a => selects g (fst a)) h <= firings h)%nat) as M.
    { induction h as [|[b x] h IH]; simpl; [lia|]. destruct (selects h b) eqn:Sb; [|destruct b; lia].
      unfold selects in Sb. apply andb_true_iff in Sb. destruct Sb as [-> F]. apply Nat.ltb_lt in F. lia. }
    intros h; apply M.
Qed.
End Hist_sparse.

End Gate.
