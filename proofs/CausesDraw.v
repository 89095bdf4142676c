(** Theorem 15 of docs/guarantee.md, steps 3 and 4: the sparse exponential draw of the causes learner, its keys known and unknown.

    How it corresponds. draws_close is about any two draws by weights. The learner draws a change, or None for none,
    whose weight is 1. Some changes are listed in public: drops of published causes, and whatever else is known before
    the rows are (known keys, narrower keys that replace a cause). They exist in both worlds, with public weights and
    offsets, and may be clipped at a score of 0. A key that is not listed can be added only where it is active, with
    weight delta prior(k) exp (r (score - bar)), where [bar] is at least what one missed row weighs. What is public is a
    function of the history, which holds the releases, the draws and the released counts.
    causes_draw_close: one replaced row, which moves the loss or does not. *)

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
  bar : Z;
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
  bar_enough : (positive pub <= bar pub)%Z;
  base_nonneg : nonneg (base pub) }.

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
Notation loss x := (loss (effect_of A B al be (published pub) x)).
Notation shift := (shift A B al be lowers (published pub)).

Definition is_listed (m : change) : bool := if in_dec eq_dec m (listed pub) then true else false.

Definition exists_in (rows : list row) (m : move) : bool :=
  match m with
  | None => true
  | Some c => is_listed c ||
      match c with add k => may_add pub && active (published pub) rows k | _ => false end
  end.

Definition weight_at (m : move) : R :=
  match m with
  | None => 1
  | Some c => if is_listed c then base pub c else match c with add k => delta * prior pub (fst k) | _ => 0 end
  end.

Definition offset_at (m : move) : Z :=
  match m with None => 0 | Some c => if is_listed c then offset pub c else bar pub end%Z.

Definition value (rows : list row) (m : move) : Z :=
  let s := score rows m in
  match m with Some c => if is_listed c && clipped pub c then Z.max s 0 else s | None => s end.

Definition weight (rows : list row) (m : move) : R :=
  if exists_in rows m then weight_at m * exp (r * IZR (value rows m - offset_at m)) else 0.

Definition draw (rows : list row) : move -> R := drawn (weight rows).

Lemma weight_at_nonneg : nonneg weight_at.
Proof.
  destruct ok as [_ _ _ P _ Bn]. intros [c|]; cbn; [|lra]. destruct (is_listed c); [apply Bn|].
  destruct c; try lra. now apply Rmult_le_pos.
Qed.

Lemma weight_nonneg : forall rows, nonneg (weight rows).
Proof.
  intros rows m. unfold weight. destruct (exists_in rows m); [|lra].
  apply Rmult_le_pos; [apply weight_at_nonneg|left; apply exp_pos].
Qed.

Lemma score_of_idle : forall rows, score rows None = 0%Z.
Proof. induction rows as [|[] rows same]; trivial. Qed.

Lemma weight_of_idle : forall rows, weight rows None = 1.
Proof.
  intros rows. unfold weight, value. cbn [exists_in weight_at offset_at]. rewrite score_of_idle.
  change (0 - 0)%Z with 0%Z. rewrite Rmult_0_r, exp_0. lra.
Qed.

(** The keys that rows may make active are finitely many. *)
Definition named (rows : list row) : list key :=
  flat_map (fun one => match one with
                       | example patterns (Some y) => map (fun p => (p, y)) patterns
                       | _ => [] end) rows.

Lemma active_named : forall rows k, active (published pub) rows k = true -> In k (named rows).
Proof.
  intros rows k alive. apply existsb_exists in alive as (one & here & makes).
  apply in_flat_map. exists one. split; [trivial|].
  destruct one as [|patterns [y|]]; cbn in makes; try discriminate.
  destruct (matching _ _); [|discriminate].
  apply andb_prop in makes as [own lists]. unfold has_outcome in own.
  destruct (eq_dec (snd k) y) as [<-|]; [|discriminate].
  destruct (in_dec eq_dec (fst k) patterns); [|discriminate].
  apply in_map_iff. exists (fst k). now destruct k.
