(** Theorem 5 of docs/guarantee.md: unknown-domain selection.

    How it corresponds. [keys] lists all keys that occur in either world; [n k] are the votes of key
    [k], 0 for a key that a world has not. [curve_terms] are the conditions on the acceptance curve;
    that a curve of the code satisfies them is what [valid_curve] of Executable.v decides
    ([valid_curve_terms]). The law is that of Executable.v at real numbers, the one text from which
    the tables are computed ([selection_is_executable]). The left-out key and the cut-off of counts
    are not modelled: a vote moved to or from the left-out key is [gain] or [loss] alone, and
    cut-off counts move by at most one vote. *)

From Coq Require Import Reals List Lra Lia ZArith Bool Psatz QArith Qreals.
From Littlestone Require Import Executable.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope R_scope.

(** * The inequalities, for one key *)

(** What [field] asks for: that denominators are not 0. *)
Ltac nz := repeat split; solve [lra | nra].

Section Inequalities.
Variable q : R.
Hypothesis q_gt_1 : 1 < q.
Let g := q * q.

Definition P (k r : R) := / (/ k + r).
Definition T (k r : R) := / (1 + r) - P k r.

Lemma P_eq k r : 0 < k -> 0 <= r -> P k r = k / (1 + k * r).
Proof.
  intros K R. unfold P. assert (0 < 1 + k * r) by nra. field; nz.
Qed.

Lemma T_eq k r : 0 < k -> 0 <= r -> T k r = (1 - k) / ((1 + r) * (1 + k * r)).
Proof. intros K R. unfold T. rewrite P_eq by auto. assert (0 < 1 + k * r) by nra. field; nz. Qed.

Lemma T_nonneg k r : 0 < k <= 1 -> 0 <= r -> 0 <= T k r.
Proof.
  intros K R. rewrite T_eq by lra. apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. nra.
Qed.

Lemma ratio_le a b c d : 0 < b -> 0 < d -> a * d <= c * b -> a / b <= c / d.
Proof.
  intros B D H. apply Rmult_le_reg_r with (b * d); [nra|].
  replace (a / b * (b * d)) with (a * d) by (field; lra).
  replace (c / d * (b * d)) with (c * b) by (field; lra). exact H.
Qed.

Lemma g_gt_1 : 1 < g.
Proof. unfold g; nra. Qed.

(** Names. *)

