(** Theorem 4 of docs/guarantee.md: the stable histogram.

    How it corresponds. [keys] lists all keys that occur in either world, in the order of bytes; [n
    k] are the votes of key [k], and a key with 0 votes is absent. [run] is the loop of
    StableHistogram.select: noise is drawn for each key with votes, and a noisy count above [top]
    replaces best and top; it begins with None and tau - 1. [a = rate (2/e) = exp (-e/2)].
    Theorem_4: one vote is taken from one key and one given to another, each may be absent ([moved],
    Selection.v); then every event has probability at most exp e times that in the other world, plus
    d, where d = a^(tau-1)/(1+a) is the probability that a key with one vote reaches tau
    ([lone_vote]). Theorem_4_tight: no smaller delta will do. That tau is found with enough digits
    is not modelled; the left-out key is one that neither list has. *)

From Coq Require Import Reals List Lra Lia ZArith Bool Psatz.
From Littlestone Require Import Executable.
From Littlestone Require Import Laws Noise Selection.
Import ListNotations.
Open Scope R_scope.

(** * The mean of a test over noise *)

Section Mean.
Variable p : Z -> R.
Hypothesis law_p : is_law p.

Definition test (f : Z -> R) := forall z, 0 <= f z <= 1.
Definition mean (f : Z -> R) : R := sum (fun z => p z * f z).

Lemma mean_summable f : test f -> nonneg (fun z => p z * f z) /\ summable (fun z => p z * f z).
Proof.
  destruct law_p as (P & S & _). intros T. split.
  - intros z. apply Rmult_le_pos; [apply P|apply T].
  - apply summable_le with p; auto. intros z. rewrite <- (Rmult_1_r (p z)) at 2.
    apply Rmult_le_compat_l; [apply P|apply T].
Qed.

Lemma mean_le f h c : test f -> test h -> 0 <= c -> (forall z, f z <= c * h z) ->
    mean f <= c * mean h.
Proof.
  destruct law_p as (P & S & _). intros Tf Th C H. unfold mean.
  destruct (mean_summable h Th) as [Nh Sh]. rewrite <- sum_scal; auto.
  apply sum_le; [|now apply summable_scal].
  intros z. specialize (H z). apply Rmult_le_compat_l with (r := p z) in H; [lra|apply P].
Qed.

Lemma mean_affine f c d : test f -> 0 <= c -> 0 <= d ->
    mean (fun z => c * f z + d) = c * mean f + d.
Proof.
  destruct law_p as (P & S & E). intros T C D. unfold mean.
  destruct (mean_summable f T) as [N Sf].
  rewrite (sum_ext _ (fun z => c * (p z * f z) + d * p z)) by (intros; ring).
  assert (nonneg (fun z => c * (p z * f z))) by (intros z; apply Rmult_le_pos; [auto|apply N]).
  assert (nonneg (fun z => d * p z)) by (intros z; apply Rmult_le_pos; [auto|apply P]).
  rewrite sum_plus, !sum_scal, E; auto; try (apply summable_scal; auto). ring.
Qed.

Lemma mean_ext f h : (forall z, f z = h z) -> mean f = mean h.
Proof. intros H. apply sum_ext. intros z; now rewrite H. Qed.

Lemma mean_mono f h : test f -> test h -> (forall z, f z <= h z) -> mean f <= mean h.
Proof.
  intros Tf Th H. rewrite <- (Rmult_1_l (mean h)). apply mean_le; auto; [lra|].
  intros z; specialize (H z); lra.
Qed.

Lemma mean_bounds f : test f -> 0 <= mean f <= 1.
Proof.
  intros T. destruct law_p as (P & S & E). destruct (mean_summable f T) as [N Sf]. split.
  - now apply sum_nonneg.
  - rewrite <- E. apply sum_le; auto. intros z. rewrite <- (Rmult_1_r (p z)) at 2.
    apply Rmult_le_compat_l; [apply P|apply T].
