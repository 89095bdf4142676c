(** Theorem 15 of docs/guarantee.md, steps 3 and 4: the sparse exponential draw of the causes learner, its keys known and unknown.

    How it corresponds. draws_close is about any two draws by weights. The learner draws a change, or None for none,
    whose weight is 1. Some changes are listed in public: drops of published causes, and whatever else is known before
    the rows are (known keys, narrower keys that replace a cause). They exist in both worlds, with public weights and
    offsets, and may be clipped at a score of 0. A key that is not listed can be added only where it is active, with
    weight delta prior(k) heavy(k) exp (r min (score - bar, support - high(k))), where support is what rows of the outcome
    alone say and [most] is the most that one row, or user, gives it: heavy(k) exp (r (most - high(k))) is at most 1, so
    a key of one world weighs at most delta prior(k). Keys of streams have heavy = 1 and high = bar >= most: then the
    minimum is score - bar. Frequent keys of tables have more. What is public is a function of the history, which holds
    the releases, the draws and the released counts.
    scored_close: any scores that move by at most D, up and down together, and keys of one world that are light.
    causes_draw_close: one replaced row, which moves the loss or does not.
    draw_alone: one replaced row where there is no monitor, (2s, delta/(1 + delta)). *)

From Coq Require Import Reals Lra Lia ZArith List Bool.
From Littlestone Require Import Laws Effect.
Import ListNotations.
Open Scope R_scope.

(** Two draws by weights.  [fresh] is the most that outcomes of one world weigh together, against 1
   for an outcome of both. *)
Section Draws.