Lemma P_bystander k r r' : 0 < k -> 0 <= r -> 0 <= r' <= q * r -> P k r <= g * P k r'.
Proof.
  intros K R R'. rewrite !P_eq by lra.
  replace (g * (k / (1 + k * r'))) with (g * k / (1 + k * r')) by (unfold Rdiv; ring).
  apply ratio_le; [nra|nra|]. pose proof g_gt_1 as G. unfold g in *.
  assert (k * r' <= k * (q * r)) by (apply Rmult_le_compat_l; lra). assert (0 <= k * r) by nra.
  assert (q * (k * r) <= q * q * (k * r)) by (apply Rmult_le_compat_r; nra).
  assert (1 + k * r' <= q * q * (1 + k * r)) by lra. nra.
Qed.

Lemma P_gains k k' r r' : 0 < k <= k' -> 0 <= r' <= r -> P k r <= g * P k' r'.
Proof.
  intros K R. apply Rle_trans with (P k' r').
  - rewrite !P_eq by lra. apply ratio_le; try nra.
    assert (k * k' * r' <= k * k' * r) by (apply Rmult_le_compat_l; nra). nra.
  - pose proof g_gt_1. assert (0 <= P k' r'); [|nra].
    rewrite P_eq by lra. apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; nra].
Qed.

(** Condition (1). *)
Lemma P_falls k k' low r r0 : 0 < k -> 0 < k' -> 0 <= low -> k' <= g * k + low -> 0 <= r ->
    r <= g * r0 ->
  P k' r0 <= g * P k r + low.
Proof.
  intros K K' L C R R0. pose proof g_gt_1 as G. set (s := r / g).
  assert (r = g * s) as E by (unfold s; field; lra). assert (0 <= s) as S by nra.
  assert (s <= r0) by nra.
  rewrite !P_eq by (try lra; nra). rewrite E.
  assert (0 < 1 + k' * s) by nra. assert (0 < 1 + g * k * s).
  { assert (0 <= g * k * s) by (apply Rmult_le_pos; nra). lra. }
  apply Rle_trans with (k' / (1 + k' * s)).
  - apply ratio_le; nra.
  - replace (k * (g * s)) with (g * k * s) by ring.
    replace (g * (k / (1 + g * k * s))) with (g * k / (1 + g * k * s)) by (unfold Rdiv; ring).
    assert (k' / (1 + k' * s) - g * k / (1 + g * k * s)
      = (k' - g * k) / ((1 + k' * s) * (1 + g * k * s))) as D
      by (field; nz).
    assert ((k' - g * k) / ((1 + k' * s) * (1 + g * k * s)) <= low / 1); [|lra].
    assert (0 <= g * k * s) by (apply Rmult_le_pos; nra). assert (0 <= k' * s) by nra.
    set (A := 1 + k' * s) in *. set (B := 1 + g * k * s) in *.
    assert (1 <= A * B) by (assert (1 <= A) by (unfold A; lra); assert (1 <= B) by (unfold B;
      lra); nra).
    apply ratio_le; nra.
Qed.

(** None: the part that is taken from the key. *)

Lemma T_falls_in_r k r r' : 0 < k <= 1 -> 0 <= r <= r' -> T k r' <= T k r.
Proof.
  intros K R. rewrite !T_eq by lra. apply ratio_le; try nra.
  apply Rmult_le_compat_l; [lra|]. apply Rmult_le_compat; nra.
Qed.

Lemma T_bystander k r r' : 0 < k <= 1 -> 0 <= r -> 0 <= r' <= q * r -> T k r <= g * T k r'.
Proof.
  intros K R R'. rewrite !T_eq by lra. assert (0 < 1 + k * r') by nra.
  assert (0 < 1 + k * r) by nra.
  replace (g * ((1 - k) / ((1 + r') * (1 + k * r')))) with (g * (1 - k) / ((1 + r') * (1 + k * r')))
    by (unfold Rdiv; ring).
  apply ratio_le; try nra.
  assert (1 + r' <= q * (1 + r)) by nra. assert (1 + k * r' <= q * (1 + k * r)) by nra.
  assert ((1 + r') * (1 + k * r') <= (q * (1 + r)) * (q * (1 + k * r))) by (apply Rmult_le_compat;
    lra).
  unfold g. replace (q * q * (1 - k) * ((1 + r) * (1 + k * r)))
    with ((1 - k) * (q * (1 + r) * (q * (1 + k * r)))) by ring.
  apply Rmult_le_compat_l; lra.
Qed.

(** Condition (3): the key fell from [k'] to [k]; coefficient by coefficient in [r]. *)
Lemma T_fell k k' r r0 : 0 < k < k' -> k' <= 1 -> g * (k * (1 - k')) <= k' * (1 - k) -> 0 <= r ->
    r <= g * r0 ->
  T k' r0 <= g * T k r.
Proof.
  intros K K1 C3 R R0. pose proof g_gt_1 as G. set (s := r / g).
  assert (r = g * s) as E by (unfold s; field; lra). assert (0 <= s) as S by nra.
  assert (s <= r0) by nra.
  apply Rle_trans with (T k' s); [apply T_falls_in_r; lra|].
  rewrite E, !T_eq by (try lra; nra).
  assert (0 <= k * (g * s)) by (apply Rmult_le_pos; nra).
  replace (g * ((1 - k) / ((1 + g * s) * (1 + k * (g * s)))))
    with (g * (1 - k) / ((1 + g * s) * (1 + k * (g * s)))) by (unfold Rdiv; ring).
  apply ratio_le; try nra.
  assert (0 <= (g * (1 - k) - (1 - k'))) as A0 by nra.
  assert (0 <= g * ((1 - k) * (1 + k') - (1 - k') * (1 + k))) as A1 by nra.
  assert (0 <= g * (k' * (1 - k) - g * (k * (1 - k')))) as A2 by nra.
  assert (0 <= (g * (1 - k) - (1 - k')) + g * ((1 - k) * (1 + k') - (1 - k') * (1 + k)) * s
            + g * (k' * (1 - k) - g * (k * (1 - k'))) * (s * s)) as A.
  { apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat; [lra|now apply Rmult_le_pos]|].
    apply Rmult_le_pos; nra. }
  replace (g * (1 - k) * ((1 + s) * (1 + k' * s))) with
    ((1 - k') * ((1 + g * s) * (1 + k * (g * s))) + ((g * (1 - k) - (1 - k'))
      + g * ((1 - k) * (1 + k') - (1 - k') * (1 + k)) * s
      + g * (k' * (1 - k) - g * (k * (1 - k'))) * (s * s))) by ring. lra.
Qed.

(** Conditions (2) and (4): the key rose from [k] to [k']. *)
Lemma middle_coefficient k k' : 0 < k <= k' -> k' <= 1 -> 1 - k <= g * (1 - k') ->
  k' * (1 - k) <= g * g * (k * (1 - k')) -> (1 - k) * (1 + k') <= q * g * ((1 - k') * (1 + k)).
