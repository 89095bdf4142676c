(** Costs along the tree of transcripts: what a gate costs, and sums of costs that are chosen on the way.

    A transcript is a list of events of type [A]; [h] is the history at which the next one is drawn, newest
    first. In world 0 a transcript has the probability [weight h] times the product of the [kernel g a] of its
    events: the weight is what is compared as a whole (for a gate, the monitor's answers), the kernels are what
    is drawn event by event. After a history either an answer is given ([watches h]), and the kernels are equal;
    or an event is drawn, from a law that costs [(e h, d h)], and the weight stays. Primed names are world 1. All
    of it may depend on the history, so streams may react.
    tree_close: if on every transcript the costs sum to at most (eps, delta), where the weight's is what it is in
    the end, then the law of the transcript is (eps, delta)-close.
    Filter: the case without weights, equation (F) of Theorem 18. *)

From Coq Require Import Reals List Lra Lia Bool.
From Littlestone Require Import Laws Transcripts.
Import ListNotations.
Open Scope R_scope.

(** Summing over lists, by their first element. *)
Lemma prob_lists {A} `{EqDec A} (f : list A -> R) (F : A -> R) T : nonneg f -> f [] = 0 ->
  (forall a, summable (fun l => f (a :: l))) -> (forall a, sum (fun l => f (a :: l)) <= F a) -> summable F ->
  summable f /\ prob f T = sum (fun a => prob (fun l => f (a :: l)) (fun l => T (a :: l))).
Proof.
  intros P Nil Sa Le SF.
  assert (forall f, nonneg f -> f [] = 0 -> (forall a, summable (fun l => f (a :: l))) ->
    (forall a, sum (fun l => f (a :: l)) <= F a) ->
    summable f /\ sum f = sum (fun a => sum (fun l => f (a :: l)))) as Sums.
  { clear - SF H. intros f P Nil Sa Le. set (pair := fun x : A * list A => fst x :: snd x).
    destruct (sum_reindex pair f) as [Sm ->]; auto.
    - intros [a l] [a' l'] E; inversion E; reflexivity.
    - intros [|a l] Nz; [tauto|]. now exists (a, l).
    - destruct (sum_pair (fun x => f (pair x))) as [S ->]; [intros x; apply P| |].
      + split; auto. now apply summable_le with F.
      + split; [now apply Sm|reflexivity]. }
  split; [now apply Sums|]. unfold prob. destruct (Sums (on T f)) as [_ ->]; [now apply on_nonneg| | | |reflexivity].
  - unfold on. rewrite Nil. now destruct (T []).
  - intros a. apply summable_le with (fun l => f (a :: l)); auto. intros l. now apply on_le.
  - intros a. eapply Rle_trans; [|apply Le]. apply sum_le; auto. intros l. now apply on_le.
Qed.

Section Tree.
Context {A : Type} `{EqDec A}.
Local Notation history := (list A).
Variable watches : history -> bool.

(** What one world is made of. *)
Record world := {
  weight : history -> R;
  kernel : history -> A -> R;
  weight_nonneg : nonneg weight;
  weight_start : weight [] = 1;
  kernel_nonneg : forall h, nonneg (kernel h);
  answers : forall h, watches h = true ->
    summable (fun a => kernel h a * weight (a :: h)) /\ sum (fun a => kernel h a * weight (a :: h)) = weight h;
  draws : forall h, watches h = false -> is_law (kernel h) /\ forall a, weight (a :: h) = weight h }.

(** The transcripts of [n] events after [h], each with its probability. *)
Fixpoint run (w : world) (n : nat) (h : history) (l : list A) : R :=
  match n, l with
  | O, [] => weight w h
  | S k, a :: rest => kernel w h a * run w k (a :: h) rest
  | _, _ => 0
  end.

Definition transcripts (w : world) (n : nat) : list A -> R := run w n [].

Lemma node w h : summable (fun a => kernel w h a * weight w (a :: h)) /\
  sum (fun a => kernel w h a * weight w (a :: h)) = weight w h.
Proof.
  destruct (watches h) eqn:W; [now apply answers|].
  destruct (draws w h W) as [(P & S & One) Same]. pose proof (weight_nonneg w h) as Wn.
  assert (forall a, weight w h * kernel w h a = kernel w h a * weight w (a :: h)) as E by (intros; rewrite Same; ring).
  split; [eapply summable_ext; [apply E|now apply summable_scal]|].
  rewrite <- (sum_ext _ _ E), sum_scal, One; auto; ring.
Qed.

Lemma run_nonneg w n : forall h, nonneg (run w n h).
Proof.
  induction n as [|n IH]; intros h [|a l]; simpl; try lra; [apply weight_nonneg|].
  apply Rmult_le_pos; [apply kernel_nonneg|apply IH].
Qed.

Lemma run_sum w n : forall h, summable (run w n h) /\ sum (run w n h) = weight w h.
Proof.
  induction n as [|n IH]; intros h.
  - destruct (sum_finite (run w 0 h) [[]]) as [S E]; [apply run_nonneg| | |].
    + constructor; simpl; auto; constructor.
    + intros [|a l] No; simpl in *; tauto.
    + split; auto. rewrite E. simpl. ring.
  - destruct (node w h) as [S E].
    assert (forall a, summable (fun l => run w (Datatypes.S n) h (a :: l)) /\
      sum (fun l => run w (Datatypes.S n) h (a :: l)) = kernel w h a * weight w (a :: h)) as Each.
    { intros a. destruct (IH (a :: h)) as [Sa Ea]. pose proof (kernel_nonneg w h a).
      split; [now apply summable_scal|]. simpl. now rewrite sum_scal, Ea. }
    destruct (prob_lists (run w (Datatypes.S n) h) (fun a => kernel w h a * weight w (a :: h)) (fun _ => true))
      as [Sr Er]; auto; try (apply run_nonneg); try (intros; apply Each); [intros a; right; apply Each|].
    split; auto. rewrite <- E. transitivity (prob (run w (Datatypes.S n) h) (fun _ => true)); [reflexivity|].
    rewrite Er. apply sum_ext; intros a. apply Each.
Qed.

Lemma prob_run w n h T : prob (run w (S n) h) T =
  sum (fun a => kernel w h a * prob (run w n (a :: h)) (fun l => T (a :: l))).
Proof.
  assert (forall a, summable (run w n (a :: h))) as Sr by (intros; apply run_sum).
  destruct (node w h) as [S _].
  destruct (prob_lists (run w (Datatypes.S n) h) (fun a => kernel w h a * weight w (a :: h)) T) as [_ ->]; auto.
  - apply run_nonneg.
  - intros a. apply summable_scal; auto. apply kernel_nonneg.
  - intros a. simpl. rewrite sum_scal; auto; [|apply kernel_nonneg]. right. f_equal. apply run_sum.
  - apply sum_ext; intros a. unfold prob.
    rewrite <- sum_scal; [|apply kernel_nonneg|apply on_summable; auto; apply run_nonneg].
    apply sum_ext; intros l. unfold on; simpl. destruct (T (a :: l)); ring.
Qed.

Lemma prob_run_bounds w n h T : 0 <= prob (run w n h) T <= weight w h.
Proof.
  destruct (run_sum w n h) as [S E]. pose proof (run_nonneg w n h). split.
  - apply sum_nonneg. now apply on_summable.
  - rewrite <- E. apply sum_le; auto. intros l. now apply on_le.
Qed.

Theorem transcripts_law w n : is_law (transcripts w n).
Proof. destruct (run_sum w n []) as [S E]. split; [apply run_nonneg|split; auto].
  unfold transcripts. now rewrite E, weight_start.
Qed.

(** * Two worlds *)

Variables w w' : world.
Variables e d : history -> R.
Variables eps delta : R.
Hypothesis same_answers : forall h a, watches h = true -> kernel w h a = kernel w' h a.
Hypothesis close_draws : forall h, watches h = false -> close (e h) (d h) (kernel w h) (kernel w' h).

(** The costs of what was drawn on the way to [h]. *)
Fixpoint spent (c : history -> R) (h : history) : R :=
  match h with [] => 0 | _ :: g => (if watches g then 0 else c g) + spent c g end.

Hypothesis weights : forall h, weight w h <= exp (eps - spent e h) * weight w' h.
Hypothesis deltas : forall h, spent d h <= delta.

(** From the last event backwards: at most [delta] less what is spent can still be lost of the weight. *)
Lemma run_close n : forall h T,
  prob (run w n h) T <= exp (eps - spent e h) * prob (run w' n h) T + (delta - spent d h) * weight w h.
Proof.
  induction n as [|n IH]; intros h T.
  - assert (forall v, prob (run v 0 h) T = if T [] then weight v h else 0) as End.
    { intros v. unfold prob. destruct (sum_finite (on T (run v 0 h)) [[]]) as [_ ->].
      - apply on_nonneg, run_nonneg. - constructor; simpl; auto; constructor.
      - intros [|a l] No; simpl in No; [tauto|]. unfold on. now destruct (T (a :: l)).
      - simpl. unfold on. simpl. destruct (T []); ring. }
    rewrite !End. specialize (weights h). specialize (deltas h). pose proof (weight_nonneg w h).
    assert (0 <= (delta - spent d h) * weight w h) by (apply Rmult_le_pos; lra). destruct (T []); lra.
  - rewrite !prob_run.
    set (v := fun a => prob (run w n (a :: h)) (fun l => T (a :: l))).
    set (v' := fun a => prob (run w' n (a :: h)) (fun l => T (a :: l))).
    change (sum (fun a => kernel w h a * v a) <=
      exp (eps - spent e h) * sum (fun a => kernel w' h a * v' a) + (delta - spent d h) * weight w h).
    assert (forall a, 0 <= v a <= weight w (a :: h)) as B by (intros; apply prob_run_bounds).
    assert (forall a, 0 <= v' a <= weight w' (a :: h)) as B' by (intros; apply prob_run_bounds).
    pose proof (kernel_nonneg w h) as K. pose proof (kernel_nonneg w' h) as K'.
    destruct (node w h) as [S E]. destruct (node w' h) as [S' _].
    assert (summable (fun a => kernel w h a * v a)) as Sv.
    { apply summable_le with (fun a => kernel w h a * weight w (a :: h)); auto.
      intros a. apply Rmult_le_compat_l; auto. apply B. }
    assert (summable (fun a => kernel w' h a * v' a)) as Sv'.
    { apply summable_le with (fun a => kernel w' h a * weight w' (a :: h)); auto.
      intros a. apply Rmult_le_compat_l; auto. apply B'. }
    assert (forall a, v a <= exp (eps - spent e (a :: h)) * v' a + (delta - spent d (a :: h)) * weight w (a :: h)) as Step.
    { intros a. apply IH. }
    destruct (watches h) eqn:W.
    + pose proof (exp_pos_le (eps - spent e h)) as Ex. pose proof (deltas h).
      apply Rle_trans with (sum (fun a => exp (eps - spent e h) * (kernel w' h a * v' a)
        + (delta - spent d h) * (kernel w h a * weight w (a :: h)))).
      * apply sum_le; [|apply summable_plus; apply summable_scal; auto; lra].
        intros a. rewrite <- (same_answers h a W). specialize (Step a).
        simpl spent in Step. rewrite W, !Rplus_0_l in Step.
        apply Rmult_le_compat_l with (r := kernel w h a) in Step; auto. lra.
      * rewrite sum_plus, !sum_scal, E; auto; try lra; try (apply summable_scal; auto; lra);
          intros a; apply Rmult_le_pos; try lra; apply Rmult_le_pos; auto; [apply B'|apply weight_nonneg].
    + destruct (draws w h W) as [L Same]. destruct (draws w' h W) as [L' Same'].
      pose proof (close_draws h W) as C. set (W0 := weight w h) in *. set (rest := delta - (d h + spent d h)) in *.
      set (x := exp (eps - (e h + spent e h))) in *. assert (0 <= x) as X by apply exp_pos_le.
      assert (0 <= W0) as [Pos|Zero] by apply weight_nonneg.
      2: { (* nothing leads here *)
        rewrite <- Zero, Rmult_0_r, Rplus_0_r.
        rewrite (sum_ext _ (fun _ => 0)); [|intros a; specialize (B a); rewrite Same, <- Zero in B; replace (v a) with 0 by lra; ring].
        rewrite sum_zero. apply Rmult_le_pos; [apply exp_pos_le|]. now apply sum_nonneg. }
      (* a test with values from 0 to 1 *)
      set (f := fun a => Rmin 1 (x * v' a / W0)).
      assert (forall a, 0 <= x * v' a) as Xv by (intros a; apply Rmult_le_pos; auto; apply B').
      assert (forall a, 0 <= f a <= 1) as F.
      { intros a. unfold f. split; [|apply Rmin_l]. apply Rmin_glb; [lra|].
        apply Rmult_le_pos; auto. left; now apply Rinv_0_lt_compat. }
      assert (forall a, v a <= W0 * f a + rest * W0) as Le.
      { intros a. specialize (Step a). specialize (B a). simpl spent in Step. rewrite W, Same in Step.
        rewrite Same in B. fold W0 in Step, B. fold x rest in Step.
        assert (0 <= rest) as Rest.
        { pose proof (deltas (a :: h)) as Da. simpl in Da. rewrite W in Da. unfold rest. lra. }
        assert (0 <= rest * W0) by (apply Rmult_le_pos; lra).
        unfold f, Rmin. destruct (Rle_dec 1 (x * v' a / W0)); [lra|].
        replace (W0 * (x * v' a / W0)) with (x * v' a) by (field; lra). lra. }
      assert (sum (fun a => kernel w h a * f a) <= exp (e h) * sum (fun a => kernel w' h a * f a) + d h) as Test.
      { apply close_test; auto; now apply law_sub. }
      assert (forall p : A -> R, is_law p -> summable (fun a => p a * f a) /\ nonneg (fun a => p a * f a)) as Sf.
      { intros p (P & Sp & _). split; [|intros a; apply Rmult_le_pos; auto; apply F].
        apply summable_le with p; auto. intros a. rewrite <- (Rmult_1_r (p a)) at 2.
        apply Rmult_le_compat_l; [apply P|apply F]. }
      destruct (Sf _ L) as [Sf1 Pf1]. destruct (Sf _ L') as [Sf2 Pf2].
      destruct L as (_ & Sk & One).
      assert (0 <= rest) as Rest.
      { destruct (Rle_lt_dec 0 rest) as [|Neg]; auto. exfalso.
        assert (sum (kernel w h) <= 0); [|lra]. apply sum_le_bound. intros [|a l] _; [simpl; lra|].
        pose proof (deltas (a :: h)) as Da. simpl in Da. rewrite W in Da. unfold rest in Neg. lra. }
      apply Rle_trans with (sum (fun a => W0 * (kernel w h a * f a) + rest * W0 * kernel w h a)).
      * assert (0 <= rest * W0) by (apply Rmult_le_pos; lra).
        apply sum_le; [|apply summable_plus; apply summable_scal; auto; lra].
        intros a. specialize (Le a). apply Rmult_le_compat_l with (r := kernel w h a) in Le; auto. lra.
      * assert (0 <= rest * W0) by (apply Rmult_le_pos; lra).
        rewrite sum_plus, !sum_scal, One; auto; try lra; try (apply summable_scal; auto; lra);
          try (intros a; apply Rmult_le_pos; auto; lra).
        assert (sum (fun a => W0 * (kernel w' h a * f a)) <= x * sum (fun a => kernel w' h a * v' a)) as Back.
        { rewrite <- sum_scal; auto. apply sum_le; [|now apply summable_scal].
          intros a. pose proof (Rmin_r 1 (x * v' a / W0)) as M. fold (f a) in M.
          apply Rmult_le_compat_l with (r := W0) in M; [|lra].
          replace (W0 * (x * v' a / W0)) with (x * v' a) in M by (field; lra).
          apply Rmult_le_compat_l with (r := kernel w' h a) in M; auto. lra. }
        rewrite sum_scal in Back; auto; [|lra].
        apply Rmult_le_compat_l with (r := W0) in Test; [|lra].
        apply Rmult_le_compat_l with (r := exp (e h)) in Back; [|apply exp_pos_le].
        replace (exp (eps - spent e h)) with (exp (e h) * x)
          by (unfold x; rewrite <- exp_plus; f_equal; ring).
        unfold rest in *. lra.
Qed.

Theorem tree_close n : close eps delta (transcripts w n) (transcripts w' n).
Proof.
  intros T. pose proof (run_close n [] T) as C. simpl spent in C. rewrite weight_start, !Rminus_0_r, Rmult_1_r in C.
  exact C.
Qed.
End Tree.

Arguments world {A} watches.

(** Laws that depend on what was drawn before, whose costs do too. If they add up to at most (eps, delta) on every
    transcript, then all of it is (eps, delta)-close, however many are drawn. *)
Section Filter.
Context {A : Type} `{EqDec A}.
Definition drawn_only (t : list A -> A -> R) (law : forall h, is_law (t h)) : world (fun _ : list A => false).
Proof.
  refine {| weight _ := 1; kernel := t |}; auto; try discriminate.
  - intros h; lra. - intros h; apply law.
Defined.

Variables s s' : list A -> A -> R.
Variables e d : list A -> R.
Variables eps delta : R.
Hypothesis s_law : forall h, is_law (s h).
Hypothesis s'_law : forall h, is_law (s' h).
Hypothesis near : forall h, close (e h) (d h) (s h) (s' h).

Theorem Filter n : (forall h, spent (fun _ => false) e h <= eps) -> (forall h, spent (fun _ => false) d h <= delta) ->
  close eps delta (transcripts _ (drawn_only s s_law) n) (transcripts _ (drawn_only s' s'_law) n).
Proof.
  intros E D. apply tree_close with e d; auto; [discriminate|]. intros h. simpl. rewrite Rmult_1_r, <- exp_0.
  apply exp_le. specialize (E h). lra.
Qed.
End Filter.