Qed.

(** If a test has the value [v] outside of an event of probability [d], its mean is (1-d) v up to d.
    *)
Lemma mean_split f v (S : Z -> bool) : test f -> 0 <= v <= 1 -> (forall z, S z = false ->
    f z = v) ->
  (1 - prob p S) * v <= mean f <= (1 - prob p S) * v + prob p S.
Proof.
  intros T V H. destruct law_p as (P & Sm & E).
  assert (prob p (fun z => negb (S z)) = 1 - prob p S) as Not by now apply prob_not.
  assert (mean f = (1 - prob p S) * v + sum (fun z => on S p z * f z)) as M.
  { unfold mean. rewrite <- Not. unfold prob. rewrite Rmult_comm, <- sum_scal.
    - rewrite <- sum_plus.
      + apply sum_ext. intros z. unfold on. destruct (S z) eqn:Ez; simpl; [ring|].
        rewrite H by auto. ring.
      + intros z. unfold on. destruct (negb (S z)); [apply Rmult_le_pos; [lra|apply P]|lra].
      + intros z. apply Rmult_le_pos; [now apply on_nonneg|apply T].
      + apply summable_scal; [lra|now apply on_summable].
      + apply summable_le with p; auto. intros z. pose proof (on_le S p z P).
        pose proof (on_nonneg S p P z).
        specialize (T z). nra.
    - lra. - now apply on_summable. }
  assert (0 <= sum (fun z => on S p z * f z) <= prob p S); [|lra]. split.
  - apply sum_nonneg. apply summable_le with p; auto. intros z. pose proof (on_le S p z P).
    pose proof (on_nonneg S p P z). specialize (T z). nra.
  - apply sum_le; [|now apply on_summable]. intros z. pose proof (on_nonneg S p P z).
    specialize (T z). nra.
Qed.
End Mean.

(** * Laplace noise *)

Section Laplace.
Variable s : R.
Hypothesis s_pos : 0 < s.
Let a := rate s.

Lemma shifted_mean f (d : Z) : test f -> (d = 1 \/ d = -1)%Z ->
  mean (laplace s) (fun z => f (z + d)%Z) <= / a * mean (laplace s) f.
Proof.
  intros T D. destruct (laplace_law s s_pos) as (P & S & E). unfold mean.
  destruct (mean_summable (laplace s) (laplace_law s s_pos) f T) as [N Sf].
  assert (/ a = exp (/ s)) as Ea.
  { unfold a. pose proof (rate_exp s). pose proof (rate_bounds s s_pos). field_simplify_eq; lra. }
  assert (0 <= / a) by (rewrite Ea; apply exp_pos_le).
  destruct (sum_shift (fun z => laplace s z * f z) d N) as [Sh ->].
  rewrite <- sum_scal; auto; [|now apply Sh]. apply sum_le; [|apply summable_scal; auto;
    now apply Sh].
  intros z. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply T|]. rewrite Ea.
  destruct D as [->| ->]; [apply laplace_U; auto|].
  pose proof (Lemma_1_mirror s s_pos (z + -1)) as M. now replace (z + -1 + 1)%Z with z in M by lia.
Qed.