Proof.
  intros K K1 C2 C4. pose proof g_gt_1 as G.
  destruct (Rle_or_lt (q * k) 1) as [S|L].
  - assert ((1 - k) * (1 + k') <= g * (1 - k') * (1 + g * k)) by lra.
    assert (1 + g * k <= q * (1 + k)) by (unfold g; nra).
    assert (g * (1 - k') * (1 + g * k) <= g * (1 - k') * (q * (1 + k))).
    { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra]. } lra.
  - assert ((1 - k) * (1 + k') <= g * (1 - k') * (1 + k')) by (apply Rmult_le_compat_r; lra).
    assert (1 + k' <= q * (1 + k)) by nra.
    assert (g * (1 - k') * (1 + k') <= g * (1 - k') * (q * (1 + k))).
    { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra]. } lra.
Qed.

Lemma T_gained k k' r r' : 0 < k <= k' -> k' <= 1 -> 1 - k <= g * (1 - k') ->
  k' * (1 - k) <= g * g * (k * (1 - k')) -> 0 <= r -> 0 <= r' -> q * r' <= r ->
      T k r <= g * T k' r'.
Proof.
  intros K K1 C2 C4 R Rp R'. pose proof g_gt_1 as G. set (s := r / q).
  assert (r = q * s) as E by (unfold s; field; lra). assert (0 <= s) as S by nra.
  assert (r' <= s) by nra.
  apply Rle_trans with (g * T k' s).
  2:{ apply Rmult_le_compat_l; [lra|]. apply T_falls_in_r; lra. }
  rewrite E, !T_eq by (try lra; nra).
  assert (0 <= k * (q * s)) by (apply Rmult_le_pos; nra).
  replace (g * ((1 - k') / ((1 + s) * (1 + k' * s)))) with (g * (1 - k') / ((1 + s) * (1 + k' * s)))
    by (unfold Rdiv; ring).
  apply ratio_le; try nra.
  pose proof (middle_coefficient k k' K K1 C2 C4) as C1.
  assert (0 <= (g * (1 - k') - (1 - k)) + (q * g * ((1 - k') * (1 + k)) - (1 - k) * (1 + k')) * s
            + (g * g * (k * (1 - k')) - k' * (1 - k)) * (s * s)) as A.
  { apply Rplus_le_le_0_compat; [apply Rplus_le_le_0_compat; [lra|apply Rmult_le_pos; lra]|].
    apply Rmult_le_pos; nra. }
  replace (g * (1 - k') * ((1 + q * s) * (1 + k * (q * s)))) with
    ((1 - k) * ((1 + s) * (1 + k' * s)) + ((g * (1 - k') - (1 - k))
      + (q * g * ((1 - k') * (1 + k)) - (1 - k) * (1 + k')) * s
      + (g * g * (k * (1 - k')) - k' * (1 - k)) * (s * s))) by (unfold g; ring). lra.
Qed.

Lemma T_at_most k r : 0 < k <= 1 -> 0 <= r -> T k r <= 1 - k.
Proof.
  intros K R. apply Rle_trans with (T k 0); [apply T_falls_in_r; lra|].
  rewrite T_eq by lra. right; field.
Qed.
End Inequalities.

(** * All keys together *)

Definition is (o : option Z) (k : Z) : bool := match o
    with Some j => (k =? j)%Z | None => false end.

(** One vote is taken from [loss] and one given to [gain]; each may be absent. *)
Definition moved (gain loss : option Z) (n n' : Z -> nat) :=
  (forall k, is gain k && is loss k = false) /\
  forall k, (n' k + (if is loss k then 1 else 0) = n k + (if is gain k then 1 else 0))%nat.

(** What Theorem 5 asks of the curve [k] of acceptance probabilities. *)
Definition step_terms (g low k k' : R) :=
  0 < k < k' /\ k' < 1 /\ k' <= g * k + low /\ 1 - k <= g * (1 - k') /\
  g * (k * (1 - k')) <= k' * (1 - k) /\ k' * (1 - k) <= g * g * (k * (1 - k')).

Definition curve_terms (q low top : R) (k : nat -> R) :=
  0 < k 1%nat <= low /\ 0 <= top <= low /\ k 1%nat <= 1 /\
  forall n, (1 <= n)%nat ->
    step_terms (q * q) low (k n) (k (S n)) \/ (1 - top <= k n < 1 /\ k (S n) = 1) \/
        (k n = 1 /\ k (S n) = 1).

Definition spike (o : option Z) (c : R) (k : Z) : R := if is o k then c else 0.

Lemma spike_le o c ks : 0 <= c -> NoDup ks -> lsum (spike o c) ks <= c.
Proof.
  intros C N. induction N as [|x l Hx N IH]; simpl; [lra|]. unfold spike at 1.
  destruct (is o x) eqn:E; [|lra].
  assert (lsum (spike o c) l = 0); [|lra]. rewrite <- (lsum_zero l). apply lsum_ext_in.
  intros y Hy. unfold spike.
  destruct (is o y) eqn:E'; auto. destruct o as [j|]; simpl in *; [|discriminate].
  apply Z.eqb_eq in E, E'; subst; contradiction.
Qed.

Lemma spike_in i c ks : NoDup ks -> In i ks -> lsum (spike (Some i) c) ks = c.
Proof.
  intros N I. induction N as [|x l Hx N IH]; simpl in *; [tauto|]. unfold spike at 1; simpl.
  destruct (Z.eqb_spec x i) as [->|D].
  - assert (lsum (spike (Some i) c) l = 0); [|lra]. rewrite <- (lsum_zero l). apply lsum_ext_in.
    intros y Hy. unfold spike; simpl. destruct (Z.eqb_spec y i); auto; subst; contradiction.
  - destruct I as [I|I]; [congruence|]. rewrite (IH I). lra.
Qed.

Section Worlds.
Variable q : R.
Variable k : nat -> R.
Variables low top : R.
Variable keys : list Z.
Hypothesis q_gt_1 : 1 < q.
Hypothesis terms : curve_terms q low top k.
Hypothesis distinct : NoDup keys.

Definition w (n : nat) : R := match n with O => 0 | S m => (q - 1) * q ^ m end.
Definition total (n : Z -> nat) : R := 1 + lsum (fun i => w (n i)) keys.
Definition rest (n : Z -> nat) (i : Z) : R := total n - w (n i).

(** The law: a key with votes is named with probability [P], None has what is left. *)
Definition named (n : Z -> nat) (i : Z) : R :=
  match n i with O => 0 | S _ => P (k (n i)) (rest n i / w (n i)) end.
Definition taken (n : Z -> nat) (i : Z) : R := w (n i) / total n - named n i.
Definition select (n : Z -> nat) (o : option Z) : R :=
  match o with
  | None => 1 - lsum (named n) keys
  | Some i => if in_dec Z.eq_dec i keys then named n i else 0
  end.

Lemma w_pos n : 0 < w (S n).
Proof. simpl. apply Rmult_lt_0_compat; [lra|apply pow_lt; lra]. Qed.

Lemma w_nonneg n : 0 <= w n.
Proof. destruct n; [simpl; lra|left; apply w_pos]. Qed.

Lemma w_up n : w (S n) <= q * w n + (q - 1) /\ w n <= w (S n) /\ ((1 <= n)%nat ->
    w (S n) = q * w n).
Proof.
  destruct n as [|m]; simpl.
  - split; [lra|split; [lra|lia]].
  - assert (0 < q ^ m) by (apply pow_lt; lra).
    assert (0 < (q - 1) * q ^ m) by (apply Rmult_lt_0_compat; lra).
    split; [lra|split; [nra|intros; ring]].
Qed.

Lemma w_le_total n i : In i keys -> w (n i) + 1 <= total n.
Proof.
  intros I. unfold total. rewrite <- (spike_in i (w (n i)) keys distinct I) at 1.
  assert (lsum (spike (Some i) (w (n i))) keys <= lsum (fun j => w (n j)) keys); [|lra].
  apply lsum_le. intros j. unfold spike; simpl.
  destruct (Z.eqb_spec j i) as [->|_]; [lra|apply w_nonneg].
Qed.

Lemma total_pos n : 1 <= total n.
Proof. unfold total. pose proof (lsum_nonneg (fun i => w (n i)) keys (fun i => w_nonneg (n i))).
  lra. Qed.

Lemma rest_pos n i : In i keys -> 1 <= rest n i.
Proof. intros I. pose proof (w_le_total n i I). unfold rest; lra. Qed.

Lemma k_bounds m : (1 <= m)%nat -> 0 < k m <= 1.
Proof.
  intros M. destruct terms as (K1 & _ & K1' & St). induction M; [lra|].
  destruct (St m M) as [(S1 & S2 & _)|[(_ & S3)|(_ & S3)]]; lra.
Qed.

Lemma taken_T n i : In i keys -> (1 <= n i)%nat -> taken n i = T (k (n i)) (rest n i / w (n i)).
Proof.
  intros I N. unfold taken, named, T. destruct (n i) as [|m] eqn:E; [lia|]. f_equal.
  pose proof (w_pos m). pose proof (total_pos n). unfold rest. rewrite E. field. split; [lra|].
  replace (w (S m) + (total n - w (S m))) with (total n) by ring. lra.
Qed.

Lemma none_sum n : select n None = / total n + lsum (taken n) keys.
Proof.
  simpl. pose proof (total_pos n).
  assert (lsum (named n) keys + lsum (taken n) keys = (total n - 1) / total n) as E.
  { rewrite <- lsum_plus. rewrite (lsum_ext _ (fun i => / total n * w (n i))).
    - rewrite lsum_scal. unfold total at 2. field. lra.
    - intros i; unfold taken, Rdiv; ring. }
  replace ((total n - 1) / total n) with (1 - / total n) in E by (field; lra). lra.
Qed.

Lemma ratio_nonneg n i : In i keys -> (1 <= n i)%nat -> 0 <= rest n i / w (n i).
Proof.
  intros I N. pose proof (rest_pos n i I). destruct (n i) as [|m] eqn:E; [lia|].
  pose proof (w_pos m).
  apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat].
Qed.

Lemma taken_nonneg n i : In i keys -> 0 <= taken n i.
Proof.
  intros I. destruct (n i) as [|m] eqn:E.
  - unfold taken, named. rewrite E. simpl. unfold Rdiv; lra.
  - rewrite taken_T by (auto; lia). apply T_nonneg; [apply k_bounds; lia|].
    apply ratio_nonneg; auto; lia.
Qed.

Lemma named_nonneg n i : In i keys -> 0 <= named n i.
Proof.
  intros I. unfold named. destruct (n i) as [|m] eqn:E; [lra|].
  assert (1 <= n i)%nat as N by lia. pose proof (ratio_nonneg n i I N) as R. rewrite E in R.
  destruct (k_bounds (S m)) as [K _]; [lia|]. unfold P. left; apply Rinv_0_lt_compat.
  assert (0 < / k (S m)) by now apply Rinv_0_lt_compat. lra.
Qed.

Lemma select_nonneg n : nonneg (select n).
Proof.
  intros [i|]; simpl; [destruct (in_dec Z.eq_dec i keys); [now apply named_nonneg|lra]|].
  pose proof (none_sum n) as E. simpl in E. rewrite E. pose proof (total_pos n).
  assert (0 < / total n) by (apply Rinv_0_lt_compat; lra).
  assert (lsum (fun _ : Z => 0) keys <= lsum (taken n) keys) by (apply lsum_le_in; intros;
    now apply taken_nonneg).
  rewrite lsum_zero in *. lra.
Qed.

Lemma lsum_somes (f : option Z -> R) : lsum f (None :: map Some keys)
    = f None + lsum (fun i => f (Some i)) keys.
Proof. simpl. now rewrite lsum_map. Qed.

(** It is a law, for any votes. *)
Lemma select_law n : is_law (select n).
Proof.
  assert (NoDup (None :: map Some keys)) as N.
  { constructor; [rewrite in_map_iff; intros (x & E & _); discriminate|].
    apply FinFun.Injective_map_NoDup; auto. intros x y E; congruence. }
  destruct (sum_finite (select n) (None :: map Some keys)) as [S E]; auto.
  - apply select_nonneg.
  - intros [i|] H; simpl in *; [|tauto]. destruct (in_dec Z.eq_dec i keys) as [I|]; auto.
    exfalso; apply H; right. now apply in_map.
  - split; [apply select_nonneg|split; auto]. rewrite E, lsum_somes. simpl.
    rewrite (lsum_ext_in (fun i => if in_dec Z.eq_dec i keys then named n i else 0) (named n));
      [lra|].
    intros i I. destruct (in_dec Z.eq_dec i keys); tauto.
Qed.

(** ** One vote moves from the world of [n] to that of [n'] *)

Section Moved.
Variables n n' : Z -> nat.
Variables gain loss : option Z.
Hypothesis move : moved gain loss n n'.

Lemma one_way i : (is gain i = true /\ is loss i = false /\ n' i = S (n i)) \/
  (is gain i = false /\ is loss i = true /\ n i = S (n' i)) \/
  (is gain i = false /\ is loss i = false /\ n i = n' i).
Proof.
  destruct move as [D M]. specialize (D i); specialize (M i).
  destruct (is gain i), (is loss i); simpl in *; try discriminate.
  - left; repeat split; lia. - right; left; repeat split; lia. - right; right; repeat split; lia.
Qed.

Lemma w_forth i : w (n' i) <= q * w (n i) + spike gain (q - 1) i.
Proof.
  unfold spike. destruct (one_way i) as [(G & _ & E)|[(G & _ & E)|(G & _ & E)]]; rewrite G, E.
  - apply w_up.
  - destruct (w_up (n' i)) as (_ & U & _). pose proof (w_nonneg (n' i)).
    pose proof (w_nonneg (S (n' i))). nra.
  - pose proof (w_nonneg (n' i)). nra.
Qed.

Lemma total_forth : total n' <= q * total n.
Proof.
  unfold total. pose proof (lsum_le _ _ keys w_forth) as H. rewrite lsum_plus, lsum_scal in H.
  pose proof (spike_le gain (q - 1) keys). assert (lsum (spike gain (q - 1)) keys <= q - 1)
    by (apply H0; auto; lra). lra.
Qed.

Lemma rest_forth i : In i keys -> rest n' i <= q * rest n i.
Proof.
  intros I. unfold rest, total.
  assert (lsum (fun j => w (n' j)) keys <=
          lsum (fun j => q * w (n j) + spike gain (q - 1) j
              + spike (Some i) (w (n' i) - q * w (n i) - spike gain (q - 1) i) j) keys) as H.
  { apply lsum_le. intros j. pose proof (w_forth j). unfold spike at 2; simpl.
    destruct (Z.eqb_spec j i) as [->|]; lra. }
  rewrite !lsum_plus, lsum_scal, spike_in in H; auto.
  assert (lsum (spike gain (q - 1)) keys <= q - 1) by (apply spike_le; auto; lra).
  assert (0 <= spike gain (q - 1) i) by (unfold spike; destruct (is gain i); lra). lra.
Qed.

Lemma rest_gain i : In i keys -> is gain i = true -> rest n' i <= rest n i.
Proof.
  intros I G. unfold rest, total.
  assert (lsum (fun j => w (n' j)) keys <= lsum (fun j => w (n j)
    + spike (Some i) (w (n' i) - w (n i)) j) keys) as H.
  { apply lsum_le. intros j. unfold spike; simpl. destruct (Z.eqb_spec j i) as [->|D]; [lra|].
    destruct (one_way j) as [(Gj & _ & E)|[(_ & _ & E)|(_ & _ & E)]].
    - destruct gain as [x|]; simpl in *; [|discriminate]. apply Z.eqb_eq in G, Gj; congruence.
    - rewrite E. destruct (w_up (n' j)) as (_ & U & _). lra.
    - rewrite E. lra. }
  rewrite lsum_plus, spike_in in H; auto. lra.
Qed.

(** Names: all of the excess is the loser's. *)
Lemma named_excess i : In i keys -> named n i <= q * q * named n' i + spike loss low i.
Proof.
  intros I. destruct terms as (K1 & Top & K1' & St).
  pose proof (named_nonneg n' i I) as Nn. unfold spike.
  destruct (n i) as [|m] eqn:E.
  { unfold named at 1; rewrite E. assert (0 <= q * q * named n' i) by (apply Rmult_le_pos; nra).
    destruct (is loss i); lra. }
  assert (1 <= n i)%nat as N1 by lia. pose proof (ratio_nonneg n i I N1) as R0.
  pose proof (w_pos m) as W.
  destruct (one_way i) as [(G & L & E')|[(G & L & E')|(G & L & E')]]; rewrite L.
  - pose proof (rest_gain i I G) as RG. pose proof (rest_pos n' i I).
    unfold named. rewrite E', E. rewrite E in R0. rewrite Rplus_0_r. apply P_gains; auto.
    + split; [apply k_bounds; lia|]. destruct (St (S m) ltac:(lia))
        as [(S1 & _)|[(S1 & S2)|(S1 & S2)]]; lra.
    + assert (w (S (S m)) = q * w (S m)) as Wq by (apply w_up; lia). rewrite Wq. split.
      * apply Rmult_le_pos; [lra|]. left; apply Rinv_0_lt_compat; nra.
      * apply ratio_le; [nra|lra|]. apply Rmult_le_compat; nra.
  - destruct (n' i) as [|m'] eqn:Em.
    + assert (m = O) as -> by lia. unfold named. rewrite E, Em. rewrite Rmult_0_r, Rplus_0_l.
      apply Rle_trans with (k 1%nat); [|lra]. unfold P. rewrite E in R0.
      assert (0 < / k 1%nat) by (apply Rinv_0_lt_compat; lra).
      rewrite <- (Rinv_inv (k 1%nat)) at 2. apply Rinv_le_contravar; lra.
    + assert (m = S m') as -> by lia. pose proof (rest_forth i I) as RF.
      pose proof (rest_pos n' i I).
      unfold named. rewrite E, Em. assert (w (S (S m')) = q * w (S m')) as Wq by (apply w_up; lia).
      pose proof (w_pos m') as W'. apply P_falls; auto.
      * apply k_bounds; lia. * apply k_bounds; lia. * lra.
      * destruct (St (S m') ltac:(lia)) as [(_ & _ & S1 & _)|[(S1 & ->)|(-> & ->)]]; [lra| |].
        -- destruct (k_bounds (S m')) as [Ka _]; [lia|].
           assert (k (S m') <= q * q * k (S m')) by (assert (1 < q * q) by nra; nra). lra.
        -- nra.
      * apply Rmult_le_pos; [lra|]. left; now apply Rinv_0_lt_compat.
      * rewrite Wq. replace (q * q * (rest n i / (q * w (S m')))) with (q * rest n i / w (S m'))
          by (field; lra).
        apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|lra].
  - pose proof (rest_forth i I) as RF. pose proof (rest_pos n' i I).
    unfold named. rewrite <- E', E. rewrite E in R0. rewrite Rplus_0_r. apply P_bystander; auto.
    + apply k_bounds; lia.
    + split; [apply Rmult_le_pos; [lra|left; now apply Rinv_0_lt_compat]|].
      replace (q * (rest n i / w (S m))) with (q * rest n i / w (S m)) by (field; lra).
      apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|lra].
Qed.

(** None: the key that gained costs [top] at the jump, the key that vanished (q - 1)/Z. *)
Lemma taken_excess i : In i keys ->
  taken n i <= q * q * taken n' i + spike gain top i + spike loss ((q - 1) / total n) i.
Proof.
  intros I. destruct terms as (K1 & Top & K1' & St).
  pose proof (taken_nonneg n' i I) as Nn. pose proof (total_pos n) as Z1.
  assert (0 <= q * q * taken n' i) by (apply Rmult_le_pos; nra).
  assert (0 <= (q - 1) / total n) as C0 by (apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat;
    lra]).
  assert (0 <= spike gain top i) by (unfold spike; destruct (is gain i); lra).
  assert (0 <= spike loss ((q - 1) / total n) i) as Sl by (unfold spike; destruct (is loss i); lra).
  destruct (n i) as [|m] eqn:E.
  { assert (taken n i = 0) as ->; [|lra]. unfold taken, named. rewrite E. simpl. unfold Rdiv; lra. }
  assert (1 <= n i)%nat as N1 by lia. pose proof (ratio_nonneg n i I N1) as R0.
  pose proof (w_pos m) as W.
  destruct (one_way i) as [(G & L & E')|[(G & L & E')|(G & L & E')]].
  - assert (1 <= n' i)%nat as N1' by lia. pose proof (ratio_nonneg n' i I N1') as R0'.
    pose proof (rest_gain i I G) as RG. rewrite taken_T by auto.
    unfold spike in *. rewrite G, L in *. rewrite E in *.
    destruct (St (S m) ltac:(lia)) as [S1|[(S1 & S2)|(S1 & S2)]].
    + destruct S1 as (S1 & S2 & _ & C2 & _ & C4). rewrite taken_T, E' by auto. rewrite E' in R0'.
      apply Rle_trans with (q * q * T (k (S (S m))) (rest n' i / w (S (S m)))); [|lra].
      apply T_gained; auto; try lra.
      assert (w (S (S m)) = q * w (S m)) as -> by (apply w_up; lia).
      replace (q * (rest n' i / (q * w (S m)))) with (rest n' i / w (S m)) by (field; lra).
      apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|lra].
    + apply Rle_trans with (1 - k (S m)); [|lra]. apply T_at_most; auto. apply k_bounds; lia.
    + apply Rle_trans with (1 - k (S m)); [|lra]. apply T_at_most; auto. apply k_bounds; lia.
  - destruct (n' i) as [|m'] eqn:Em.
    + assert (m = O) as -> by lia. unfold spike in *. rewrite L in *. unfold taken at 1. rewrite E.
      pose proof (named_nonneg n i I). simpl (w 1).
      assert (0 <= / total n) by (left; apply Rinv_0_lt_compat; lra).
      unfold Rdiv. rewrite Rmult_1_r. unfold Rdiv in *. lra.
    + assert (m = S m') as -> by lia. assert (1 <= n' i)%nat as N1' by lia.
      pose proof (ratio_nonneg n' i I N1') as R0'. pose proof (rest_forth i I) as RF.
      rewrite !taken_T by auto. rewrite E, Em in *. pose proof (w_pos m') as W'.
      apply Rle_trans with (q * q * T (k (S m')) (rest n' i / w (S m'))); [|lra].
      assert (w (S (S m')) = q * w (S m')) as Wq by (apply w_up; lia).
      assert (rest n' i / w (S m') <= q * q * (rest n i / w (S (S m')))) as Rr.
      { rewrite Wq. replace (q * q * (rest n i / (q * w (S m')))) with (q * rest n i / w (S m'))
          by (field; lra).
        apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|lra]. }
      destruct (k_bounds (S m')) as [Ka Kb]; [lia|].
      assert (0 <= q * q * T (k (S m')) (rest n' i / w (S m'))).
      { apply Rmult_le_pos; [nra|]. apply T_nonneg; lra. }
      assert (k (S (S m')) = 1 -> T (k (S (S m'))) (rest n i / w (S (S m'))) <= 0) as One.
      { intros K. rewrite K, T_eq by lra. right. unfold Rdiv. ring. }
      destruct (St (S m') ltac:(lia)) as [S1|[(S1 & S2)|(S1 & S2)]].
      * destruct S1 as (S1 & S2 & _ & _ & C3 & _). apply T_fell; auto; lra.
      * specialize (One S2). lra. * specialize (One S2). lra.
  - pose proof (rest_forth i I) as RF. pose proof (rest_pos n' i I).
    assert (1 <= n' i)%nat as N1' by lia.
    pose proof (ratio_nonneg n' i I N1') as R0'. rewrite !taken_T by auto. rewrite <- E', E in *.
    apply Rle_trans with (q * q * T (k (S m)) (rest n' i / w (S m))); [|lra].
    apply T_bystander; auto; [apply k_bounds; lia|]. split; auto.
    replace (q * (rest n i / w (S m))) with (q * rest n i / w (S m)) by (field; lra).
    apply Rmult_le_compat_r; [left; now apply Rinv_0_lt_compat|lra].
Qed.

Lemma none_excess : select n None <= q * q * select n' None + top.
Proof.
  rewrite !none_sum. destruct terms as (_ & Top & _ & _).
  pose proof (total_pos n) as Z1. pose proof (total_pos n') as Z1'. pose proof total_forth as F.
  assert (lsum (taken n) keys <=
    lsum (fun i => q * q * taken n' i + spike gain top i
        + spike loss ((q - 1) / total n) i) keys) as H.
  { apply lsum_le_in. intros i I. now apply taken_excess. }
  rewrite !lsum_plus, lsum_scal in H.
  assert (lsum (spike gain top) keys <= top) by (apply spike_le; auto; lra).
  assert (lsum (spike loss ((q - 1) / total n)) keys <= (q - 1) / total n).
  { apply spike_le; auto. apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]. }
  assert (/ total n + (q - 1) / total n <= q * q * / total n').
  { replace (/ total n + (q - 1) / total n) with (q / total n) by (field; lra).
    change (q * q * / total n') with (q * q / total n'). apply ratio_le; nra. }
  lra.
Qed.

(** Theorem 5, for every set of answers. *)
Theorem Theorem_5_events (l : list (option Z)) : NoDup l ->
  lsum (select n) l <= q * q * lsum (select n') l + (low + top).
Proof.
  intros N. destruct terms as ((K1 & K2) & Top & _ & _).
  set (e := fun o : option Z => match o with None => top | Some i => spike loss low i end).
  assert (lsum (select n) l <= lsum (fun o => q * q * select n' o + e o) l) as H.
  { apply lsum_le. intros [i|]; unfold e; [|apply none_excess]. simpl.
    destruct (in_dec Z.eq_dec i keys); [now apply named_excess|]. unfold spike.
    destruct (is loss i); lra. }
  rewrite lsum_plus, lsum_scal in H.
  assert (lsum e l <= low + top); [|lra].
  assert (nonneg e) as Pe by (intros [i|]; unfold e, spike; [destruct (is loss i)|]; lra).
  destruct loss as [u|].
  - apply Rle_trans with (lsum e (filter (fun o => match o
      with None => true | Some i => (i =? u)%Z end) l)).
    + clear N H. induction l as [|o l' IH]; simpl; [lra|]. destruct o as [i|].
      * unfold e at 1, spike; simpl. destruct (Z.eqb_spec i u); simpl; unfold e, spike in *;
          simpl in *;
        try (rewrite (proj2 (Z.eqb_eq i u)) by auto); lra.
      * simpl; lra.
    + apply Rle_trans with (lsum e [None; Some u]).
      * apply lsum_incl; auto; [now apply NoDup_filter|]. intros o Ho. apply filter_In in Ho.
        destruct Ho as [_ Ho].
        destruct o as [i|]; simpl; auto. apply Z.eqb_eq in Ho; subst; auto.
      * simpl. unfold spike; simpl. rewrite Z.eqb_refl. lra.
  - apply Rle_trans with (lsum e [None]); [|simpl; lra].
    apply Rle_trans with (lsum e (filter (fun o => match o with None => true | _ => false end) l)).
    + clear N H. induction l as [|o l' IH]; simpl; [lra|].
      destruct o as [i|]; simpl; unfold e, spike in *; simpl in *; lra.
    + apply lsum_incl; auto; [now apply NoDup_filter|]. intros o Ho. apply filter_In in Ho.
      destruct Ho as [_ Ho].
      destruct o; simpl; auto; discriminate.
Qed.

Theorem Theorem_5 epsilon : q * q <= exp epsilon ->
    close epsilon (low + top) (select n) (select n').
Proof.
  intros Q. destruct (select_law n) as (P1 & S1 & _). destruct (select_law n') as (P2 & S2 & _).
  apply close_lists; auto. intros l N. eapply Rle_trans; [apply Theorem_5_events; auto|].
  apply Rplus_le_compat_r, Rmult_le_compat_r; auto. now apply lsum_nonneg.
Qed.
End Moved.

Lemma moved_back gain loss n n' : moved gain loss n n' -> moved loss gain n' n.
Proof. intros [D M]; split; intros i; [rewrite andb_comm; apply D|specialize (M i); lia]. Qed.

(** Both directions at once. *)
Theorem Theorem_5_both epsilon gain loss n n' : q * q <= exp epsilon -> moved gain loss n n' ->
  close epsilon (low + top) (select n) (select n') /\
      close epsilon (low + top) (select n') (select n).
Proof. intros Q M; split; [eapply Theorem_5|eapply Theorem_5; [apply moved_back|]]; eauto. Qed.
End Worlds.

(** * The link to the code *)

(** The law above is that of Executable.v, whose text is evaluated in rationals for the tables. *)
Section Link.
Variable q : R.
Variable k : nat -> R.
Variable keys : list Z.

Definition votes (n : Z -> nat) : list (Z * nat) := map (fun i => (i, n i)) keys.

Lemma power_pow x m : power real x m = x ^ m.
Proof. induction m; simpl; [reflexivity|]. now rewrite IHm. Qed.

Lemma weight_w m : weight real q m = w q m.
Proof. destruct m; simpl; [reflexivity|]. now rewrite power_pow. Qed.

Lemma total_lsum (f : Z -> R) (l : list Z) : Executable.total real (map f l) = lsum f l.
Proof.
  induction l as [|x l IH]; [reflexivity|].
  change (Executable.total real (map f (x :: l))) with (f x + Executable.total real (map f l)).
  now rewrite IH.
Qed.

Lemma weights_total n : weights real q (votes n) = total q keys n.
Proof.
  unfold weights, votes, total. simpl. f_equal. rewrite map_map, total_lsum. apply lsum_ext.
  intros i; apply weight_w.
Qed.

Lemma name_named n i : name_probability real q k (weights real q (votes n)) (n i)
    = named q k keys n i.
Proof.
  unfold name_probability, named, P, rest. rewrite weights_total.
  destruct (n i) eqn:E; [reflexivity|].
  rewrite weight_w. simpl (div real). simpl (add real). simpl (sub real). simpl (one real).
  unfold Rdiv.
  now rewrite !Rmult_1_l.
Qed.

Theorem selection_is_executable n : selection real q k (votes n) =
  map (fun o => (o, select q k keys n o)) (None :: map Some keys).
Proof.
  unfold selection, none_probability, names. unfold votes at 2 4. rewrite !map_map. simpl.
  assert (forall i, snd (fst (i, n i), name_probability real q k (weights real q (votes n)) (snd
    (i, n i)))
            = named q k keys n i) as E by (intros; apply name_named).
  f_equal.
  - f_equal. simpl. f_equal. rewrite total_lsum. apply lsum_ext. intros; apply name_named.
  - rewrite map_map. apply map_ext_in. intros i I. simpl. f_equal.
    destruct (in_dec Z.eq_dec i keys); [apply name_named|contradiction].
Qed.
End Link.

(** A curve that [valid_curve] accepts, as Python's [AcceptanceCurve] does, satisfies the terms. *)
Section Curve.
Local Open Scope Q_scope.

Lemma Q2R_leb x y : Qle_bool x y = true -> (Q2R x <= Q2R y)%R.
Proof. intros H. apply Qle_Rle. now apply Qle_bool_iff. Qed.

Lemma Q2R_ltb x y : negb (Qle_bool x y) = true -> (Q2R y < Q2R x)%R.
Proof.
  intros H. apply Qlt_Rlt. apply Qnot_le_lt. intros C. apply Qle_bool_iff in C. rewrite C in H.
  discriminate.
Qed.

Ltac push := rewrite ?Q2R_mult, ?Q2R_plus, ?Q2R_minus, ?Q2R_mult, ?Q2R_minus, ?RMicromega.Q2R_0,
    ?RMicromega.Q2R_1 in *.

Lemma valid_step_terms now after g low : valid_step now after g low = true ->
  step_terms (Q2R g) (Q2R low) (Q2R now) (Q2R after).
Proof.
  unfold valid_step, step_terms. rewrite !andb_true_iff.
  intros ((((((H1 & H2) & H3) & H4) & H5) & H6) & H7).
  apply Q2R_ltb in H1, H2, H3. apply Q2R_leb in H4, H5, H6, H7. push. repeat split; lra.
Qed.

Lemma steps_valid_nth g low l n : steps_valid g low l = true -> (S n < length l)%nat ->
  valid_step (nth n l 1) (nth (S n) l 1) g low = true.
Proof.
  revert n. induction l as [|x l IH]; intros n V L; [simpl in L; lia|].
  destruct l as [|y l]; [simpl in L; lia|]. simpl in V. apply andb_true_iff in V.
  destruct V as [V1 V2].
  destruct n; [exact V1|]. apply (IH n V2). simpl in *; lia.
Qed.

Theorem valid_curve_terms delta q curve : valid_curve delta q curve = true ->
  (1 < Q2R q)%R /\
  curve_terms (Q2R q) (Q2R (delta * (1 - top_share))) (Q2R (delta * top_share))
    (fun n => Q2R (curve_at rational curve n)).
Proof.
  destruct curve as [|zero [|first rest]]; try discriminate. unfold valid_curve.
  rewrite !andb_true_iff.
  intros ((((((H1 & H2) & H3) & H4) & H5) & H6) & H7). unfold curve_at. simpl (one rational).
  set (l := first :: rest) in *.
  assert (forall n, nth (S n) (zero :: l) 1 = nth n l 1) as Nth by reflexivity.
  assert (last l 0 = nth (length rest) l 1) as Last.
  { clear. unfold l; clear l. revert first. induction rest as [|y r IH]; intros x; [reflexivity|].
    change (last (x :: y :: r) 0) with (last (y :: r) 0). rewrite IH. reflexivity. }
  rewrite Last in *. apply Q2R_ltb in H1, H3, H6. apply Q2R_leb in H4, H5.
  assert (Q2R top_share = 1 / 1024)%R as Top by (unfold top_share, Q2R; simpl; lra).
  assert (0 < Q2R delta)%R as D.
  { push. rewrite Top in *. lra. }
  assert (first = nth 0 l 1) as First by reflexivity.
  split; [push; lra|]. unfold curve_terms.
  assert (forall n, (1 <= n)%nat -> step_terms (Q2R q * Q2R q)%R (Q2R (delta * (1 - top_share)))
     (Q2R (nth n (zero :: l) 1%Q)) (Q2R (nth (S n) (zero :: l) 1%Q)) \/
     (1 - Q2R (delta * top_share) <= Q2R (nth n (zero :: l) 1%Q) < 1 /\
         Q2R (nth (S n) (zero :: l) 1%Q) = 1)%R \/
     (Q2R (nth n (zero :: l) 1%Q) = 1 /\ Q2R (nth (S n) (zero :: l) 1%Q) = 1)%R) as St.
  { intros [|n] N; [lia|]. rewrite !Nth. rewrite <- Q2R_mult.
    destruct (Nat.lt_trichotomy n (length rest)) as [L|[->|L]].
    - left. apply valid_step_terms. apply steps_valid_nth; auto. unfold l; simpl; lia.
    - right; left. rewrite (nth_overflow l) with (n := S (length rest)) by (unfold l; simpl; lia).
      push. lra.
    - right; right. rewrite !(nth_overflow l) by (unfold l; simpl; lia). push. lra. }
  split; [rewrite Nth, <- First; push; lra|]. split; [push; rewrite Top in *; lra|].
  split; [|exact St].
  assert (Q2R (nth 1 (zero :: l) 1%Q) <= 1)%R as K1; [|exact K1].
  destruct (St 1%nat (le_n 1)) as [(S1 & S2 & _)|[(S1 & _)|(S1 & _)]]; lra.
Qed.
End Curve.
