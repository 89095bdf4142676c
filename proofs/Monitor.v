(** Theorem 3 of docs/guarantee.md: the mistakes monitor pays epsilon once, over any number of epochs.

    How it corresponds. A step of the transcript has a type [A] and says whether the monitor fired
    ([fired a]); for the monitor alone [A = bool], in a gate (Gates.v) a step holds the released key too.
    A history is the list of steps so far, newest first. World 0 counts [m h] mistakes at the check after
    history [h], world 1 counts [m' h]: functions of the history, so the stream may react. Thresholds
    [theta] and public restarts [restart] are functions of the history, the same in both worlds.
    The count of an epoch is the sum of its checks; a check answers whether its noise is at least
    threshold + threshold noise - count. At every firing, and where [restart] says so, the count is zero
    again and fresh threshold noise is drawn. Neighbours ([neighbours d m m']): along every transcript at
    most one check is touched (its place may be chosen on the way), where the mistakes differ by at most
    [d]; all others are equal. [d = 1] is the theorem as it stands there; larger [d] is its use with
    costs and with users (Theorems 15 and 17).
    [weight] is the probability of the answers of a given list of steps, given what else is in them (the
    keys); [monitor] is the program that draws the answers; [monitor_weight] says that they agree.
    Theorem_3: every list of answers; Theorem_3_close: every event, noise one-sided of scale 1/e;
    Theorem_3_users: m rounds of a user, replaced one at a time, scales m/e. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts.
Import ListNotations.
Open Scope R_scope.

Definition neighbours {A} (d : nat) (m m' : list A -> Z) (touched : list A -> bool) :=
  (forall h, touched h = false -> m h = m' h) /\
  (forall h, (Z.abs (m' h - m h) <= Z.of_nat d)%Z) /\
  (forall h later, touched h = true -> touched (later ++ h) = true -> later = []).

Section Weight.
Context {A : Type}.
Variable fired : A -> bool.
Variables p_T p_Q : Z -> R.
Variable theta : list A -> Z.
Variable restart : list A -> bool.

Definition ends (a : A) (h : list A) : bool := fired a || restart (a :: h).

(** The probability of the answers of [l] after history [h], with count [c] and threshold noise [r]. *)
Fixpoint weight (m : list A -> Z) (c r : Z) (h l : list A) : R :=
  match l with
  | [] => 1
  | a :: l' =>
      check p_Q (theta h + r - (c + m h)) (fired a) *
      (if ends a h then sum (fun r' => p_T r' * weight m 0 r' (a :: h) l')
       else weight m (c + m h) r (a :: h) l')
  end.

(** The same at the beginning of an epoch. *)
Definition fresh (m : list A -> Z) (h l : list A) : R := sum (fun r => p_T r * weight m 0 r h l).

Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.

Lemma mixture_bounds (w : Z -> R) : (forall r, 0 <= w r <= 1) ->
  summable (fun r => p_T r * w r) /\ 0 <= sum (fun r => p_T r * w r) <= 1.
Proof.
  intros B. destruct LT as (P & S & E).
  assert (forall r, p_T r * w r <= p_T r) as Le.
  { intros r. rewrite <- (Rmult_1_r (p_T r)) at 2. apply Rmult_le_compat_l; [apply P|apply B]. }
  assert (summable (fun r => p_T r * w r)) as Sw by now apply summable_le with p_T.
  split; auto; split; [now apply sum_nonneg|]. rewrite <- E. now apply sum_le.
Qed.

Lemma weight_bounds m : forall l c r h, 0 <= weight m c r h l <= 1.
Proof.
  induction l; intros c r h; simpl; [lra|].
  pose proof (check_nonneg p_Q (theta h + r - (c + m h)) (fired a) LQ) as N.
  assert (check p_Q (theta h + r - (c + m h)) (fired a) <= 1) as M.
  { apply (sub_le_1 (check p_Q (theta h + r - (c + m h)))). apply law_sub. now apply check_law. }
  assert (forall x, 0 <= x <= 1 -> 0 <= check p_Q (theta h + r - (c + m h)) (fired a) * x <= 1) as X.
  { intros x Hx. split; [apply Rmult_le_pos; tauto|].
    replace 1 with (1 * 1) by ring. apply Rmult_le_compat; tauto. }
  apply X. destruct (ends a h); auto. apply mixture_bounds. intros; apply IHl.
Qed.

Lemma fresh_bounds m h l : summable (fun r => p_T r * weight m 0 r h l) /\ 0 <= fresh m h l <= 1.
Proof. apply mixture_bounds. intros; apply weight_bounds. Qed.

Lemma weight_cons m c r h a l : weight m c r h (a :: l) =
  check p_Q (theta h + r - (c + m h)) (fired a) *
  (if ends a h then fresh m (a :: h) l else weight m (c + m h) r (a :: h) l).
Proof. reflexivity. Qed.

(** The last answer: it does not depend on what else its step holds, and is one or the other. *)
Lemma weight_last m a a' : fired a = fired a' ->
  forall l c r h, weight m c r h (l ++ [a]) = weight m c r h (l ++ [a']).
Proof.
  intros F. assert (sum (fun r' => p_T r' * 1) = 1) as One.
  { rewrite (sum_ext _ p_T); [apply LT|intros; ring]. }
  induction l as [|b l IH]; intros c r h; simpl.
  - rewrite F, One. destruct (ends a h), (ends a' h); reflexivity.
  - f_equal. destruct (ends b h); auto. apply sum_ext; intros; now rewrite IH.
Qed.

Lemma weight_total m yes no : fired yes = true -> fired no = false ->
  forall l c r h, weight m c r h (l ++ [yes]) + weight m c r h (l ++ [no]) = weight m c r h l.
Proof.
  intros Y N. assert (sum (fun r' => p_T r' * 1) = 1) as One.
  { rewrite (sum_ext _ p_T); [apply LT|intros; ring]. }
  induction l as [|b l IH]; intros c r h; simpl.
  - rewrite One, Y, N, check_true, check_false by auto. destruct (ends yes h), (ends no h); ring.
  - rewrite <- Rmult_plus_distr_l. f_equal. destruct (ends b h); auto.
    rewrite <- sum_plus; try (intros x; apply Rmult_le_pos; [apply LT|apply weight_bounds]);
      try (apply mixture_bounds; intros; apply weight_bounds).
    apply sum_ext; intros x. now rewrite <- Rmult_plus_distr_l, IH.
Qed.

Lemma fresh_nil m h : fresh m h [] = 1.
Proof. unfold fresh; simpl. rewrite (sum_ext _ p_T); [apply LT|intros; ring]. Qed.

Lemma fresh_last m a a' h l : fired a = fired a' -> fresh m h (l ++ [a]) = fresh m h (l ++ [a']).
Proof. intros F; apply sum_ext; intros; f_equal. now apply weight_last. Qed.

Lemma fresh_total m yes no h l : fired yes = true -> fired no = false ->
  fresh m h (l ++ [yes]) + fresh m h (l ++ [no]) = fresh m h l.
Proof.
  intros Y N. unfold fresh. rewrite <- sum_plus; try (apply fresh_bounds);
    try (intros x; apply Rmult_le_pos; [apply LT|apply weight_bounds]).
  apply sum_ext; intros x. now rewrite <- Rmult_plus_distr_l, weight_total.
Qed.

Section Ratio.
Variables (m m' : list A -> Z) (touched : list A -> bool) (d : nat) (s : R).
Hypothesis s_pos : 0 < s.
Hypothesis UT : U s p_T.
Hypothesis UQ : U s p_Q.
Hypothesis near : neighbours d m m' touched.

Definition clean (h : list A) := forall later, touched (later ++ h) = false.

Lemma clean_step h a : clean h -> clean (a :: h).
Proof. intros C later. replace (later ++ a :: h) with ((later ++ [a]) ++ h) by now rewrite <- app_assoc. apply C. Qed.

Lemma touched_clean h a : touched h = true -> clean (a :: h).
Proof.
  intros T later. destruct (touched (later ++ a :: h)) eqn:E; auto.
  replace (later ++ a :: h) with ((later ++ [a]) ++ h) in E by now rewrite <- app_assoc.
  destruct near as (_ & _ & Once). specialize (Once h _ T E). destruct later; discriminate.
Qed.

(** Epochs that do not read the replaced round have the same factors. *)
Lemma clean_equal : forall l c r h, clean h -> weight m c r h l = weight m' c r h l.
Proof.
  induction l; intros c r h C; auto.
  rewrite !weight_cons. destruct near as (Same & _ & _).
  rewrite (Same h) by apply (C []). f_equal. destruct (ends a h); [|apply IHl; now apply clean_step].
  apply sum_ext; intros r'. f_equal. apply IHl. now apply clean_step.
Qed.

Lemma fresh_equal h l : clean h -> fresh m h l = fresh m' h l.
Proof. intros C; apply sum_ext; intros; f_equal; now apply clean_equal. Qed.

Definition cost := exp (INR d / s).

Lemma cost_ge_1 : 1 <= cost.
Proof.
  unfold cost. rewrite <- exp_0. apply exp_le. apply Rmult_le_pos; [apply pos_INR|left; now apply Rinv_0_lt_compat].
Qed.

Lemma yes_cost x y : (y <= x + Z.of_nat d)%Z -> check p_Q x true <= cost * check p_Q y true.
Proof. intros H. apply check_yes; auto. now split. Qed.

Lemma any_cost x y b : (x <= y <= x + Z.of_nat d)%Z -> check p_Q x b <= cost * check p_Q y b.
Proof.
  intros H. destruct b; [apply yes_cost; tauto|].
  apply Rle_trans with (check p_Q y false); [apply check_no; tauto|].
  rewrite <- (Rmult_1_l (check p_Q y false)) at 1. apply Rmult_le_compat_r; [now apply check_nonneg|apply cost_ge_1].
Qed.

(** World 1 counts [k >= 0] more: with threshold noise larger by [k] all gaps are equal. *)
Lemma up : forall l k c r h, clean h -> weight m c r h l = weight m' (c + k) (r + k) h l.
Proof.
  induction l; intros k c r h C; auto.
  rewrite !weight_cons. destruct near as (Same & _ & _). rewrite (Same h) by apply (C []).
  f_equal; [f_equal; lia|]. pose proof (clean_step h a C). destruct (ends a h).
  - now apply fresh_equal.
  - rewrite (IHl k) by auto. f_equal; lia.
Qed.

(** World 1 counts [k >= 0] less: equal threshold noise, and only the firing costs anything. *)
Lemma down : forall l k c r h, clean h -> (0 <= k <= Z.of_nat d)%Z ->
  weight m c r h l <= cost * weight m' (c - k) r h l.
Proof.
  induction l; intros k c r h C K; [simpl; pose proof cost_ge_1; lra|].
  rewrite !weight_cons. destruct near as (Same & _ & _). rewrite (Same h) by apply (C []).
  pose proof (clean_step h a C) as C'. unfold ends. destruct (fired a) eqn:F; simpl.
  - rewrite <- Rmult_assoc, (fresh_equal _ l C').
    apply Rmult_le_compat_r; [apply fresh_bounds|]. apply yes_cost; lia.
  - destruct (restart (a :: h)).
    + rewrite <- Rmult_assoc, (fresh_equal _ l C').
      apply Rmult_le_compat_r; [apply fresh_bounds|]. apply any_cost; lia.
    + replace (cost * (check p_Q (theta h + r - (c - k + m' h)) false * weight m' (c - k + m' h) r (a :: h) l))
        with (check p_Q (theta h + r - (c - k + m' h)) false * (cost * weight m' (c - k + m' h) r (a :: h) l)) by ring.
      apply Rmult_le_compat; [now apply check_nonneg|apply weight_bounds|apply check_no; auto; lia|].
      replace (c - k + m' h)%Z with (c + m' h - k)%Z by lia. now apply IHl.
Qed.

(** The transcript says what the replaced round does in the epoch that reads it: threshold noise pays
    for a shift up, and nothing else; or the firing, and nothing else. *)
Definition paid_by_threshold c h l :=
  exists k : nat, (k <= d)%nat /\ forall r, weight m c r h l <= weight m' c (r + Z.of_nat k) h l.
Definition paid_by_firing c h l := forall r, weight m c r h l <= cost * weight m' c r h l.

Lemma fresh_ratio h l : paid_by_threshold 0 h l \/ paid_by_firing 0 h l -> fresh m h l <= cost * fresh m' h l.
Proof.
  destruct LT as (P & S & _).
  destruct (fresh_bounds m' h l) as [S' _]. assert (0 <= cost) by apply exp_pos_le.
  intros [(k & Hk & R)|R]; unfold fresh.
  - assert (nonneg (fun r => p_T r * weight m' 0 r h l)) as N.
    { intros r; apply Rmult_le_pos; [apply P|apply weight_bounds]. }
    destruct (sum_shift (fun r => p_T r * weight m' 0 r h l) (Z.of_nat k) N) as [Sh ->].
    assert (summable (fun r => p_T (r + Z.of_nat k)%Z * weight m' 0 (r + Z.of_nat k) h l)) as S1 by now apply Sh.
    rewrite <- sum_scal; auto. apply sum_le; [|now apply summable_scal].
    intros r. rewrite <- Rmult_assoc. apply Rmult_le_compat; [apply P|apply weight_bounds| |apply R].
    eapply Rle_trans; [apply (U_by s p_T k s_pos UT)|]. apply Rmult_le_compat_r; [apply P|].
    apply exp_le. apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|now apply le_INR].
  - rewrite <- sum_scal; auto. apply sum_le; [|now apply summable_scal].
    intros r. specialize (R r). apply Rmult_le_compat_l with (r := p_T r) in R; [lra|apply P].
Qed.

Lemma epoch_ratio : forall l c h, paid_by_threshold c h l \/ paid_by_firing c h l.
Proof.
  induction l as [|a l IH]; intros c h.
  { right; intros r; simpl; pose proof cost_ge_1; lra. }
  destruct near as (Same & Bound & _). specialize (Bound h).
  destruct (touched h) eqn:T.
  - pose proof (touched_clean h a T) as C.
    set (k := (m' h - m h)%Z) in *. destruct (Z.leb_spec 0 k) as [K|K].
    + left; exists (Z.to_nat k); split; [lia|]. intros r. rewrite !weight_cons, Z2Nat.id by lia.
      right. f_equal; [f_equal; lia|]. destruct (ends a h); [now apply fresh_equal|].
      rewrite (up l k) by auto. f_equal; lia.
    + right; intros r. rewrite !weight_cons. unfold ends. destruct (fired a) eqn:F; simpl.
      * rewrite <- Rmult_assoc, (fresh_equal _ l C).
        apply Rmult_le_compat_r; [apply fresh_bounds|]. apply yes_cost; lia.
      * destruct (restart (a :: h)).
        -- rewrite <- Rmult_assoc, (fresh_equal _ l C).
           apply Rmult_le_compat_r; [apply fresh_bounds|]. apply any_cost; lia.
        -- replace (cost * (check p_Q (theta h + r - (c + m' h)) false * weight m' (c + m' h) r (a :: h) l))
             with (check p_Q (theta h + r - (c + m' h)) false * (cost * weight m' (c + m' h) r (a :: h) l)) by ring.
           apply Rmult_le_compat; [now apply check_nonneg|apply weight_bounds|apply check_no; auto; lia|].
           replace (c + m' h)%Z with (c + m h - - k)%Z by lia. apply down; auto; lia.
  - rewrite (Same h T) in *. unfold paid_by_threshold, paid_by_firing.
    destruct (ends a h) eqn:E.
    + right; intros r. rewrite !weight_cons, E, (Same h T).
      replace (cost * (check p_Q (theta h + r - (c + m' h)) (fired a) * fresh m' (a :: h) l))
        with (check p_Q (theta h + r - (c + m' h)) (fired a) * (cost * fresh m' (a :: h) l)) by ring.
      apply Rmult_le_compat_l; [now apply check_nonneg|]. apply fresh_ratio, IH.
    + assert (fired a = false) as F by (unfold ends in E; apply orb_false_iff in E; tauto).
      destruct (IH (c + m' h)%Z (a :: h)) as [(k & Hk & R)|R].
      * left; exists k; split; auto. intros r. rewrite !weight_cons, E, (Same h T), F.
        apply Rmult_le_compat; [now apply check_nonneg|apply weight_bounds|apply check_no; auto; lia|apply R].
      * right; intros r. rewrite !weight_cons, E, (Same h T).
        replace (cost * (check p_Q (theta h + r - (c + m' h)) (fired a) * weight m' (c + m' h) r (a :: h) l))
          with (check p_Q (theta h + r - (c + m' h)) (fired a) * (cost * weight m' (c + m' h) r (a :: h) l)) by ring.
        apply Rmult_le_compat_l; [now apply check_nonneg|apply R].
Qed.

(** The answers given the keys, over all epochs together. *)
Theorem monitor_given_keys l : fresh m [] l <= exp (INR d / s) * fresh m' [] l.
Proof. apply fresh_ratio, epoch_ratio. Qed.
End Ratio.
End Weight.

(** * The monitor alone: a program that draws a list of answers *)

Section Program.
Variables p_T p_Q : Z -> R.
Variable theta : list bool -> Z.
Variable restart : list bool -> bool.
Hypothesis LT : is_law p_T.
Hypothesis LQ : is_law p_Q.

Fixpoint epochs (m : list bool -> Z) (c r : Z) (h : list bool) (n : nat) : list bool -> R :=
  match n with
  | O => ret []
  | S k =>
      next (check p_Q (theta h + r - (c + m h)))
        (fun b : bool => if b || restart (b :: h) then bind p_T (fun r' => epochs m 0 r' (b :: h) k)
                         else epochs m (c + m h) r (b :: h) k)
  end.

Definition monitor (m : list bool -> Z) (n : nat) : list bool -> R := bind p_T (fun r => epochs m 0 r [] n).

Lemma epochs_law m : forall n c r h, is_law (epochs m c r h n).
Proof.
  induction n; intros c r h; simpl; [apply ret_law|].
  apply next_law; [now apply check_law|]. intros b.
  destruct (b || restart (b :: h)); auto. apply bind_law; auto.
Qed.

Lemma monitor_law m n : is_law (monitor m n).
Proof. apply bind_law; auto. intros; apply epochs_law. Qed.

Lemma epochs_weight m : forall n c r h l,
  epochs m c r h n l = if Nat.eq_dec (length l) n then weight (fun b => b) p_T p_Q theta restart m c r h l else 0.
Proof.
  induction n; intros c r h l.
  - simpl. unfold ret. destruct l as [|b l]; simpl.
    + destruct (eq_dec (@nil bool) []); [reflexivity|tauto].
    + destruct (eq_dec [] (b :: l)); [discriminate|reflexivity].
  - simpl epochs.
    assert (forall b : bool, nonneg (if b || restart (b :: h) then bind p_T (fun r' => epochs m 0 r' (b :: h) n)
                              else epochs m (c + m h) r (b :: h) n)) as N.
    { intros b. destruct (b || restart (b :: h)); [|apply epochs_law].
      apply bind_law; auto. intros; apply epochs_law. }
    destruct l as [|b l].
    + rewrite next_nil; auto.
    + rewrite next_cons; auto; [|now intros b'; apply check_nonneg].
      rewrite weight_cons. unfold ends.
      assert (length (b :: l) = S (length l)) as -> by reflexivity.
      destruct (Nat.eq_dec (length l) n) as [E|E]; destruct (Nat.eq_dec (S (length l)) (S n)); try lia.
      * f_equal. destruct (b || restart (b :: h)).
        -- unfold bind, fresh. apply sum_ext; intros r'. rewrite IHn.
           destruct (Nat.eq_dec (length l) n); [reflexivity|lia].
        -- rewrite IHn. destruct (Nat.eq_dec (length l) n); [reflexivity|lia].
      * assert (forall c r, epochs m c r (b :: h) n l = 0) as Z.
        { intros; rewrite IHn. destruct (Nat.eq_dec (length l) n); [lia|reflexivity]. }
        destruct (b || restart (b :: h)); [|rewrite Z; ring].
        unfold bind. rewrite (sum_ext _ (fun _ => 0)); [rewrite sum_zero; ring|].
        intros r'; rewrite Z; ring.
Qed.

Lemma monitor_weight m n l : monitor m n l =
  if Nat.eq_dec (length l) n then fresh (fun b => b) p_T p_Q theta restart m [] l else 0.
Proof.
  unfold monitor, bind, fresh.
  rewrite (sum_ext _ (fun r => p_T r * if Nat.eq_dec (length l) n
             then weight (fun b => b) p_T p_Q theta restart m 0 r [] l else 0)).
  - destruct (Nat.eq_dec (length l) n); auto. rewrite (sum_ext _ (fun _ => 0)); [apply sum_zero|intros; ring].
  - intros r. now rewrite epochs_weight.
Qed.

(** Every list of answers, whatever the noise, if it has property (U). Exchange the worlds for the other
    direction: [neighbours] is symmetric ([neighbours_sym]). *)
Theorem Theorem_3 e d m m' touched n : 0 < e -> (0 < d)%nat -> U (INR d / e) p_T -> U (INR d / e) p_Q ->
  neighbours d m m' touched -> pure e (monitor m n) (monitor m' n).
Proof.
  intros E D UT UQ N l. rewrite !monitor_weight. destruct (Nat.eq_dec (length l) n); [|lra].
  assert (0 < INR d) by now apply lt_0_INR.
  assert (0 < INR d / e) by (apply Rmult_lt_0_compat; auto; now apply Rinv_0_lt_compat).
  replace e with (INR d / (INR d / e)) at 1 by (field; split; lra).
  now apply monitor_given_keys with touched.
Qed.
End Program.

Lemma neighbours_sym {A} d (m m' : list A -> Z) touched : neighbours d m m' touched -> neighbours d m' m touched.
Proof.
  intros (S & B & O). repeat split; auto; [intros h T; symmetry; auto|]. intros h; specialize (B h); lia.
Qed.

(** The monitor as it is run: one-sided noise of scale 1/e, one replaced round, every event. *)
Theorem Theorem_3_close e theta restart m m' touched n : 0 < e -> neighbours 1 m m' touched ->
  let run m := monitor (one_sided (1 / e)) (one_sided (1 / e)) theta restart m n in
  close e 0 (run m) (run m') /\ close e 0 (run m') (run m).
Proof.
  intros E N. assert (0 < 1 / e) as S by (apply Rmult_lt_0_compat; [lra|now apply Rinv_0_lt_compat]).
  destruct (Lemma_1_one_sided _ S) as [L Up].
  assert (forall m, is_law (monitor (one_sided (1 / e)) (one_sided (1 / e)) theta restart m n)) as LM.
  { intros m0; now apply monitor_law. }
  assert (INR 1 / e = 1 / e) as One by (simpl; reflexivity).
  split; (apply pure_close; [apply LM|apply LM|]); apply (Theorem_3 _ _ _ _ L L e 1) with touched;
    try rewrite One; auto. now apply neighbours_sym.
Qed.

(** Users: [k] rounds are replaced one at a time, each between worlds that differ in one round. *)
Inductive chain {A} (d : nat) : nat -> (list A -> Z) -> (list A -> Z) -> Prop :=
| chain_O m : chain d 0 m m
| chain_S k m m1 m' touched : neighbours d m m1 touched -> chain d k m1 m' -> chain d (S k) m m'.

Theorem Theorem_3_users e k theta restart m m' n : 0 < e -> (0 < k)%nat -> chain 1 k m m' ->
  let run m := monitor (one_sided (INR k / e)) (one_sided (INR k / e)) theta restart m n in
  close e 0 (run m) (run m').
Proof.
  intros E K Ch. assert (0 < INR k) as K' by now apply lt_0_INR.
  assert (0 < INR k / e) as S by (apply Rmult_lt_0_compat; auto; now apply Rinv_0_lt_compat).
  destruct (Lemma_1_one_sided _ S) as [L Up]. set (p := one_sided (INR k / e)) in *.
  assert (forall j m m', chain 1 j m m' ->
            pure (INR j * (e / INR k)) (monitor p p theta restart m n) (monitor p p theta restart m' n)) as Pu.
  { clear m m' Ch. intros j m m' Ch; induction Ch as [m|j m m1 m' t N Ch IH].
    - simpl; rewrite Rmult_0_l. apply pure_refl.
    - rewrite S_INR, Rplus_comm, Rmult_plus_distr_r, Rmult_1_l.
      apply pure_trans with (monitor p p theta restart m1 n); auto.
      apply (Theorem_3 p p theta restart L L (e / INR k) 1 m m1 t n); auto.
      + apply Rmult_lt_0_compat; auto. now apply Rinv_0_lt_compat.
      + replace (INR 1 / (e / INR k)) with (INR k / e) by (simpl; field; split; lra). auto.
      + replace (INR 1 / (e / INR k)) with (INR k / e) by (simpl; field; split; lra). auto. }
  simpl. apply pure_close; try (apply monitor_law; auto).
  replace e with (INR k * (e / INR k)) at 1 by (field; lra). now apply Pu.
Qed.
