(** The draw of Theorem 15 is the one of Executable.v, from which proofs/tables are computed.

    Executable.v draws from a list: nothing, the drops, the active keys. It divides weights by that of
    the best score, as the code does, and has a base [a] where the theorem has exp (- r). *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Executable Link.
From Littlestone Require Import Laws CausesRows CausesDraw.
Import ListNotations.
Open Scope R_scope.

Notation real := Executable.real.

Lemma total_lsum {T} (f : T -> R) l : Executable.total real (map f l) = lsum f l.
Proof. induction l as [|x l IH]; [reflexivity|]. simpl. now rewrite <- IH. Qed.

Lemma power_exp r n : Executable.power real (exp (- r)) n = exp (- r * INR n).
Proof.
  induction n as [|n IH].
  - simpl. now rewrite Rmult_0_r, exp_0.
  - rewrite S_INR, Rmult_plus_distr_l, Rmult_1_r, exp_plus, Rmult_comm, <- IH. reflexivity.
Qed.

(** Dividing all weights by that of the best score changes no probability. *)
Lemma candidate_weight_eq r best (c : R * Z) : (snd c <= best)%Z ->
  Executable.candidate_weight real (exp (- r)) best c
  = exp (- r * IZR best) * (fst c * exp (r * IZR (snd c))).
Proof.
  destruct c as [w s]. unfold Executable.candidate_weight. cbn [fst snd]. intros B.
  rewrite power_exp, INR_IZR_INZ, Z2Nat.id, minus_IZR by lia.
  replace (- r * (IZR best - IZR s)) with (- r * IZR best + r * IZR s) by ring.
  rewrite exp_plus. simpl. ring.
Qed.

Lemma exponential_eq r (candidates : list (R * Z)) :
  let w := fun c : R * Z => fst c * exp (r * IZR (snd c)) in
  Executable.exponential real (exp (- r)) candidates
  = map (fun c => w c / lsum w candidates) candidates.
Proof.
  intros w. unfold Executable.exponential. set (best := Executable.best_score real candidates).
  assert (forall c, In c candidates ->
    Executable.candidate_weight real (exp (- r)) best c = exp (- r * IZR best) * w c) as Each.
  { intros c I. apply candidate_weight_eq. now apply Link.best_most. }
  assert (Executable.total real (map (Executable.candidate_weight real (exp (- r)) best) candidates)
          = exp (- r * IZR best) * lsum w candidates) as Total.
  { rewrite total_lsum, <- lsum_scal. now apply lsum_ext_in. }
  apply map_ext_in. intros c I. rewrite Total, (Each c I).
  pose proof (exp_pos (- r * IZR best)) as P. simpl.
  unfold Rdiv. destruct (Req_dec (lsum w candidates) 0) as [->|N].
  - rewrite !Rmult_0_r, !Rinv_0. ring.
  - field. split; lra.
Qed.

Section Link.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Variables (miss alarm : Z) (lowers : list pattern -> key pattern outcome -> bool) (r delta : R).
Variable pub : public (pattern := pattern) (outcome := outcome).
Variable rows : list (row pattern outcome).
Variable active_keys : list (key pattern outcome).
Variable pen : Z.
Hypothesis delta_nonneg : 0 <= delta.
Hypothesis prior_nonneg : nonneg (prior pub).
Hypothesis unique_keys : NoDup active_keys.
Hypothesis unique_causes : NoDup (published pub).
(** The active keys, none where the limit is reached; one penalty for all drops, in missed positives. *)
Hypothesis keys_are : forall k, In k active_keys <-> may_add pub && active (published pub) rows k = true.
Hypothesis penalties : forall b, penalty pub b = (pen * miss)%Z.

Notation score := (score miss alarm lowers (published pub) rows).

Theorem draw_is_executable :
  map (draw miss alarm lowers r delta pub rows)
    (nothing :: map drop (published pub) ++ map add active_keys)
  = Executable.causes_draw real (exp (- r)) delta miss pen
      (map (fun b => score (drop b)) (published pub))
      (map (fun k => (prior pub (fst k), (score (add k) - margin pub)%Z)) active_keys).
Proof.
  set (moves := nothing :: map drop (published pub) ++ map add active_keys).
  set (candidate := fun m => (base delta pub m, (score m - offset miss pub m)%Z)).
  assert (Executable.causes_candidates real delta miss pen
      (map (fun b => score (drop b)) (published pub))
      (map (fun k => (prior pub (fst k), (score (add k) - margin pub)%Z)) active_keys)
    = map candidate moves) as Same.
  { unfold Executable.causes_candidates, moves. simpl map. unfold candidate at 1. f_equal.
    - simpl. f_equal. rewrite (score_of_idle miss alarm lowers pub). reflexivity.
    - rewrite map_app, !map_map. f_equal; apply map_ext.
      + intros b. unfold candidate. simpl. now rewrite penalties.
      + intros k. unfold candidate. simpl. f_equal. lia. }
  assert (forall m, In m moves -> weight miss alarm lowers r delta pub rows m
    = fst (candidate m) * exp (r * IZR (snd (candidate m)))) as Weight.
  { intros m I. unfold weight, candidate. cbn [fst snd].
    replace (exists_in pub rows m) with true; [reflexivity|]. symmetry.
    destruct I as [<-|I]; [reflexivity|].
    apply in_app_or in I as [I|I]; apply in_map_iff in I as (k & <- & I); cbn [exists_in].
    - destruct (in_dec eq_dec k (published pub)); tauto.
    - now apply keys_are. }
  assert (NoDup moves) as Unique.
  { constructor.
    - intros I. apply in_app_or in I as [I|I]; apply in_map_iff in I as (k & E & _); discriminate.
    - assert (NoDup (map (@drop pattern outcome) (published pub))) as Nd
        by (apply FinFun.Injective_map_NoDup; auto; intros a b E; congruence).
      assert (NoDup (map (@add pattern outcome) active_keys)) as Na
        by (apply FinFun.Injective_map_NoDup; auto; intros a b E; congruence).
      revert Nd. generalize (published pub). induction l as [|b l IH]; simpl; auto.
      intros Nd. inversion_clear Nd. constructor; auto.
      intros I. apply in_app_or in I as [I|I]; [contradiction|].
      apply in_map_iff in I as (k & E & _); discriminate. }
  assert (sum (weight miss alarm lowers r delta pub rows)
          = lsum (weight miss alarm lowers r delta pub rows) moves) as Total.
  { apply (sum_finite (weight miss alarm lowers r delta pub rows) moves); auto.
    - now apply weight_nonneg.
    - intros m No. unfold weight. destruct (exists_in pub rows m) eqn:Here; auto. elim No.
      destruct m as [|k|b]; [now left| |]; right; apply in_or_app; cbn [exists_in] in Here.
      + right. now apply in_map, keys_are.
      + left. apply in_map. now destruct (in_dec eq_dec b (published pub)). }
  unfold Executable.causes_draw. rewrite Same, exponential_eq, map_map, lsum_map.
  apply map_ext_in. intros m I. unfold draw, drawn.
  rewrite Total, (lsum_ext_in _ _ _ Weight), (Weight m I). reflexivity.
Qed.

End Link.