Context {A : Type} `{EqDec A}.

(** Draw an outcome by its weight. *)
Definition drawn (weight : A -> R) (a : A) : R := weight a / sum weight.

Variables (w v : A -> R) (l : list A) (eps fresh : R) (idle : A).

Definition common (a : A) : bool :=
  if Rlt_dec 0 (w a) then if Rlt_dec 0 (v a) then true else false else false.
Definition part (b : bool) (weight : A -> R) (a : A) : R :=
  if Bool.eqb (common a) b then weight a else 0.

Hypothesis w_nonneg : forall a, 0 <= w a.
Hypothesis v_nonneg : forall a, 0 <= v a.
(** Outcomes with a weight are finitely many. *)
Hypothesis unique : NoDup l.
Hypothesis w_finite : forall a, ~ In a l -> w a = 0.
Hypothesis v_finite : forall a, ~ In a l -> v a = 0.
Hypothesis idle_w : w idle = 1.
Hypothesis idle_v : v idle = 1.
(** Step 3: each weight of one world by each of the other. *)
Hypothesis ratio : forall a b, 0 < w a -> 0 < v a -> 0 < w b -> 0 < v b ->
  w a * v b <= exp eps * (v a * w b).
(** Step 4. *)
Hypothesis fresh_w : lsum (part false w) l <= fresh.
Hypothesis fresh_v : lsum (part false v) l <= fresh.

Lemma idle_in : In idle l.
Proof.
  destruct (in_dec eq_dec idle l) as [|out]; trivial. apply w_finite in out. lra.
Qed.

Lemma parts : forall weight, lsum weight l = lsum (part true weight) l + lsum (part false weight) l.
Proof.
  intros weight. rewrite <- lsum_plus. apply lsum_ext_in. intros a _. unfold part.
  destruct (common a); cbn; lra.
Qed.

Lemma common_total : forall weight, (forall a, 0 <= weight a) -> weight idle = 1 ->
  1 <= lsum (part true weight) l.
Proof.
  intros weight nonneg one. replace 1 with (part true weight idle).
  - replace (part true weight idle) with (lsum (part true weight) [idle]) by (cbn; lra).
    apply lsum_incl; [|repeat constructor; auto|intros a [<-|[]]; apply idle_in].
    intros a. unfold part. destruct (common a); cbn; auto; lra.
  - unfold part, common. rewrite idle_w, idle_v. destruct (Rlt_dec 0 1); [cbn; trivial|lra].
Qed.

Lemma false_total : forall weight, (forall a, 0 <= weight a) -> 0 <= lsum (part false weight) l.
Proof.
  intros weight nonneg. apply lsum_nonneg. intros a. unfold part.
  destruct (common a); cbn; auto; lra.
Qed.

Lemma share_of_fresh : forall a b, 1 <= a -> 0 <= b <= fresh -> b / (a + b) <= fresh / (1 + fresh).
Proof.
  intros a b one bounds.
  apply (Rmult_le_reg_r (a + b)); [lra|]. apply (Rmult_le_reg_r (1 + fresh)); [lra|].
  field_simplify; [|lra|lra]. nra.
Qed.

(** The excess of one draw over exp(eps) times the other. *)
Lemma draws_excess : exists excess : A -> R,
  nonneg excess /\ (forall a, ~ In a l -> excess a = 0) /\ lsum excess l <= fresh / (1 + fresh) /\
  forall a, drawn w a <= exp eps * drawn v a + excess a.
Proof.
  pose proof (common_total w w_nonneg idle_w) as one_w.
  pose proof (common_total v v_nonneg idle_v) as one_v.
  pose proof (false_total w w_nonneg) as pos_w. pose proof (false_total v v_nonneg) as pos_v.
  set (C := lsum (part true w) l) in *. set (C' := lsum (part true v) l) in *.
  set (F := lsum (part false w) l) in *. set (F' := lsum (part false v) l) in *.
  assert (whole_w : sum w = C + F)
    by (rewrite (proj2 (sum_finite w l w_nonneg unique w_finite)); apply parts).
  assert (whole_v : sum v = C' + F')
    by (rewrite (proj2 (sum_finite v l v_nonneg unique v_finite)); apply parts).
  pose proof (share_of_fresh C F one_w (conj pos_w fresh_w)) as alpha_le.
  pose proof (share_of_fresh C' F' one_v (conj pos_v fresh_v)) as beta_le.
  set (alpha := F / (C + F)) in *. set (beta := F' / (C' + F')) in *.
  assert (0 <= alpha) by (apply Rmult_le_pos; [lra|]; left; apply Rinv_0_lt_compat; lra).
  (** Of a key of one world all is excess; of a common outcome what the keys of the other
     world take from it. *)
  exists (fun a => / (C + F) * part false w a + Rmax 0 (beta - alpha) / C * part true w a).
  assert (0 <= / (C + F)) by (left; apply Rinv_0_lt_compat; lra).
  assert (0 <= Rmax 0 (beta - alpha) / C).
  { apply Rmult_le_pos; [apply Rmax_l|]. left; apply Rinv_0_lt_compat; lra. }
  split; [|split; [|split]].
  - intros a. assert (0 <= part false w a /\ 0 <= part true w a).
    { unfold part. pose proof (w_nonneg a). destruct (common a); cbn; lra. }
    nra.
  - intros a out. unfold part. rewrite (w_finite a out). destruct (common a); cbn; lra.
  - rewrite lsum_plus, !lsum_scal. fold C F.
    replace (/ (C + F) * F + Rmax 0 (beta - alpha) / C * C) with (alpha + Rmax 0 (beta - alpha))
      by (unfold alpha; field; lra).
    unfold Rmax. destruct (Rle_dec 0 (beta - alpha)); lra.
  - intros a. unfold drawn, part. rewrite whole_w, whole_v.
    pose proof (exp_pos eps). pose proof (w_nonneg a) as wa. pose proof (v_nonneg a) as va.
    assert (0 <= / (C' + F')) by (left; apply Rinv_0_lt_compat; lra).
    destruct (common a) eqn:both; cbn.
    + (** w a / C <= exp eps * v a / C', by [ratio] summed over the common outcomes *)
      assert (0 < w a /\ 0 < v a) as [wa' va'].
      { unfold common in both. destruct (Rlt_dec 0 (w a)), (Rlt_dec 0 (v a)); try discriminate. auto. }
      assert (given : w a * C' <= exp eps * v a * C).
      { unfold C, C'. rewrite <- !lsum_scal. apply lsum_le_in. intros b _. unfold part.
        destruct (common b) eqn:both_b; cbn; [|lra].
        unfold common in both_b.
        destruct (Rlt_dec 0 (w b)), (Rlt_dec 0 (v b)); try discriminate.
        rewrite Rmult_assoc. auto. }
      assert (w a / C <= exp eps * (v a / C')).
      { apply (Rmult_le_reg_r C); [lra|]. apply (Rmult_le_reg_r C'); [lra|].
        field_simplify; lra. }
      replace (w a / (C + F)) with ((1 - alpha) * (w a / C)) by (unfold alpha; field; lra).
      replace (v a / (C' + F')) with ((1 - beta) * (v a / C')) by (unfold beta; field; lra).
      replace (Rmax 0 (beta - alpha) / C * w a) with (Rmax 0 (beta - alpha) * (w a / C))
        by (field; lra).
      assert (0 <= w a / C) by (apply Rmult_le_pos; [lra|]; left; apply Rinv_0_lt_compat; lra).
      assert (beta <= 1).
      { unfold beta. apply (Rmult_le_reg_r (C' + F')); [lra|]. field_simplify; lra. }
      pose proof (Rmax_r 0 (beta - alpha)).
      assert (0 <= 1 - beta) by lra. nra.
    + assert (0 <= v a / (C' + F')) by (apply Rmult_le_pos; lra).
      replace (w a / (C + F)) with (/ (C + F) * w a) by (field; lra). nra.
Qed.

Lemma drawn_law : is_law (drawn w).
Proof.
  destruct (sum_finite w l w_nonneg unique w_finite) as [S E].
  assert (1 <= sum w) as One by (rewrite <- idle_w; now apply term_le_sum).
  assert (0 <= / sum w) as Inv by (left; apply Rinv_0_lt_compat; lra).
  repeat split.
  - intros a. apply Rmult_le_pos; auto.
  - apply summable_ext with (fun a => / sum w * w a); [intros; unfold drawn; field; lra|].
    now apply summable_scal.
  - rewrite (sum_ext _ (fun a => / sum w * w a)) by (intros; unfold drawn; field; lra).
    rewrite sum_scal; auto. field; lra.
Qed.

End Draws.

Section Closeness.

Context {A : Type} `{EqDec A}.