(** The tails in closed form, as the code has them (privacy/noise.py). *)
Lemma laplace_tail_up x : (1 <= x)%Z -> tail (laplace s) x = a ^ Z.to_nat x / (1 + a).
Proof.
  intros X. destruct (laplace_law s s_pos) as (P & S & E). pose proof (rate_bounds s s_pos) as A.
  fold a in A.
  assert (tail (laplace s) (x + 1) = a * tail (laplace s) x) as Next.
  { unfold tail, prob. destruct (sum_shift (on (fun k => (x + 1 <=? k)%Z) (laplace s)) 1)
      as [_ ->]; [now apply on_nonneg|].
    rewrite <- sum_scal; [|lra|now apply on_summable]. apply sum_ext. intros k. unfold on.
    destruct (Z.leb_spec x k); destruct (Z.leb_spec (x + 1) (k + 1)); try lia; [|ring].
    unfold laplace. fold a. replace (Z.abs_nat (k + 1)) with (Datatypes.S (Z.abs_nat k)) by lia.
    simpl; ring. }
  assert (tail (laplace s) x = laplace s x + tail (laplace s) (x + 1)) as Split.
  { unfold tail, prob. destruct (sum_finite (fun k => ret x k * laplace s x) [x]) as [S1 E1].
    - intros k. apply Rmult_le_pos; [apply ret_law|apply P].
    - constructor; simpl; auto; constructor.
    - intros k Hk. unfold ret. destruct (eq_dec x k); [subst; simpl in Hk; tauto|ring].
    - assert (sum (fun k => ret x k * laplace s x) = laplace s x) as E2.
      { rewrite E1. simpl. unfold ret. destruct (eq_dec x x); [ring|tauto]. }
      transitivity (sum (fun k => ret x k * laplace s x + on (fun k => (x
          + 1 <=? k)%Z) (laplace s) k)).
      + apply sum_ext. intros k. unfold on, ret. destruct (eq_dec x k) as [->|D].
        * destruct (Z.leb_spec k k); destruct (Z.leb_spec (k + 1) k); try lia. ring.
        * destruct (Z.leb_spec x k); destruct (Z.leb_spec (x + 1) k); try lia; ring.
      + rewrite sum_plus, E2; auto; [|now apply on_nonneg|now apply on_summable].
        intros k. apply Rmult_le_pos; [apply ret_law|apply P]. }
  rewrite Next in Split. unfold laplace in Split. fold a in Split.
  replace (Z.to_nat x) with (Z.abs_nat x) by lia. set (t := tail (fun k => _) x) in *.
  assert ((1 - a) * t = (1 - a) * (a ^ Z.abs_nat x / (1 + a))) as F.
  { replace ((1 - a) * t) with (t - a * t) by ring. unfold Rdiv in *. lra. }
  apply Rmult_eq_reg_l in F; [exact F|lra].
Qed.

Lemma laplace_tail_executable x : tail (laplace s) x = laplace_tail real a x.
Proof.
  unfold laplace_tail. pose proof (rate_bounds s s_pos) as A. fold a in A.
  destruct (Z.leb_spec x 0) as [X|X].
  2:{ change (tail (laplace s) x = power real a (Z.to_nat x) / (1 + a)). rewrite power_pow.
      apply laplace_tail_up; lia. }
  change (tail (laplace s) x = 1 - power real a (Z.to_nat (1 - x)) / (1 + a)). rewrite power_pow.
  rewrite <- (laplace_tail_up (1 - x)) by lia. unfold tail.
  destruct (laplace_law s s_pos) as (P & S & E).
  rewrite (prob_ext (laplace s) (fun k => (x <=? k)%Z) (fun k => negb (k <? x)%Z)).
  2:{ intros k. destruct (Z.leb_spec x k); destruct (Z.ltb_spec k x); simpl; auto; lia. }
  rewrite prob_not by now apply laplace_law. f_equal. unfold prob.
  destruct (sum_reindex Z.opp (on (fun k => (1 - x <=? k)%Z) (laplace s))) as [_ ->].
  - now apply on_nonneg. - intros; lia. - intros k _; exists (- k)%Z; lia.
  - apply sum_ext. intros k. unfold on.
    destruct (Z.ltb_spec k x); destruct (Z.leb_spec (1 - x) (- k)); try lia; auto.
    unfold laplace. now replace (Z.abs_nat (- k)) with (Z.abs_nat k) by lia.
Qed.
End Laplace.

(** * The loop *)

Section Loop.
Variable s : R.
Variable tau : Z.
Hypothesis s_pos : 0 < s.
Hypothesis tau_pos : (1 <= tau)%Z.
Let p := laplace s.
Let a := rate s.
Definition lone_vote : R := tail (laplace s) (tau - 1).

