(** The link to the code, for Theorems 2, 3, 6, 15 and 19: the formulas of Executable.v are those of the
    theorems.

    [check_*_executable]: the probability of a "yes" of a check, as the tables compute it, is that
    of the check in SparseVector.v and Monitor.v, for both kinds of noise; so is the mass of the
    threshold noise. [exponential_is_executable]: the law of a draw by weights and scores, as the
    tables compute it, is that of Exponential.v; the draws of the causes learner, by rows and by
    users, are the same law with their own weights and scores. How checks follow each other is written twice, here and in the
    theorems' files, after the same code. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Executable.
From Littlestone Require Import Sums Laws Noise Transcripts Exponential Selection Histogram.
Import ListNotations.
Open Scope R_scope.

Section Noise.
Variable s : R.
Hypothesis s_pos : 0 < s.

Lemma geometric_mass_executable k : geometric_mass real (rate s) k = one_sided s (Z.of_nat k).
Proof.
  unfold geometric_mass, one_sided. rewrite power_pow. destruct (Z.leb_spec 0 (Z.of_nat k)); [|lia].
  now replace (Z.abs_nat (Z.of_nat k)) with k by lia.
Qed.

Lemma one_sided_tail_step x : (0 <= x)%Z -> tail (one_sided s) (x + 1)
    = rate s * tail (one_sided s) x.
Proof.
  intros X. destruct (one_sided_law s s_pos) as (P & S & _). pose proof (rate_bounds s s_pos) as A.
  unfold tail, prob. destruct (sum_shift (on (fun k => (x + 1 <=? k)%Z) (one_sided s)) 1)
    as [_ ->]; [now apply on_nonneg|].
  rewrite <- sum_scal; [|lra|now apply on_summable]. apply sum_ext. intros k. unfold on.
  destruct (Z.leb_spec x k), (Z.leb_spec (x + 1) (k + 1)); try lia; [|ring]. unfold one_sided.
  destruct (Z.leb_spec 0 k), (Z.leb_spec 0 (k + 1)); try lia.
  replace (Z.abs_nat (k + 1)) with (Datatypes.S (Z.abs_nat k)) by lia. simpl; ring.
Qed.

Theorem geometric_tail_executable x : tail (one_sided s) x = geometric_tail real (rate s) x.
Proof.
  unfold geometric_tail. rewrite power_pow. destruct (one_sided_law s s_pos) as (P & S & E).
  assert (forall y, (y <= 0)%Z -> tail (one_sided s) y = 1) as Low.
  { intros y Y. rewrite <- E. apply sum_ext. intros k. unfold on, one_sided.
    destruct (Z.leb_spec y k), (Z.leb_spec 0 k); auto; lia. }
  destruct (Z.leb_spec x 0) as [X|X].
  - rewrite Low by auto. replace (Z.to_nat x) with O by lia. reflexivity.
  - rewrite <- (Z2Nat.id x) at 1 by lia. generalize (Z.to_nat x) as m. induction m as [|m IH].
    + apply Low. lia.
    + rewrite Nat2Z.inj_succ. unfold Z.succ. rewrite one_sided_tail_step by lia. rewrite IH.
      reflexivity.
Qed.

Theorem check_one_sided_executable x : check (one_sided s) x true = geometric_tail real (rate s) x.
Proof. rewrite check_true. apply geometric_tail_executable. Qed.

Theorem check_laplace_executable x : check (Noise.laplace s) x true = laplace_tail real (rate s) x.
Proof. rewrite check_true. now apply laplace_tail_executable. Qed.
End Noise.

(** A list of candidates: place [i] has the weight and the score of the i-th. *)
Section Draw.
Variable rho : R.
Variable l : list (R * Z).
Hypothesis weights_nonneg : forall c, In c l -> 0 <= fst c.

Definition place_weight (i : nat) : R := match nth_error l i with Some c => fst c | None => 0 end.
Definition place_score (i : nat) : R := match nth_error l i
    with Some c => IZR (snd c) | None => 0 end.

Lemma place_nonneg : nonneg place_weight.
Proof.
  intros i. unfold place_weight. destruct (nth_error l i) eqn:E; [|lra]. apply weights_nonneg.
  now apply nth_error_In in E.
Qed.

Lemma best_most (c : R * Z) : In c l -> (snd c <= best_score real l)%Z.
Proof.
  intros I. apply (in_map snd) in I.
  change (snd c <= match @map (R * Z) Z snd l with [] => 0 | x :: m => fold_left Z.max m x end)%Z.
    destruct (map snd l) as [|x m]; [destruct I|].
  assert (forall m x, (x <= fold_left Z.max m x)%Z /\ (forall y, In y m ->
    (y <= fold_left Z.max m x)%Z)) as F.
  { clear. induction m as [|z m IH]; simpl; intros x; [split; [lia|tauto]|].
    destruct (IH (Z.max x z)) as [A B]. split; [lia|]. intros y [->|Y]; [lia|auto]. }
  destruct (F m x) as [A B]. destruct I as [I|I]; [rewrite <- I; exact A|exact (B _ I)].
Qed.

Let a := exp (- rho).
Let best := best_score real l.

Lemma weight_weigh (c : R * Z) i : nth_error l i = Some c ->
  candidate_weight real a best c = exp (- (rho * IZR best)) * weigh place_weight rho place_score i.
Proof.
  intros E. unfold candidate_weight, weigh, place_weight, place_score. rewrite E, power_pow.
  change (fst c * a ^ Z.to_nat (best - snd c)
      = exp (- (rho * IZR best)) * (fst c * exp (rho * IZR (snd c)))).
  assert (a ^ Z.to_nat (best - snd c) = exp (- (rho * IZR best)) * exp (rho * IZR (snd c))) as ->;
    [|ring].
  assert (forall m, a ^ m = exp (- (rho * INR m))) as Pow.
  { induction m as [|m IH]; [simpl; rewrite Rmult_0_r, Ropp_0, exp_0; reflexivity|].
    rewrite S_INR. simpl pow. rewrite IH. unfold a. rewrite <- exp_plus. f_equal. ring. }
  rewrite Pow, <- exp_plus. f_equal. rewrite INR_IZR_INZ, Z2Nat.id, minus_IZR; [ring|].
  apply nth_error_In in E. pose proof (best_most c E). unfold best. lia.
Qed.

Lemma lsum_seq {A} (f : A -> R) (g : nat -> R) (m : list A) k :
  (forall i c, nth_error m i = Some c -> f c = g (k + i)%nat) ->
      lsum f m = lsum g (seq k (length m)).
Proof.
  revert k. induction m as [|x m IH]; intros k H; simpl; auto. f_equal.
  - rewrite (H 0%nat x eq_refl). f_equal. lia.
  - apply IH. intros i c E. rewrite (H (Datatypes.S i) c E). f_equal. lia.
Qed.

Theorem exponential_is_executable i c : nth_error l i = Some c ->
  nth_error (Executable.exponential real a l) i
      = Some (Exponential.exponential place_weight rho place_score i).
Proof.
  intros E. unfold Executable.exponential. fold best.
  etransitivity; [apply map_nth_error; exact E|]. apply f_equal.
  assert (Executable.total real (map (candidate_weight real a best) l)
            = exp (- (rho * IZR best)) * sum (weigh place_weight rho place_score)) as Tot.
  { destruct (sum_finite (weigh place_weight rho place_score) (seq 0 (length l))) as [_ ->].
    - intros j. apply Rmult_le_pos; [apply place_nonneg|apply exp_pos_le].
    - apply seq_NoDup.
    - intros j J. unfold weigh, place_weight. destruct (nth_error l j) eqn:Ej; [|ring].
      exfalso. apply J. apply in_seq. assert (nth_error l j <> None) as Nn by congruence.
      apply nth_error_Some in Nn. lia.
    - rewrite <- lsum_scal. rewrite <- (lsum_seq (candidate_weight real a best)); [|intros;
        now apply weight_weigh].
      generalize (candidate_weight real a best) as f. clear. intros f.
        induction l as [|x m IH]; [reflexivity|].
      exact (f_equal (Rplus (f x)) IH). }
  rewrite Tot, (weight_weigh c i E). unfold Exponential.exponential.
  change (exp (- (rho * IZR best)) * weigh place_weight rho place_score i
    / (exp (- (rho * IZR best)) * sum (weigh place_weight rho place_score))
    = weigh place_weight rho place_score i / sum (weigh place_weight rho place_score)).
  assert (forall x y z : R, 0 < x -> x * y / (x * z) = y / z) as Cancel.
  { intros x y z X. unfold Rdiv. rewrite Rinv_mult.
    assert (x * / x = 1) as One by (apply Rinv_r; lra).
    transitivity (x * / x * (y * / z)); [ring|rewrite One; ring]. }
  apply Cancel, exp_pos.
Qed.
End Draw.

(** The draw of Theorem 15 is the one of Executable.v too. That draws from a list: nothing, the drops, the
    active keys. It divides weights by that of the best score, as the code does, and has a base [a] where
    the theorem has exp (- r). *)

From Littlestone Require Import Effect CausesDraw Users.

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
  { intros c I. apply candidate_weight_eq. now apply best_most. }
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
Variables (lowers : list pattern -> key pattern outcome -> bool) (delta : R).
Variable pub : public pattern outcome.
(** Every change that may be drawn, each once, in any order: the code has drops, active keys, known ones and replaces. *)
Variable changes : list (change pattern outcome).
Hypothesis delta_nonneg : 0 <= delta.
Hypothesis ok : proper pub.
Hypothesis unique : NoDup changes.

Section Scored.
Variables score support : move pattern outcome -> Z.
Variable alive : key pattern outcome -> bool.
Hypothesis complete : forall c, In c changes <-> exists_in pub alive (Some c) = true.

(** What the code puts into its table. *)
Definition candidate_of (c : change pattern outcome) : Executable.candidate real :=
  if is_listed pub c
  then (if clipped pub c then Executable.known_key real else Executable.plain_move real) (base pub c) (score (Some c)) (offset pub c)
  else match c with
       | add k => Executable.unknown_key real (delta * prior pub (fst k) * heavy pub (fst k))
                    (score (Some c)) (bar pub) (support (Some c)) (high pub (fst k))
       | _ => Executable.plain_move real 0 0 0
       end.

Theorem scored_is_executable :
  map (drawn (weigh delta pub score support alive)) (None :: map Some changes)
  = Executable.causes_draw real (exp (- rate pub)) (map candidate_of changes).
Proof.
  set (moves := None :: map Some changes). set (w := weigh delta pub score support alive).
  set (entry := fun m : move pattern outcome => match m with None => (1, 0%Z) | Some c => Executable.weighed real (candidate_of c) end).
  assert (forall m, In m moves -> w m = fst (entry m) * exp (rate pub * IZR (snd (entry m)))) as Weight.
  { intros [c|] I; unfold w, weigh, entry; [|cbn; now rewrite Rmult_0_r, exp_0].
    assert (exists_in pub alive (Some c) = true) as ->.
    { apply complete. destruct I as [I|I]; [discriminate|]. apply in_map_iff in I as (d & E & I). now injection E as <-. }
    unfold candidate_of, weight_at, level. destruct (is_listed pub c); [now destruct (clipped pub c)|].
    destruct c; reflexivity. }
  assert (NoDup moves) as Unique.
  { constructor; [intros I; apply in_map_iff in I as (c & E & _); discriminate|].
    apply FinFun.Injective_map_NoDup; trivial. intros c d E. congruence. }
  assert (sum w = lsum w moves) as Total.
  { apply (sum_finite w moves); trivial; [now apply weigh_nonneg|]. intros [c|] No; [|elim No; now left].
    unfold w, weigh. destruct (exists_in pub alive (Some c)) eqn:Here; trivial. elim No. right.
    apply in_map. now apply complete. }
  unfold Executable.causes_draw.
  replace ((Executable.one real, 0%Z) :: map (Executable.weighed real) (map candidate_of changes)) with (map entry moves)
    by (unfold moves; cbn [map entry]; now rewrite !map_map).
  rewrite exponential_eq, map_map, lsum_map. apply map_ext_in. intros m I. unfold drawn.
  apply f_equal2; [exact (Weight m I)|]. etransitivity; [exact Total|]. exact (lsum_ext_in _ _ _ Weight).
Qed.

End Scored.

(** The draw of rows. *)
Theorem draw_is_executable al be rows :
  (forall c, In c changes <-> exists_in pub (active (published pub) rows) (Some c) = true) ->
  map (draw lowers delta pub al be rows) (None :: map Some changes)
  = Executable.causes_draw real (exp (- rate pub))
      (map (candidate_of (score (positive pub) (negative pub) al be lowers (published pub) rows)
                         (supports (positive pub) (negative pub) al be lowers (published pub) rows)) changes).
Proof. intros Complete. now apply scored_is_executable. Qed.

(** The draw of users: the same, by the scores of pairs ([user_score_is_executable] of Users.v). *)
Theorem user_draw_is_executable units lowest users :
  (forall c, In c changes <-> exists_in pub (active (published pub) (concat users)) (Some c) = true) ->
  map (user_draw lowers units lowest delta pub users) (None :: map Some changes)
  = Executable.causes_draw real (exp (- rate pub))
      (map (candidate_of (user_score lowers units lowest pub users) (user_supports lowers units lowest pub users)) changes).
Proof. intros Complete. now apply scored_is_executable. Qed.

End Link.

(** Known keys of a width that no row lists have one weight and one score. The code draws them as one entry, of n times
    the weight, and then one of them uniformly: each has its own probability, and so has every other move. *)
Theorem idle_group r (w : R) (score : Z) n (others : list (R * Z)) :
  let grouped := Executable.exponential real (exp (- r)) ((INR (Datatypes.S n) * w, score) :: others) in
  let each := Executable.exponential real (exp (- r)) (repeat (w, score) (Datatypes.S n) ++ others) in
  hd 0 each = hd 0 grouped / INR (Datatypes.S n) /\ skipn (Datatypes.S n) each = tl grouped.
Proof.
  intros grouped each. unfold grouped, each. rewrite !exponential_eq.
  set (f := fun c : R * Z => fst c * exp (r * IZR (snd c))).
  assert (forall m, lsum f (repeat (w, score) m ++ others) = INR m * f (w, score) + lsum f others) as Sum.
  { induction m as [|m IH]; [cbn [repeat app]; simpl INR; ring|]. rewrite S_INR. cbn [repeat app lsum]. rewrite IH. ring. }
  rewrite (Sum (Datatypes.S n)). set (m := INR (Datatypes.S n)).
  replace (lsum f ((m * w, score) :: others)) with (m * f (w, score) + lsum f others) by (cbn [lsum]; unfold f; cbn; ring).
  assert (0 < m) by (apply lt_0_INR; lia). split.
  - cbn [repeat app map hd fst snd]. set (total := m * f (w, score) + lsum f others). unfold Rdiv.
    transitivity (m * / m * (w * exp (r * IZR score) * / total)); [rewrite Rinv_r by lra; ring|ring].
  - generalize (m * f (w, score) + lsum f others). intros total. cbn [tl map].
    rewrite (map_app _ (repeat (w, score) (Datatypes.S n)) others), skipn_app, map_length, repeat_length, Nat.sub_diag, skipn_all2
      by (rewrite map_length, repeat_length; lia).
    reflexivity.
Qed.

(** Theorem 16: the laws of released counts and of discovered values, as the tables compute them. *)
From Littlestone Require Import Evidence FirstWindow.

Theorem counts_are_executable s ns zs : 0 < s ->
  noisy (Noise.laplace s) ns zs = Executable.counts_mass real (Noise.rate s) ns zs.
Proof.
  intros Pos. pose proof (laplace_law s Pos) as L. revert zs. induction ns as [|n ns IH]; intros [|z zs]; cbn [noisy Executable.counts_mass].
  - unfold ret. now destruct (eq_dec _ _).
  - unfold ret. destruct (eq_dec _ _); [discriminate|reflexivity].
  - apply next_nil. intros _. apply noisy_law; auto.
  - rewrite next_cons; [|apply around_law; auto|intros _; apply noisy_law; auto]. rewrite IH.
    unfold around. rewrite <- laplace_mass_is. reflexivity.
Qed.

Theorem values_are_executable {Row Value} `{EqDec Value} (vote : Row -> option Value) s t rows values answers : 0 < s ->
  released vote s t values rows answers
  = Executable.values_mass real (Noise.rate s) t (map (number vote rows) values) answers.
Proof.
  intros Pos. assert (forall n, answer s t n true = if (n <=? 0)%Z then 0 else laplace_tail real (Noise.rate s) (t - n)) as Yes.
  { intros n. unfold answer. destruct (Z.leb_spec n 0) as [N|N].
    - unfold ret. destruct (eq_dec _ _); [discriminate|reflexivity].
    - rewrite <- laplace_tail_executable by trivial. now apply answer_tail. }
  revert answers. induction values as [|c values IH]; intros [|b answers]; cbn [released Executable.values_mass map].
  - unfold ret. now destruct (eq_dec _ _).
  - unfold ret. destruct (eq_dec _ _); [discriminate|reflexivity].
  - apply after_nil. now apply released_law.
  - rewrite after_at; [|now apply answer_law|now apply released_law]. rewrite IH. cbv zeta. rewrite <- Yes.
    destruct b; [reflexivity|]. destruct (at_bool (answer s t (number vote rows c)) true) as [_ No]; [now apply answer_law|].
    cbn [negb] in No. rewrite No. reflexivity.
Qed.
