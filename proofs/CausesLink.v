(** The draw of Theorem 15 is the one of Executable.v, from which proofs/tables are computed.

    Executable.v draws from a list: nothing, the drops, the active keys. It divides weights by that of
    the best score, as the code does, and has a base [a] where the theorem has exp (- r). *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Executable Link.
From Littlestone Require Import Laws Effect CausesDraw.
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
Variables (al be : Z) (lowers : list pattern -> key pattern outcome -> bool) (delta : R).
Variable pub : public pattern outcome.
Variable rows : list (row pattern outcome).
Variable active_keys : list (key pattern outcome).
Variables penalty margin : Z.
Hypothesis delta_nonneg : 0 <= delta.
Hypothesis ok : proper pub.
Hypothesis costs : (0 <= al)%Z /\ (0 <= be)%Z.
Hypothesis unique_keys : NoDup active_keys.
Hypothesis unique_causes : NoDup (published pub).
(** As in the code of today: drops are all that is listed, with one penalty in missed positives; the active keys, none
    where the limit is reached. *)
Hypothesis only_drops : listed pub = map drop (published pub).
Hypothesis keys_are : forall k, In k active_keys <-> may_add pub && active (published pub) rows k = true.
Hypothesis drops_are : forall b, base pub (drop b) = 1 /\ offset pub (drop b) = (penalty * positive pub)%Z /\
  clipped pub (drop b) = false.
Hypothesis bar_is : bar pub = (positive pub + margin)%Z.

Notation score := (score (positive pub) (negative pub) al be lowers (published pub) rows).

Theorem draw_is_executable :
  map (draw lowers delta pub al be rows)
    (None :: map (fun b => Some (drop b)) (published pub) ++ map (fun k => Some (add k)) active_keys)
  = Executable.causes_draw real (exp (- rate pub)) delta (positive pub) penalty
      (map (fun b => score (Some (drop b))) (published pub))
      (map (fun k => (prior pub (fst k), (score (Some (add k)) - margin)%Z)) active_keys).
Proof.
  set (moves := None :: map (fun b => Some (drop b)) (published pub) ++ map (fun k => Some (add k)) active_keys).
  assert (forall b, is_listed pub (drop b) = if in_dec eq_dec b (published pub) then true else false) as Drops.
  { intros b. unfold is_listed. destruct (in_dec eq_dec (drop b) (listed pub)) as [I|I]; rewrite only_drops in I.
    - apply in_map_iff in I as (b' & E & I). injection E as ->. destruct (in_dec eq_dec b (published pub)); tauto.
    - destruct (in_dec eq_dec b (published pub)) as [J|]; trivial. elim I. now apply in_map. }
  assert (forall c, (forall b, c <> drop b) -> is_listed pub c = false) as Others.
  { intros c No. unfold is_listed. destruct (in_dec eq_dec c (listed pub)) as [I|I]; trivial. rewrite only_drops in I.
    apply in_map_iff in I as (b & E & _). now elim (No b). }
  set (candidate := fun m => (weight_at delta pub m, (value lowers pub al be rows m - offset_at pub m)%Z)).
  assert (Executable.causes_candidates real delta (positive pub) penalty
      (map (fun b => score (Some (drop b))) (published pub))
      (map (fun k => (prior pub (fst k), (score (Some (add k)) - margin)%Z)) active_keys)
    = map candidate moves) as Same.
  { unfold Executable.causes_candidates, moves. simpl map. unfold candidate at 1. f_equal.
    - unfold value. rewrite (score_of_idle lowers pub). reflexivity.
    - rewrite map_app, !map_map. f_equal; apply map_ext_in.
      + intros b I. unfold candidate, weight_at, offset_at, value. rewrite Drops.
        destruct (drops_are b) as (-> & -> & ->). destruct (in_dec eq_dec b (published pub)); [reflexivity|tauto].
      + intros k _. unfold candidate, weight_at, offset_at, value. rewrite Others, bar_is by discriminate. simpl. f_equal. lia. }
  assert (forall m, In m moves -> weight lowers delta pub al be rows m
    = fst (candidate m) * exp (rate pub * IZR (snd (candidate m)))) as Weight.
  { intros m I. unfold weight, candidate. cbn [fst snd].
    replace (exists_in pub rows m) with true; [reflexivity|]. symmetry.
    destruct I as [<-|I]; [reflexivity|].
    apply in_app_or in I as [I|I]; apply in_map_iff in I as (k & <- & I); cbn [exists_in].
    - rewrite Drops. destruct (in_dec eq_dec k (published pub)); tauto.
    - rewrite Others by discriminate. cbn. now apply keys_are. }
  assert (NoDup moves) as Unique.
  { constructor.
    - intros I. apply in_app_or in I as [I|I]; apply in_map_iff in I as (k & E & _); discriminate.
    - assert (NoDup (map (fun b => Some (@drop pattern outcome b)) (published pub))) as Nd
        by (apply FinFun.Injective_map_NoDup; auto; intros a b E; congruence).
      assert (NoDup (map (fun k => Some (@add pattern outcome k)) active_keys)) as Na
        by (apply FinFun.Injective_map_NoDup; auto; intros a b E; congruence).
      revert Nd. generalize (published pub). induction l as [|b l IH]; simpl; auto.
      intros Nd. inversion_clear Nd. constructor; auto.
      intros I. apply in_app_or in I as [I|I]; [contradiction|].
      apply in_map_iff in I as (k & E & _); discriminate. }
  assert (sum (weight lowers delta pub al be rows) = lsum (weight lowers delta pub al be rows) moves) as Total.
  { apply (sum_finite (weight lowers delta pub al be rows) moves); auto.
    - now apply weight_nonneg.
    - intros m No. unfold weight. destruct (exists_in pub rows m) eqn:Here; auto. elim No.
      destruct m as [[k|b|b k]|]; [| | |now left]; right; apply in_or_app; cbn [exists_in] in Here.
      + rewrite Others in Here by discriminate. right. apply in_map_iff. exists k. split; trivial. now apply keys_are.
      + rewrite Drops, orb_false_r in Here. left. apply in_map_iff. exists b. split; trivial.
        now destruct (in_dec eq_dec b (published pub)).
      + rewrite Others in Here by discriminate. discriminate. }
  unfold Executable.causes_draw. rewrite Same, exponential_eq, map_map, lsum_map.
  apply map_ext_in. intros m I. unfold draw, drawn.
  apply f_equal2; [exact (Weight m I)|]. etransitivity; [exact Total|]. exact (lsum_ext_in _ _ _ Weight).
Qed.

End Link.