Qed.

Definition moves (rows : list row) : list move :=
  None :: map (fun k => Some (add k)) (named rows) ++ map Some (listed pub).

Lemma weight_finite : forall rows m, ~ In m (moves rows) -> weight rows m = 0.
Proof.
  intros rows m out. unfold weight. destruct (exists_in rows m) eqn:here; trivial. elim out.
  unfold moves. destruct m as [c|]; [|now left]. right. apply in_or_app. cbn [exists_in] in here.
  apply orb_prop in here as [here|here].
  - right. apply in_map. unfold is_listed in here. now destruct (in_dec eq_dec c (listed pub)).
  - left. destruct c as [k| |]; try discriminate. apply andb_prop in here as [_ here].
    apply in_map_iff. exists k. split; trivial. now apply active_named.
Qed.

Lemma draw_law : forall rows, is_law (draw rows).
Proof.
  intros rows. apply drawn_law with (nodup eq_dec (moves rows)) None.
  - apply weight_nonneg. - apply NoDup_nodup.
  - intros m out. apply weight_finite. now rewrite nodup_In in out.
  - apply weight_of_idle.
Qed.

(** The priors of a row's patterns sum to at most 1. *)
Definition within_prior (one : row) : Prop :=
  match one with null => True | example patterns _ => lsum (prior pub) patterns <= 1 end.

Lemma weights_ok : (0 <= A /\ 0 <= B /\ 0 <= al /\ 0 <= be)%Z.
Proof. destruct ok as [PA PB _ _ _ _]. unfold A, B. tauto. Qed.

(** The keys of one world weigh at most delta together. *)
Lemma weight_of_fresh : forall before after x y l, NoDup l -> within_prior x ->
  Forall lists_a_set (before ++ x :: after) ->
  let world := weight (before ++ x :: after) in
  let other := weight (before ++ y :: after) in
  forall v w, (v = world /\ w = other \/ v = other /\ w = world) ->
  lsum (part v w false world) l <= delta.
Proof.
  intros before after x y l unique below sets world other v w worlds.
  pose proof ok as [PA PB Pr Pp Bar Pb].
  set (g := fun m : move => match m with
            | Some (add k) => if makes_active (published pub) x k then delta * prior pub (fst k) else 0
            | _ => 0 end).
  assert (g_nonneg : nonneg g).
  { intros [[k|b|b k]|]; cbn; try lra. destruct (makes_active _ x k); [|lra]. now apply Rmult_le_pos. }
  assert (set_x : lists_a_set x) by (apply Forall_app in sets as [_ sets]; now inversion sets).
  apply Rle_trans with (lsum g l).
  - apply lsum_le. intros m. unfold part.
    assert (w_m : 0 <= world m) by apply weight_nonneg.
    assert (v_m : 0 <= other m) by apply weight_nonneg.
    destruct (common v w m) eqn:both; cbn [Bool.eqb]; [apply g_nonneg|].
    destruct (Rle_lt_dec (world m) 0) as [zero|heavy].
    { pose proof (g_nonneg m). lra. }
    assert (gone : other m = 0).
    { unfold common in both.
      destruct worlds as [[-> ->]|[-> ->]];
      destruct (Rlt_dec 0 (world m)), (Rlt_dec 0 (other m)); try discriminate; lra. }
    unfold world, other, weight in *.
    destruct (exists_in (before ++ x :: after) m) eqn:here; [|lra].
    destruct (exists_in (before ++ y :: after) m) eqn:there.
    { pose proof (weight_at_nonneg m) as b_m. apply Rmult_integral in gone as [none|none].
      - rewrite none in heavy. lra.
      - pose proof (exp_pos (r * IZR (value (before ++ y :: after) m - offset_at m))). lra. }
    destruct m as [c|]; cbn [exists_in] in here, there; [|discriminate].
    apply orb_false_elim in there as [unknown there]. rewrite unknown in here. cbn [orb] in here.
    destruct c as [k|b|b k]; try discriminate.
    apply andb_prop in here as [allowed alive]. rewrite allowed in there. cbn in there.
    destruct (key_of_one_world A B al be lowers _ weights_ok before after x y k sets alive there) as [makes few].
    unfold weight_at, offset_at, value, g. rewrite unknown, makes. cbn [andb].
    rewrite <- (Rmult_1_r (delta * prior pub (fst k))) at 2.
    apply Rmult_le_compat_l; [now apply Rmult_le_pos|]. rewrite <- exp_0. apply exp_le.
    assert (IZR (score (before ++ x :: after) (Some (add k)) - bar pub) <= 0)
      by (apply (IZR_le _ 0); unfold A in *; lia).
    unfold r. nra.
  - destruct x as [|patterns [z|]]; cbn in below, set_x.
    1, 3: apply Rle_trans with (lsum (fun _ : move => 0) l);
      [apply lsum_le; intros [[k|b|b k]|]; cbn; lra | rewrite lsum_zero; lra].
    set (fresh := map (fun p => Some (add (p, z))) patterns).
    assert (NoDup fresh).
    { apply FinFun.Injective_map_NoDup; trivial. intros p q same. congruence. }
    destruct (sum_finite g fresh) as [S E]; trivial.
    { intros [[k|b|b k]|] out; cbn; trivial.
      destruct (matching _ _); trivial.
      unfold has_outcome. destruct (eq_dec (snd k) z) as [<-|]; cbn; trivial.
      destruct (in_dec eq_dec (fst k) patterns); trivial. elim out.
      apply in_map_iff. exists (fst k). now destruct k. }
    apply Rle_trans with (sum g); [now apply lsum_le_sum|]. rewrite E. unfold fresh.
    rewrite lsum_map.
    apply Rle_trans with (lsum (fun p => delta * prior pub p) patterns).
    + apply lsum_le. intros p. cbn. pose proof (Rmult_le_pos _ _ delta_nonneg (Pp p)).
      destruct (matching _ _); try lra. destruct (_ && _); lra.
    + rewrite lsum_scal. nra.
Qed.

(** The most that a replaced row moves scores: up and down together, in units. *)
Definition swing (x y : row) : Z := if Z.eq_dec (loss y) (loss x) then (2 * Z.max A B)%Z else (A + B)%Z.

(** Clipping moves a value by no more, and in no other direction. *)
Lemma values_move : forall before after x y m n, lists_a_set x -> lists_a_set y ->
  let u := before ++ x :: after in let v := before ++ y :: after in
  (value u m + value v n <= swing x y + value v m + value u n)%Z.
Proof.
  intros before after x y m n set_x set_y u v.
  assert (forall m n, shift x y n - shift x y m <= swing x y)%Z as Moved.
  { intros m' n'. pose proof (row_effects A B al be lowers (published pub) weights_ok x y n' m' set_x set_y) as Eff.
    cbv zeta in Eff. unfold swing. destruct (Z.eq_dec _ _); lia. }
  pose proof (score_change A B al be lowers (published pub) before after x y m) as Cm.
  pose proof (score_change A B al be lowers (published pub) before after x y n) as Cn.
  assert (shift x y None = 0)%Z as Idle by (unfold Effect.shift; destruct x, y; reflexivity).
  pose proof (Moved m n). pose proof (Moved m None). pose proof (Moved None n). pose proof (Moved None None).
  unfold value, u, v.
  destruct m as [c|], n as [c'|]; try destruct (is_listed c && clipped pub c);
    try destruct (is_listed c' && clipped pub c'); lia.
Qed.

(** One row replaced by another. *)
Theorem causes_draw_close : forall before after x y,
  Forall lists_a_set (before ++ x :: after) -> Forall lists_a_set (before ++ y :: after) ->
  within_prior x -> within_prior y ->
  close (r * IZR (swing x y)) (delta / (1 + delta))
    (draw (before ++ x :: after)) (draw (before ++ y :: after)).
Proof.
  intros before after x y sets_x sets_y prior_x prior_y.
  assert (set_x : lists_a_set x) by (apply Forall_app in sets_x as [_ s]; now inversion s).
  assert (set_y : lists_a_set y) by (apply Forall_app in sets_y as [_ s]; now inversion s).
  set (l := nodup eq_dec (moves (before ++ x :: after) ++ moves (before ++ y :: after))).
  assert (out : forall m rows, incl (moves rows) l -> ~ In m l -> weight rows m = 0).
  { intros m rows inside no. apply weight_finite. intros here. now apply no, inside. }
  unfold draw. apply draws_close with l None; try apply weight_nonneg; try apply weight_of_idle.
  - apply NoDup_nodup.
  - intros m no. split; apply out; trivial; intros n here; apply nodup_In, in_or_app; auto.
  - (* of two moves, one rises and the other falls *)
    intros m n. unfold weight.
    destruct (exists_in (before ++ x :: after) m); [|lra].
    destruct (exists_in (before ++ y :: after) m); [|lra].
    destruct (exists_in (before ++ x :: after) n); [|lra].
    destruct (exists_in (before ++ y :: after) n); [|lra].
    intros _ _ _ _.
    pose proof (values_move before after x y m n set_x set_y) as moved. cbv zeta in moved.
    apply IZR_le in moved. rewrite !plus_IZR in moved. rewrite !minus_IZR.
    set (a := IZR (value (before ++ x :: after) m)) in *.
    set (a' := IZR (value (before ++ y :: after) m)) in *.
    set (b := IZR (value (before ++ x :: after) n)) in *.
    set (b' := IZR (value (before ++ y :: after) n)) in *.
    set (om := IZR (offset_at m)). set (on := IZR (offset_at n)).
    replace (weight_at m * exp (r * (a - om)) * (weight_at n * exp (r * (b' - on))))
      with (weight_at m * weight_at n * exp (r * (a + b' - om - on)))
      by (replace (r * (a + b' - om - on)) with (r * (a - om) + r * (b' - on)) by ring; rewrite exp_plus; ring).
    replace (exp (r * IZR (swing x y)) * (weight_at m * exp (r * (a' - om)) * (weight_at n * exp (r * (b - on)))))
      with (weight_at m * weight_at n * exp (r * (IZR (swing x y) + a' + b - om - on)))
      by (replace (r * (IZR (swing x y) + a' + b - om - on))
            with (r * IZR (swing x y) + r * (a' - om) + r * (b - on)) by ring;
          rewrite !exp_plus; ring).
    apply Rmult_le_compat_l; [apply Rmult_le_pos; apply weight_at_nonneg|].
    apply exp_le, Rmult_le_compat_l; [apply ok|lra].
  - apply (weight_of_fresh before after x y); trivial; [apply NoDup_nodup|]. now left.
  - apply (weight_of_fresh before after y x); trivial; [apply NoDup_nodup|]. now right.
Qed.

End Epoch.

(** The draw does not read the monitor's costs. *)
Lemma draw_costs pub al be al' be' rows m : draw pub al be rows m = draw pub al' be' rows m.
Proof.
  assert (forall m, weight pub al be rows m = weight pub al' be' rows m) as same.
  { intros n. unfold weight, value. replace (score (positive pub) (negative pub) al be lowers (published pub) rows n)
      with (score (positive pub) (negative pub) al' be' lowers (published pub) rows n); [reflexivity|].
    induction rows as [|one rows IH]; trivial. unfold score in *. cbn [fold_right]. rewrite IH. f_equal.
    destruct one as [|patterns label], n as [[k|b|b k]|]; trivial; cbn [moved effect_of];
      destruct (matching (published pub) patterns) as [|b' [|]]; destruct label; reflexivity. }
  unfold draw, drawn. rewrite same. f_equal. now apply sum_ext.
Qed.
End Causes.

Arguments public : clear implicits.