(** Steps 3 and 4 together: a draw with an outcome of weight 1 that both worlds have. *)
Theorem draws_close : forall (w v : A -> R) (l : list A) eps fresh idle,
  nonneg w -> nonneg v -> NoDup l -> (forall a, ~ In a l -> w a = 0 /\ v a = 0) ->
  w idle = 1 -> v idle = 1 ->
  (forall a b, 0 < w a -> 0 < v a -> 0 < w b -> 0 < v b -> w a * v b <= exp eps * (v a * w b)) ->
  lsum (part w v false w) l <= fresh -> lsum (part w v false v) l <= fresh ->
  close eps (fresh / (1 + fresh)) (drawn w) (drawn v).
Proof.
  intros w v l eps fresh idle Pw Pv unique out iw iv ratio fw fv.
  assert (out_w : forall a, ~ In a l -> w a = 0) by (intros; now apply out).
  assert (out_v : forall a, ~ In a l -> v a = 0) by (intros; now apply out).
  destruct (draws_excess w v l eps fresh idle) as (excess & pos & zero & few & le); trivial.
  destruct (drawn_law w l idle) as (Lw & Sw & _); trivial.
  destruct (drawn_law v l idle) as (Lv & Sv & _); trivial.
  apply close_lists; trivial. intros some unique'.
  destruct (sum_finite excess l pos unique zero) as [S E].
  pose proof (lsum_le_sum excess some S unique'). rewrite E in *.
  apply Rle_trans with (lsum (fun a => exp eps * drawn v a + excess a) some); [now apply lsum_le|].
  rewrite lsum_plus, lsum_scal. lra.
Qed.

End Closeness.

(** The draw of the causes learner. *)
Section Causes.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Variable lowers : list pattern -> key pattern outcome -> bool.

Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation change := (change pattern outcome).
Notation move := (move pattern outcome).

(** What is public when a draw is made. Weights of rows and offsets are in units, [rate] is that of one unit. *)
Record public := {
  published : list key;
  positive : Z;
  negative : Z;
  rate : R;
  may_add : bool;
  prior : pattern -> R;
  most : Z;
  bar : Z;
  heavy : pattern -> R;
  high : pattern -> Z;
  listed : list change;
  base : change -> R;
  offset : change -> Z;
  clipped : change -> bool }.

Variable delta : R.
Hypothesis delta_nonneg : 0 <= delta.

Record proper (pub : public) : Prop := {
  positive_nonneg : (0 <= positive pub)%Z;
  negative_nonneg : (0 <= negative pub)%Z;
  rate_nonneg : 0 <= rate pub;
  prior_nonneg : nonneg (prior pub);
  most_enough : (positive pub <= most pub)%Z;
  heavy_nonneg : nonneg (heavy pub);
  light : forall p, heavy pub p * exp (rate pub * IZR (most pub - high pub p)) <= 1;
  base_nonneg : nonneg (base pub) }.

(** A draw by any scores, where any keys are active: those of rows below, those of users in Users.v. *)
Section Scored.

Variable pub : public.
Hypothesis ok : proper pub.

Definition is_listed (m : change) : bool := if in_dec eq_dec m (listed pub) then true else false.

Definition exists_in (alive : key -> bool) (m : move) : bool :=
  match m with
  | None => true
  | Some c => is_listed c ||
      match c with add k => may_add pub && alive k | _ => false end
  end.

Definition weight_at (m : move) : R :=
  match m with
  | None => 1
  | Some c => if is_listed c then base pub c
              else match c with add k => delta * prior pub (fst k) * heavy pub (fst k) | _ => 0 end
  end.

(** What the weight is a power of: the score less its offset. *)
Definition level (score support : move -> Z) (m : move) : Z :=
  match m with
  | None => 0
  | Some c =>
      if is_listed c then (if clipped pub c then Z.max (score m) 0 else score m) - offset pub c
      else match c with add k => Z.min (score m - bar pub) (support m - high pub (fst k)) | _ => 0 end
  end%Z.

Definition weigh (score support : move -> Z) (alive : key -> bool) (m : move) : R :=
  if exists_in alive m then weight_at m * exp (rate pub * IZR (level score support m)) else 0.

Lemma weight_at_nonneg : nonneg weight_at.
Proof.
  destruct ok as [_ _ _ P _ Hv _ Bn]. intros [c|]; cbn; [|lra]. destruct (is_listed c); [apply Bn|].
  destruct c; try lra. repeat apply Rmult_le_pos; auto.
Qed.

Lemma weigh_nonneg : forall score support alive, nonneg (weigh score support alive).
Proof.
  intros score support alive m. unfold weigh. destruct (exists_in alive m); [|lra].
  apply Rmult_le_pos; [apply weight_at_nonneg|left; apply exp_pos].
Qed.

Lemma weigh_idle : forall score support alive, weigh score support alive None = 1.
Proof.
  intros score support alive. unfold weigh. cbn [exists_in weight_at level]. rewrite Rmult_0_r, exp_0. lra.
Qed.

Definition moves_of (keys : list key) : list move :=
  nodup eq_dec (None :: map (fun k => Some (add k)) keys ++ map Some (listed pub)).

Lemma weigh_finite : forall score support (alive : key -> bool) keys, (forall k, alive k = true -> In k keys) ->
  forall m, ~ In m (moves_of keys) -> weigh score support alive m = 0.
Proof.
  intros score support alive keys all m out. unfold weigh. destruct (exists_in alive m) eqn:here; trivial. elim out.
  apply nodup_In. destruct m as [c|]; [|now left]. right. apply in_or_app. cbn [exists_in] in here.
  apply orb_prop in here as [here|here].
  - right. apply in_map. unfold is_listed in here. now destruct (in_dec eq_dec c (listed pub)).
  - left. destruct c as [k| |]; try discriminate. apply andb_prop in here as [_ here].
    apply in_map_iff. exists k. split; trivial. now apply all.
Qed.

Lemma scored_law : forall score support alive keys, (forall k, alive k = true -> In k keys) ->
  is_law (drawn (weigh score support alive)).
Proof.
  intros score support alive keys all. apply drawn_law with (moves_of keys) None.
  - apply weigh_nonneg. - apply NoDup_nodup. - now apply weigh_finite. - apply weigh_idle.
Qed.

Lemma scored_ext : forall (u v p q : move -> Z) (here there : key -> bool), (forall m, u m = v m) ->
  (forall m, p m = q m) -> (forall k, here k = there k) ->
  forall m, drawn (weigh u p here) m = drawn (weigh v q there) m.
Proof.
  intros u v p q here there same same' alike. assert (each : forall m, weigh u p here m = weigh v q there m).
  { intros m. unfold weigh, level. destruct m as [[k|b|b k]|]; cbn [exists_in]; rewrite ?same, ?same', ?alike; trivial. }
  intros m. unfold drawn. now rewrite each, (sum_ext _ _ each).
Qed.

(** Keys that are active here and not there: none has more support than one row, or user, gives, and their priors sum to
    at most W. *)
Definition fresh_within (W : R) (support : move -> Z) (here there : key -> bool) : Prop :=
  (forall k, here k = true -> there k = false -> (support (Some (add k)) <= most pub)%Z) /\
  forall l, NoDup l -> lsum (fun k => if here k && negb (there k) then prior pub (fst k) else 0) l <= W.

Definition keys_in (l : list move) : list key :=
  flat_map (fun m => match m with Some (add k) => [k] | _ => [] end) l.

Lemma keys_in_NoDup : forall l, NoDup l -> NoDup (keys_in l).
Proof.
  intros l unique. induction unique as [|m l out _ IH]; [constructor|].
  destruct m as [[k|b|b k]|]; cbn; auto. constructor; auto. intros here. apply out.
  apply in_flat_map in here as ([[k'|b|b k']|] & here & same); cbn in same; try tauto.
  destruct same as [<-|[]]. exact here.
Qed.

(** The keys of one world weigh at most delta W together. *)
Lemma weigh_fresh : forall W u v here_support there_support here there l, NoDup l ->
  fresh_within W here_support here there ->
  let world := weigh u here_support here in
  let other := weigh v there_support there in
  forall f g, (f = world /\ g = other \/ f = other /\ g = world) ->
  lsum (part f g false world) l <= delta * W.
Proof.
  intros W u v here_support there_support here there l unique (few & priors) world other f' g' worlds.
  pose proof ok as [PA PB Pr Pp Most Hv Lt Pb].
  set (f := fun k : key => if here k && negb (there k) then prior pub (fst k) else 0).
  set (g := fun m : move => match m with Some (add k) => delta * f k | _ => 0 end).
  assert (f_nonneg : nonneg f) by (intros k; unfold f; destruct (_ && _); [apply Pp|lra]).
  assert (g_nonneg : nonneg g).
  { intros [[k|b|b k]|]; cbn; try lra. now apply Rmult_le_pos. }
  apply Rle_trans with (lsum g l).
  - apply lsum_le. intros m. unfold part.
    assert (w_m : 0 <= world m) by apply weigh_nonneg.
    assert (v_m : 0 <= other m) by apply weigh_nonneg.
    destruct (common f' g' m) eqn:both; cbn [Bool.eqb]; [apply g_nonneg|].
    destruct (Rle_lt_dec (world m) 0) as [zero|heavy].
    { pose proof (g_nonneg m). lra. }
    assert (gone : other m = 0).
    { unfold common in both.
      destruct worlds as [[-> ->]|[-> ->]];
      destruct (Rlt_dec 0 (world m)), (Rlt_dec 0 (other m)); try discriminate; lra. }
    unfold world, other, weigh in *.
    destruct (exists_in here m) eqn:is_here; [|lra].
    destruct (exists_in there m) eqn:is_there.
    { pose proof (weight_at_nonneg m) as b_m. apply Rmult_integral in gone as [none|none].
      - rewrite none in heavy. lra.
      - pose proof (exp_pos (rate pub * IZR (level v there_support m))). lra. }
    destruct m as [c|]; cbn [exists_in] in is_here, is_there; [|discriminate].
    apply orb_false_elim in is_there as [unknown is_there]. rewrite unknown in is_here. cbn [orb] in is_here.
    destruct c as [k|b|b k]; try discriminate.
    apply andb_prop in is_here as [allowed alive]. rewrite allowed in is_there. cbn in is_there.
    specialize (few k alive is_there).
    unfold weight_at, level, g, f. rewrite unknown, alive, is_there. cbn [andb negb].
    rewrite Rmult_assoc. rewrite <- (Rmult_1_r (delta * prior pub (fst k))) at 2.
    apply Rmult_le_compat_l; [now apply Rmult_le_pos|].
    eapply Rle_trans; [|apply (Lt (fst k))]. apply Rmult_le_compat_l; [apply Hv|].
    apply exp_le, Rmult_le_compat_l; trivial. apply IZR_le. lia.
  - apply Rle_trans with (delta * lsum f (keys_in l)).
    + clear unique. right. induction l as [|[[k|b|b k]|] l IH]; cbn; try rewrite IH; unfold keys_in; cbn; lra.
    + apply Rmult_le_compat_l; trivial. now apply priors, keys_in_NoDup.
Qed.

(** Two scores, each of which rises or falls here and there: up and down together by at most D. *)
Definition moves_within (D : Z) (u v p q : move -> Z) : Prop := forall m n,
  (u m + v n <= D + v m + u n /\ u m + q n <= D + v m + p n /\ p m + v n <= D + q m + u n /\ p m + q n <= D + q m + p n)%Z.

(** Clipping, and the smaller of two, move by no more, and in no other direction. *)
Lemma levels_move : forall D (u v p q : move -> Z), u None = 0%Z -> v None = 0%Z -> moves_within D u v p q ->
  forall m n, (level u p m + level v q n <= D + level v q m + level u p n)%Z.
Proof.
  intros D u v p q none_u none_v moved m n.
  pose proof (moved m n). pose proof (moved m None). pose proof (moved None n). pose proof (moved None None).
  unfold level.
  destruct m as [c|], n as [c'|]; try destruct (is_listed c); try destruct (is_listed c'); try destruct (clipped pub c);
    try destruct (clipped pub c'); try destruct c; try destruct c'; lia.
Qed.

(** Scores that move by at most D, up and down together, and keys of one world that are light. *)
Theorem scored_close : forall D W (u v p q : move -> Z) (here there : key -> bool) keys,
  u None = 0%Z -> v None = 0%Z ->
  (forall k, here k = true \/ there k = true -> In k keys) ->
  moves_within D u v p q ->
  fresh_within W p here there -> fresh_within W q there here ->
  close (rate pub * IZR D) (delta * W / (1 + delta * W)) (drawn (weigh u p here)) (drawn (weigh v q there)).
Proof.
  intros D W u v p q here there keys none_u none_v all moved fresh_u fresh_v.
  assert (all_u : forall k, here k = true -> In k keys) by (intros; apply all; tauto).
  assert (all_v : forall k, there k = true -> In k keys) by (intros; apply all; tauto).
  apply draws_close with (moves_of keys) None; try apply weigh_nonneg; try apply weigh_idle.
  - apply NoDup_nodup.
  - intros m no. split; now apply weigh_finite with keys.
  - (* of two moves, one rises and the other falls *)
    intros m n. unfold weigh.
    destruct (exists_in here m); [|lra]. destruct (exists_in there m); [|lra].
    destruct (exists_in here n); [|lra]. destruct (exists_in there n); [|lra].
    intros _ _ _ _.
    pose proof (levels_move D u v p q none_u none_v moved m n) as step.
    apply IZR_le in step. rewrite !plus_IZR in step.
    set (r := rate pub) in *.
    set (a := IZR (level u p m)) in *. set (a' := IZR (level v q m)) in *.
    set (b := IZR (level u p n)) in *. set (b' := IZR (level v q n)) in *.
    replace (weight_at m * exp (r * a) * (weight_at n * exp (r * b')))
      with (weight_at m * weight_at n * exp (r * (a + b')))
      by (rewrite Rmult_plus_distr_l, exp_plus; ring).
    replace (exp (r * IZR D) * (weight_at m * exp (r * a') * (weight_at n * exp (r * b))))
      with (weight_at m * weight_at n * exp (r * (IZR D + a' + b)))
      by (rewrite !Rmult_plus_distr_l, !exp_plus; ring).
    apply Rmult_le_compat_l; [apply Rmult_le_pos; apply weight_at_nonneg|].
    apply exp_le, Rmult_le_compat_l; [apply ok|lra].
  - apply weigh_fresh with (v := v) (there_support := q) (there := there) (u := u) (here_support := p) (here := here);
      [apply NoDup_nodup|assumption|now left].
  - apply weigh_fresh with (v := u) (there_support := p) (there := here) (u := v) (here_support := q) (here := there);
      [apply NoDup_nodup|assumption|now right].
Qed.

End Scored.

(** The keys that rows may make active are finitely many. *)
Definition named (rows : list row) : list key :=
  flat_map (fun one => match one with
                       | example patterns (Some y) => map (fun p => (p, y)) patterns
                       | _ => [] end) rows.

Lemma active_named : forall P rows k, active P rows k = true -> In k (named rows).
Proof.
  intros P rows k alive. apply existsb_exists in alive as (one & here & makes).
  apply in_flat_map. exists one. split; [trivial|].
  destruct one as [|patterns [y|]]; cbn in makes; try discriminate.
  destruct (matching _ _); [|discriminate].
  apply andb_prop in makes as [own lists]. unfold has_outcome in own.
  destruct (eq_dec (snd k) y) as [<-|]; [|discriminate].
  destruct (in_dec eq_dec (fst k) patterns); [|discriminate].
  apply in_map_iff. exists (fst k). now destruct k.
Qed.

(** The priors of a row's patterns sum to at most 1. *)
Definition within_prior (pub : public) (one : row) : Prop :=
  match one with null => True | example patterns _ => lsum (prior pub) patterns <= 1 end.

(** Keys that rows make active have priors that sum to at most 1 for each row. *)
Lemma prior_of_row : forall pub one l, proper pub -> NoDup l -> lists_a_set one -> within_prior pub one ->
  lsum (fun k => if makes_active (published pub) one k then prior pub (fst k) else 0) l <= 1.
Proof.
  intros pub one l [_ _ _ Pp _ _ _ _] unique set below.
  set (g := fun k => if makes_active (published pub) one k then prior pub (fst k) else 0).
  assert (g_nonneg : nonneg g) by (intros k; unfold g; destruct (makes_active _ _ k); [apply Pp|lra]).
  destruct one as [|patterns [z|]]; cbn in below, set.
  1, 3: unfold g; cbn; rewrite lsum_zero; lra.
  set (fresh := map (fun p => (p, z)) patterns).
  assert (NoDup fresh).
  { apply FinFun.Injective_map_NoDup; trivial. intros p q same. congruence. }
  destruct (sum_finite g fresh) as [S E]; trivial.
  { intros k out. unfold g. cbn. destruct (matching _ _); trivial.
    unfold has_outcome. destruct (eq_dec (snd k) z) as [<-|]; cbn; trivial.
    destruct (in_dec eq_dec (fst k) patterns); trivial. elim out.
    apply in_map_iff. exists (fst k). now destruct k. }
  apply Rle_trans with (sum g); [now apply lsum_le_sum|]. rewrite E. unfold fresh. rewrite lsum_map.
  apply Rle_trans with (lsum (prior pub) patterns); trivial.
  apply lsum_le. intros p. unfold g. cbn. pose proof (Pp p).
  destruct (matching _ _); try lra. destruct (_ && _); lra.
Qed.

Section Epoch.

Variable pub : public.
Hypothesis ok : proper pub.
Let A := positive pub.
Let B := negative pub.
Let r := rate pub.

(** The monitor's costs of a row, which the draw does not read. *)
Variables al be : Z.
Hypothesis costs_nonneg : (0 <= al)%Z /\ (0 <= be)%Z.
Notation score := (score A B al be lowers (published pub)).
Notation supports := (supports A B al be lowers (published pub)).
Notation loss x := (loss (effect_of A B al be (published pub) x)).
Notation shift := (shift A B al be lowers (published pub)).

Definition weight (rows : list row) : move -> R := weigh pub (score rows) (supports rows) (active (published pub) rows).

Definition draw (rows : list row) : move -> R := drawn (weight rows).

Lemma score_of_idle : forall rows, score rows None = 0%Z.
Proof. induction rows as [|[] rows same]; trivial. Qed.

Lemma draw_law : forall rows, is_law (draw rows).
Proof.
  intros rows. apply scored_law with (named rows); [exact ok|]. intros k. apply active_named.
Qed.

Lemma weights_ok : (0 <= A /\ 0 <= B /\ 0 <= al /\ 0 <= be)%Z.
Proof. destruct ok as [PA PB _ _ _ _ _ _]. unfold A, B. tauto. Qed.

Lemma row_fresh : forall before after x y, Forall lists_a_set (before ++ x :: after) -> within_prior pub x ->
  fresh_within pub 1 (supports (before ++ x :: after))
    (active (published pub) (before ++ x :: after)) (active (published pub) (before ++ y :: after)).
Proof.
  intros before after x y sets below.
  pose proof (key_of_one_world A B al be lowers (published pub) weights_ok before after x y) as one.
  split.
  - intros k here there. destruct (one k sets here there) as [_ [_ few]].
    apply Z.le_trans with A; [exact few|apply (most_enough _ ok)].
  - intros l unique. assert (set_x : lists_a_set x) by (apply Forall_app in sets as [_ sets]; now inversion sets).
    eapply Rle_trans; [|apply (prior_of_row pub x l ok unique set_x below)]. apply lsum_le. intros k.
    pose proof (prior_nonneg _ ok (fst k)).
    destruct (active _ (before ++ x :: after) k) eqn:here, (active _ (before ++ y :: after) k) eqn:there;
      cbn [andb negb]; try (destruct (makes_active _ x k); lra).
    destruct (one k sets here there) as [-> _]. lra.
Qed.

(** The most that a replaced row moves scores: up and down together, in units. *)
Definition swing (x y : row) : Z := if Z.eq_dec (loss y) (loss x) then (2 * Z.max A B)%Z else (A + B)%Z.

(** One row replaced by another. *)
Theorem causes_draw_close : forall before after x y,
  Forall lists_a_set (before ++ x :: after) -> Forall lists_a_set (before ++ y :: after) ->
  within_prior pub x -> within_prior pub y ->
  close (r * IZR (swing x y)) (delta / (1 + delta))
    (draw (before ++ x :: after)) (draw (before ++ y :: after)).
Proof.
  intros before after x y sets_x sets_y prior_x prior_y.
  assert (set_x : lists_a_set x) by (apply Forall_app in sets_x as [_ s]; now inversion s).
  assert (set_y : lists_a_set y) by (apply Forall_app in sets_y as [_ s]; now inversion s).
  pose proof (scored_close pub ok (swing x y) 1 (score (before ++ x :: after)) (score (before ++ y :: after))
    (supports (before ++ x :: after)) (supports (before ++ y :: after)) (active (published pub) (before ++ x :: after)) (active (published pub) (before ++ y :: after))
    (named (before ++ x :: after) ++ named (before ++ y :: after))) as Close.
  rewrite Rmult_1_r in Close. apply Close; try apply score_of_idle; try (apply row_fresh; assumption).
  - intros k [alive|alive]; apply active_named in alive; apply in_or_app; auto.
  - intros m n.
    assert (forall alone alone', (shift_said A B al be lowers (published pub) alone x y n
      - shift_said A B al be lowers (published pub) alone' x y m <= swing x y)%Z) as Eff.
    { intros alone alone'. unfold swing.
      pose proof (support_effects A B al be lowers (published pub) weights_ok x y n m alone alone' set_x set_y).
      cbv zeta in *. destruct (Z.eq_dec _ _); lia. }
    pose proof (Eff true true). pose proof (Eff true false). pose proof (Eff false true). pose proof (Eff false false).
    unfold shift_said, said in *.
    pose proof (score_change A B al be lowers (published pub) before after x y m) as Cm.
    pose proof (score_change A B al be lowers (published pub) before after x y n) as Cn.
    pose proof (supports_change A B al be lowers (published pub) before after x y m) as Sm.
    pose proof (supports_change A B al be lowers (published pub) before after x y n) as Sn.
    unfold Effect.shift, shift_said, said in *. lia.
Qed.

End Epoch.

(** The draw does not read the monitor's costs. *)
Lemma draw_costs pub al be al' be' rows m : draw pub al be rows m = draw pub al' be' rows m.
Proof.
  assert (forall one n, moved (positive pub) (negative pub) al be lowers (published pub) one n
    = moved (positive pub) (negative pub) al' be' lowers (published pub) one n) as each.
  { intros [|patterns label] [[k|b|b k]|]; trivial; cbn [moved effect_of];
      destruct (matching (published pub) patterns) as [|b' [|]]; destruct label; reflexivity. }
  apply scored_ext; trivial; intros n; induction rows as [|one rows IH]; trivial.
  - unfold score in *. cbn [fold_right]. now rewrite IH, each.
  - unfold supports in *. cbn [fold_right]. rewrite IH. f_equal. unfold support.
    destruct one as [|patterns [y|]], n as [[k|b|b k]|]; trivial.
Qed.

Lemma no_loss A B (P : list key) (x : row) : loss (effect_of A B 0 0 P x) = 0%Z.
Proof.
  destruct x as [|patterns [y|]]; cbn [effect_of]; trivial; destruct (matching P patterns) as [|b others]; trivial.
  cbn [loss]. now destruct (existsb _ _).
Qed.

(** Without a monitor every row leaves the loss alone: 2 max(A, B), whatever row replaces another. *)
Theorem draw_alone pub al be before after x y : proper pub ->
  Forall lists_a_set (before ++ x :: after) -> Forall lists_a_set (before ++ y :: after) ->
  within_prior pub x -> within_prior pub y ->
  close (rate pub * IZR (2 * Z.max (positive pub) (negative pub))) (delta / (1 + delta))
    (draw pub al be (before ++ x :: after)) (draw pub al be (before ++ y :: after)).
Proof.
  intros ok sets_x sets_y prior_x prior_y.
  pose proof (causes_draw_close pub ok 0 0 ltac:(lia) before after x y sets_x sets_y prior_x prior_y) as Close.
  unfold swing in Close. cbv zeta in Close. rewrite !no_loss in Close. cbn [Z.eq_dec] in Close.
  refine (close_ext _ _ _ _ _ _ _ _ Close); intros m; apply draw_costs.
Qed.
End Causes.

Arguments public : clear implicits.