(** The probability that the answer is in [E], from the state (best, top) on. *)
Fixpoint run (keys : list Z) (n : Z -> nat) (best : option Z) (top : Z) (E : option Z ->
    bool) : R :=
  match keys with
  | [] => if E best then 1 else 0
  | k :: rest =>
      match n k with
      | O => run rest n best top E
      | S _ => mean p (fun z =>
          let noisy := (Z.of_nat (n k) + z)%Z in
          if (top <? noisy)%Z then run rest n (Some k) noisy E else run rest n best top E)
      end
  end.

Definition histogram_prob keys n E := run keys n None (tau - 1) E.

Let law_p : is_law p := laplace_law s s_pos.

Lemma run_bounds : forall keys n best top E, 0 <= run keys n best top E <= 1.
Proof.
  induction keys as [|k keys IH]; intros n best top E; simpl; [destruct (E best); lra|].
  destruct (n k); auto. apply mean_bounds; auto. intros z. cbv zeta.
  destruct (top <? _)%Z; auto.
Qed.

Lemma body_test keys n k best top E : test (fun z => let noisy := (Z.of_nat (n k) + z)%Z in
   if (top <? noisy)%Z then run keys n (Some k) noisy E else run keys n best top E).
Proof. intros z. cbv zeta. destruct (top <? _)%Z; apply run_bounds. Qed.

(** Votes that are the same for all keys of the list make no difference. *)
Lemma run_ext : forall keys n n' best top E, (forall k, In k keys -> n k = n' k) ->
  run keys n best top E = run keys n' best top E.
Proof.
  induction keys as [|k keys IH]; intros n n' best top E H; simpl; auto.
  rewrite (H k) by (simpl; auto). destruct (n' k) eqn:K; [apply IH; intros; apply H; simpl; auto|].
  apply mean_ext. intros z. cbv zeta.
  destruct (top <? _)%Z; apply IH; intros; apply H; simpl; auto.
Qed.

(** One key's count moves by one, from at least 1 to at least 1: a factor of 1/a. *)
Lemma run_count : forall keys n n' i best top E, NoDup keys -> (forall k, k <> i -> n k = n' k) ->
  (1 <= n i)%nat -> (1 <= n' i)%nat -> (n i = S (n' i) \/ n' i = S (n i)) ->
  run keys n best top E <= / a * run keys n' best top E.
Proof.
  pose proof (rate_bounds s s_pos) as A. fold a in A.
  assert (1 <= / a) as A1 by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra).
  induction keys as [|k keys IH]; intros n n' i best top E N Same P1 P2 M.
  - simpl. destruct (E best); lra.
  - inversion N as [|? ? Nk N']; subst. simpl. destruct (Z.eq_dec k i) as [->|D].
    + assert (forall b t, run keys n b t E = run keys n' b t E) as Rest.
      { intros b t. apply run_ext. intros j J. apply Same. intros ->; contradiction. }
      destruct (n i) as [|m] eqn:Ei; [lia|]. destruct (n' i) as [|m'] eqn:Ei'; [lia|].
      set (d := (Z.of_nat (S m) - Z.of_nat (S m'))%Z).
      set (f := fun z => if (top <? Z.of_nat (S m')
        + z)%Z then run keys n' (Some i) (Z.of_nat (S m') + z) E else run keys n' best top E).
      rewrite (mean_ext _ _ (fun z => f (z + d)%Z)).
      2:{ intros z. cbv zeta. unfold f, d. replace (Z.of_nat (S m') + (z
          + (Z.of_nat (S m) - Z.of_nat (S m'))))%Z with (Z.of_nat (S m) + z)%Z by lia.
          now rewrite !Rest. }
      apply shifted_mean; auto; [|unfold d; lia].
      intros z. unfold f. destruct (top <? _)%Z; apply run_bounds.
    + rewrite <- (Same k) by auto. destruct (n k) eqn:K; [now apply IH with i|].
      apply mean_le; auto; try lra; try (rewrite <- K; apply body_test).
      * intros z. cbv zeta. destruct (top <? _)%Z; apply run_bounds.
      * intros z. cbv zeta. destruct (top <? _)%Z; apply IH with i; auto.
Qed.

(** (star) of the proof: a key with one vote, which the other world has not. *)
Lemma run_lone : forall keys n n' i best top E, NoDup keys -> (forall k, k <> i -> n k = n' k) ->
  n i = 1%nat -> n' i = 0%nat -> In i keys -> (tau - 1 <= top)%Z ->
  (1 - lone_vote) * run keys n' best top E <= run keys n best top E
      <= (1 - lone_vote) * run keys n' best top E + lone_vote.
Proof.
  assert (0 <= lone_vote <= 1) as L by (apply tail_bounds; now apply laplace_law).
  induction keys as [|k keys IH]; intros n n' i best top E N Same One Zero I T; [destruct I|].
  inversion N as [|? ? Nk N']; subst. simpl. destruct (Z.eq_dec k i) as [->|D].
  - assert (forall b t, run keys n b t E = run keys n' b t E) as Rest.
    { intros b t. apply run_ext. intros j J. apply Same. intros ->; contradiction. }
    rewrite Zero, One. unfold lone_vote, tail. fold p.
    apply mean_split with (S := fun z => (tau - 1 <=? z)%Z); auto.
    + intros z. cbv zeta. destruct (top <? _)%Z; apply run_bounds.
    + apply run_bounds.
    + intros z Hz. cbv zeta. apply Z.leb_gt in Hz.
      destruct (Z.ltb_spec top (Z.of_nat 1 + z)); [lia|]. apply Rest.
  - destruct I as [I|I]; [congruence|]. rewrite <- (Same k) by auto.
    destruct (n k) eqn:K; [now apply IH with i|].
    set (F := fun m z => let noisy := (Z.of_nat (S n0) + z)%Z in
       if (top <? noisy)%Z then run keys m (Some k) noisy E else run keys m best top E).
    assert (forall m, test (F m)) as TF by (intros m z; unfold F; cbv zeta; destruct (top <? _)%Z;
      apply run_bounds).
    assert (forall z, (1 - lone_vote) * F n' z <= F n z <= (1 - lone_vote) * F n' z + lone_vote)
      as Pt.
    { intros z. unfold F. cbv zeta. destruct (Z.ltb_spec top (Z.of_nat (S n0) + z));
        apply IH with i; auto; lia. }
    change ((1 - lone_vote) * mean p (F n') <= mean p (F n)
        <= (1 - lone_vote) * mean p (F n') + lone_vote). split.
    + rewrite <- (Rplus_0_r ((1 - lone_vote) * mean p (F n'))), <- mean_affine by (auto; lra).
      apply mean_mono; auto.
      * intros z. pose proof (TF n' z). pose proof (TF n z). specialize (Pt z). nra.
      * intros z. specialize (Pt z). lra.
    + rewrite <- mean_affine by (auto; lra). apply mean_mono; auto.
      * intros z. pose proof (TF n' z). nra.
      * intros z. specialize (Pt z). lra.
Qed.

(** What one vote more of key [i] does: a factor, or (star) if it is the first. *)
Lemma stage keys n m i E : NoDup keys -> In i keys -> (forall k, k <> i -> n k = m k) ->
    n i = S (m i) ->
  let N := histogram_prob keys n E in let M := histogram_prob keys m E in
  (N <= / a * M /\ M <= / a * N) \/
  ((1 - lone_vote) * M <= N <= (1 - lone_vote) * M + lone_vote).
Proof.
  intros D I Same One. unfold histogram_prob. simpl. destruct (m i) as [|v] eqn:Mi.
  - right. apply run_lone with i; auto. lia.
  - left. split; apply run_count with i; auto; try lia. intros k K; symmetry; auto.
Qed.

(** One vote is taken from [loss], one is given to [gain]. *)
Theorem Theorem_4_events keys n n' gain loss E : NoDup keys ->
  (forall i, is gain i = true \/ is loss i = true -> In i keys) -> moved gain loss n n' ->
  histogram_prob keys n E <= / a * / a * histogram_prob keys n' E + lone_vote.
Proof.
  intros D K Mv. pose proof (rate_bounds s s_pos) as A. fold a in A.
  assert (0 <= lone_vote <= 1) as L by (apply tail_bounds; now apply laplace_law).
  assert (1 <= / a) as A1 by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra).
  pose proof (one_way n n' gain loss Mv) as Way.
  (* The votes without the one that moves: between both worlds. *)
  set (m := fun k => Nat.min (n k) (n' k)).
  assert (forall o i, is o i = true -> o = Some i) as Is.
  { intros o i; destruct o; simpl; [|discriminate]. intros H; apply Z.eqb_eq in H; now subst. }
  assert (forall f, 0 <= histogram_prob keys f E <= 1) as B by (intros; apply run_bounds).
  pose proof (B n) as Bn; pose proof (B m) as Bm; pose proof (B n') as Bn'.
  set (X := histogram_prob keys n E) in *. set (Y := histogram_prob keys m E) in *.
  set (W := histogram_prob keys n' E) in *. set (b := / a) in *. set (d := lone_vote) in *.
  assert (X = Y \/ (X <= b * Y /\ Y <= b * X) \/ ((1 - d) * Y <= X <= (1 - d) * Y + d)) as First.
  { destruct loss as [u|] eqn:El.
    - right. apply stage with u; auto; [apply K; right; simpl; apply Z.eqb_refl| |].
      + intros k Hk. unfold m. destruct (Way k) as [(_ & _ & ->)|[(_ & Lk & _)|(_ & _ & ->)]];
          try lia.
        apply Is in Lk. congruence.
      + unfold m. destruct (Way u) as [(_ & Lu & _)|[(_ & _ & ->)|(_ & Lu & _)]]; try lia;
          simpl in Lu; rewrite Z.eqb_refl in Lu; discriminate.
    - left. apply run_ext. intros k _. unfold m.
      destruct (Way k) as [(_ & _ & ->)|[(_ & Lk & _)|(_ & _ & ->)]]; try lia.
      discriminate. }
  assert (W = Y \/ (W <= b * Y /\ Y <= b * W) \/ ((1 - d) * Y <= W <= (1 - d) * Y + d)) as Second.
  { destruct gain as [v|] eqn:Eg.
    - right. apply stage with v; auto; [apply K; left; simpl; apply Z.eqb_refl| |].
      + intros k Hk. unfold m. destruct (Way k) as [(Gk & _ & _)|[(_ & _ & ->)|(_ & _ & ->)]];
          try lia.
        apply Is in Gk. congruence.
      + unfold m. destruct (Way v) as [(_ & _ & ->)|[(Gv & _ & _)|(Gv & _ & _)]]; try lia;
          simpl in Gv; rewrite Z.eqb_refl in Gv; discriminate.
    - left. apply run_ext. intros k _. unfold m.
      destruct (Way k) as [(Gk & _ & _)|[(_ & _ & ->)|(_ & _ & ->)]]; try lia.
      discriminate. }
  assert (W <= b * W) by nra. assert (b * W <= b * b * W) by (rewrite Rmult_assoc; nra).
  assert (d * Y <= d) by nra. assert (d * X <= d) by nra.
  destruct First as [F|[[F _]|F]]; destruct Second as [G|[[_ G]|G]].
  - rewrite G in *. lra.
  - lra.
  - lra.
  - rewrite <- G in F. lra.
  - assert (b * Y <= b * (b * W)) by (apply Rmult_le_compat_l; lra). lra.
  - assert ((1 - d) * X <= (1 - d) * (b * Y)) by (apply Rmult_le_compat_l; lra).
    assert (b * ((1 - d) * Y) <= b * W) by (apply Rmult_le_compat_l; lra). lra.
  - rewrite <- G in F. assert (0 <= d * W) by nra. lra.
  - assert ((1 - d) * Y <= (1 - d) * (b * W)) by (apply Rmult_le_compat_l; lra).
    assert (0 <= d * (b * W)) by (apply Rmult_le_pos; nra). lra.
  - lra.
Qed.

(** A lone vote in one world and none in the other: the delta is needed. *)
Theorem Theorem_4_tight i n : n i = 1%nat ->
  histogram_prob [i] n (fun o => is o i) = lone_vote /\ histogram_prob [] n (fun o => is o i) = 0.
Proof.
  intros One. split; [|reflexivity]. unfold histogram_prob, lone_vote. simpl. rewrite One.
  unfold mean, tail, prob.
  apply sum_ext. intros z. unfold on. rewrite Z.eqb_refl.
  destruct (Z.ltb_spec (tau - 1) (Z.of_nat 1 + z)); destruct (Z.leb_spec (tau - 1) z); try lia;
    unfold p; ring.
Qed.
End Loop.

(** Noise of scale 2/e: (e, d)-DP, for every event. *)
Theorem Theorem_4 e tau keys n n' gain loss E : 0 < e -> (1 <= tau)%Z -> NoDup keys ->
  (forall i, is gain i = true \/ is loss i = true -> In i keys) -> moved gain loss n n' ->
  histogram_prob (2 / e) tau keys n E
    <= exp e * histogram_prob (2 / e) tau keys n' E + lone_vote (2 / e) tau.
Proof.
  intros He T D K M. assert (0 < 2 / e) as S by (apply Rmult_lt_0_compat;
    [lra|now apply Rinv_0_lt_compat]).
  assert (/ rate (2 / e) * / rate (2 / e) = exp e) as Ea.
  { pose proof (rate_bounds _ S). pose proof (rate_exp (2 / e)) as H1.
    assert (/ rate (2 / e) = exp (/ (2 / e))) as -> by (field_simplify_eq; lra).
    rewrite <- exp_plus. f_equal. field. lra. }
  rewrite <- Ea. now apply Theorem_4_events with gain loss.
Qed.

(** A smaller delta is refuted: one vote for one key, or none. *)
Theorem Theorem_4_smaller_refuted e tau delta : delta < lone_vote (2 / e) tau ->
  exists keys n n' gain loss E, NoDup keys /\ moved gain loss n n' /\
    exp e * histogram_prob (2 / e) tau keys n' E + delta < histogram_prob (2 / e) tau keys n E.
Proof.
  intros L. set (one := fun k : Z => if (k =? 0)%Z then 1%nat else 0%nat).
  exists [0%Z], one, (fun _ => 0%nat), None, (Some 0%Z), (fun o => is o 0).
    split; [repeat constructor; simpl; tauto|].
  split; [split; intros k; unfold one; simpl; auto; destruct (k =? 0)%Z; reflexivity|].
  destruct (Theorem_4_tight (2 / e) tau 0 one eq_refl) as [-> _].
  unfold histogram_prob; simpl. lra.
Qed.

(** The delta in closed form. *)
Theorem lone_vote_closed s tau : 0 < s -> (1 <= tau)%Z ->
  lone_vote s tau = rate s ^ Z.to_nat (tau - 1) / (1 + rate s).
Proof.
  intros S T. unfold lone_vote. destruct (Z.eq_dec tau 1) as [->|D]; [|apply laplace_tail_up;
    auto; lia].
  rewrite laplace_tail_executable by auto. pose proof (rate_bounds s S).
  change (1 - power real (rate s) 1 / (1 + rate s) = rate s ^ 0 / (1 + rate s)).
    rewrite power_pow. simpl. field. lra.
Qed.

(** * The link to the code

    [histogram_from] of Executable.v, the text of which the tables are values, is the same loop with
    the sum over all integers replaced by that over [-width, width]. *)

Section Link.
Variable s : R.
Variable keys : list Z.
Variable n : Z -> nat.

Fixpoint run_by (average : (Z -> R) -> R) (l : list Z) (best : option Z) (top : Z) (E : option Z ->
    bool) : R :=
  match l with
  | [] => if E best then 1 else 0
  | k :: rest =>
      match n k with
      | O => run_by average rest best top E
      | S _ => average (fun z =>
          let noisy := (Z.of_nat (n k) + z)%Z in
          if (top <? noisy)%Z then run_by average rest (Some k) noisy E else run_by average rest
              best top E)
      end
  end.

Lemma mass_cons {A} keep (x : A) (q : R) (l : law real A) :
  mass real keep ((x, q) :: l) = (if keep x then q else 0) + mass real keep l.
Proof. reflexivity. Qed.

Lemma mass_app {A} keep (l m : law real A) : mass real keep (l ++ m)
    = mass real keep l + mass real keep m.
Proof.
  induction l as [|[x q] l IH]; [symmetry; apply Rplus_0_l|].
  change (((x, q) :: l) ++ m) with ((x, q) :: (l ++ m)). rewrite !mass_cons, IH.
    symmetry; apply Rplus_assoc.
Qed.

Lemma mass_scaled {A} keep (c : R) (l : law real A) :
  mass real keep (map (fun yq => (fst yq, c * snd yq)) l) = c * mass real keep l.
Proof.
  induction l as [|[x q] l IH]; [symmetry; apply Rmult_0_r|].
  change (map (fun yq : A * R => (fst yq, c * snd yq)) ((x, q) :: l))
    with ((x, c * q) :: map (fun yq : A * R => (fst yq, c * snd yq)) l).
  rewrite !mass_cons, IH. destruct (keep x); [symmetry; apply Rmult_plus_distr_l|].
  transitivity (c * mass real keep l); [apply Rplus_0_l|]. f_equal. symmetry; apply Rplus_0_l.
Qed.

Lemma mass_bind {A B} keep (l : law real A) (f : A -> law real B) :
  mass real keep (Executable.bind real l f) = lsum (fun xp => snd xp * mass real keep (f (fst xp)))
      l.
Proof.
  induction l as [|x l IH]; [reflexivity|].
  change (Executable.bind real (x :: l) f)
    with (map (fun yq : B * R => (fst yq, snd x * snd yq)) (f (fst x)) ++ Executable.bind real l f).
  rewrite mass_app, IH, mass_scaled. reflexivity.
Qed.

Lemma laplace_mass_is z : laplace_mass real (rate s) z = laplace s z.
Proof. unfold laplace_mass. rewrite power_pow. reflexivity. Qed.

Definition within (width : nat) (f : Z -> R) : R :=
  lsum (fun m => let z := (Z.of_nat m - Z.of_nat width)%Z in laplace s z * f z) (seq 0 (2 * width
      + 1)).

Theorem histogram_is_executable width E : forall l best top,
  mass real E (histogram_from real (rate s) width (votes l n) best top)
      = run_by (within width) l best top E.
Proof.
  induction l as [|k l IH]; intros best top.
  - simpl. unfold mass, Executable.total. simpl. destruct (E best); apply Rplus_0_r.
  - simpl. destruct (n k) as [|m] eqn:K; [apply IH|]. rewrite mass_bind.
    unfold Executable.laplace, within.
    rewrite lsum_map. apply lsum_ext. intros i.
    apply (f_equal2 Rmult); [exact (laplace_mass_is _)|]. cbv zeta. simpl fst.
    destruct (top <? _)%Z; apply IH.
Qed.
End Link.
