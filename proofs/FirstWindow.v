(** Theorem 16 of docs/guarantee.md, the first window: values that stand out, and what comes before and after.

    How it corresponds. A round of the first window votes for at most one value ([vote]). Of each value that has a vote
    StableValues.release adds noise of scale s to its votes, and releases it where they reach [t]. [released] is the law of
    all these answers, value by value, for any list of values that holds those with a vote in either world: the others
    are never released.
    Theorem_16_values: for one replaced round (2/s, d), where d is the chance of a value with one vote; Theorem_16_discovered:
    with s = 2/eps and t as in the text (eps, delta). [laplace_tail_executable] of Histogram.v has the formula of d.
    Theorem_16_parts: counts of a first part, values of a second and all that follows read disjoint rounds, so the whole
    costs what its dearest part costs. That counts cost eps is counts_close of Evidence.v; what follows is Theorem 15. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Noise Transcripts Evidence.
Import ListNotations.
Open Scope R_scope.

(** What a law P may do beside Q, on the way to e^(2h) and d. *)
Section Kinds.
Context {T : Type}.
Variables h d : R.

Definition moves (P Q : T -> R) := pure h P Q.
Definition gone (P Q : T -> R) := exists X, is_law X /\ forall z, P z <= (1 - d) * Q z + d * X z.
Definition came (P Q : T -> R) := forall z, (1 - d) * P z <= Q z.
Definition both (P Q : T -> R) := exists X, is_law X /\ forall z, P z <= exp (h + h) * Q z + d * X z.
End Kinds.

Section Lists.
Variables h d : R.
Hypothesis h_nonneg : 0 <= h.
Hypothesis d_range : 0 <= d <= 1.
Implicit Types p q : bool -> R.
Implicit Types P Q : list bool -> R.

Definition after p P : list bool -> R := next p (fun _ => P).

Lemma after_law p P : is_law p -> is_law P -> is_law (after p P).
Proof. intros; now apply next_law. Qed.

Lemma after_at p P b l : is_law p -> is_law P -> after p P (b :: l) = p b * P l.
Proof. intros (Pp & _) (PP & _). now apply next_cons. Qed.

Lemma after_nil p P : is_law P -> after p P [] = 0.
Proof. intros (PP & _). now apply next_nil. Qed.

Lemma exp_h : 1 <= exp h.
Proof. pose proof (exp_ge_1 h h_nonneg). lra. Qed.

Lemma grow x : 0 <= x -> x <= exp h * x <= exp (h + h) * x.
Proof.
  intros X. pose proof exp_h. rewrite exp_plus. assert (0 <= exp h * x) by (apply Rmult_le_pos; lra). split; nra.
Qed.

Hint Resolve after_law : core.

Ltac pointwise := intros [|b l]; [rewrite !after_nil by auto; lra|rewrite !after_at by auto].

(** One kind on the left, or on the right. *)
Lemma moves_after p q P Q : is_law p -> is_law q -> is_law P -> is_law Q ->
  moves h p q /\ P = Q \/ p = q /\ moves h P Q -> moves h (after p P) (after q Q).
Proof.
  intros Lp Lq LP LQ K. pointwise. pose proof (proj1 Lp b). pose proof (proj1 LP l). pose proof (proj1 LQ l).
  destruct K as [[M ->]|[-> M]]; [specialize (M b)|specialize (M l)]; nra.
Qed.

Lemma gone_after p q P Q : is_law p -> is_law q -> is_law P -> is_law Q ->
  gone d p q /\ P = Q \/ p = q /\ gone d P Q -> gone d (after p P) (after q Q).
Proof.
  intros Lp Lq LP LQ [[(X & LX & G) ->]|[-> (X & LX & G)]].
  - exists (after X Q). split; auto. pointwise. specialize (G b). pose proof (proj1 LQ l). nra.
  - exists (after q X). split; auto. pointwise. specialize (G l). pose proof (proj1 Lq b). nra.
Qed.

Lemma came_after p q P Q : is_law p -> is_law q -> is_law P -> is_law Q ->
  came d p q /\ P = Q \/ p = q /\ came d P Q -> came d (after p P) (after q Q).
Proof.
  intros Lp Lq LP LQ K. pointwise. pose proof (proj1 Lq b). pose proof (proj1 LQ l).
  destruct K as [[C ->]|[-> C]]; [specialize (C b)|specialize (C l)]; nra.
Qed.

Lemma both_after p P Q : is_law p -> is_law P -> is_law Q -> both h d P Q -> both h d (after p P) (after p Q).
Proof.
  intros Lp LP LQ (X & LX & B). exists (after p X). split; auto. pointwise. specialize (B l). pose proof (proj1 Lp b). nra.
Qed.

(** One kind on the left and another on the right. *)
Lemma both_kinds p q P Q : is_law p -> is_law q -> is_law P -> is_law Q ->
  (moves h p q \/ gone d p q) /\ (moves h P Q \/ came d P Q) \/ (moves h p q \/ came d p q) /\ (moves h P Q \/ gone d P Q) ->
  both h d (after p P) (after q Q).
Proof.
  intros Lp Lq LP LQ K. pose proof exp_h as H1.
  assert (forall b l, 0 <= p b /\ 0 <= q b /\ 0 <= P l /\ 0 <= Q l /\ 0 <= q b * Q l) as Pos.
  { intros b l. pose proof (proj1 Lp b). pose proof (proj1 Lq b). pose proof (proj1 LP l). pose proof (proj1 LQ l).
    repeat split; auto. now apply Rmult_le_pos. }
  pose proof grow as Grow.
  assert (moves h p q -> moves h P Q -> both h d (after p P) (after q Q)) as MM.
  { intros M N. exists (after p P). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (M b). specialize (N l). assert (p b * P l <= (exp h * q b) * (exp h * Q l)) by (apply Rmult_le_compat; auto).
    assert (0 <= d * (p b * P l)) by (apply Rmult_le_pos; [lra|now apply Rmult_le_pos]). rewrite exp_plus. nra. }
  assert (moves h p q -> came d P Q -> both h d (after p P) (after q Q)) as MC.
  { intros M C. exists (after p P). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (M b). specialize (C l). destruct (Grow _ a5).
    assert (p b * ((1 - d) * P l) <= (exp h * q b) * Q l) by (apply Rmult_le_compat; auto; apply Rmult_le_pos; lra). nra. }
  assert (came d p q -> moves h P Q -> both h d (after p P) (after q Q)) as CM.
  { intros C M. exists (after p P). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (M l). specialize (C b). destruct (Grow _ a5).
    assert (((1 - d) * p b) * P l <= q b * (exp h * Q l)) by (apply Rmult_le_compat; auto; apply Rmult_le_pos; lra). nra. }
  assert (gone d p q -> moves h P Q -> both h d (after p P) (after q Q)) as GM.
  { intros (X & LX & G) M. exists (after X P). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (M l). specialize (G b). destruct (Grow _ a5).
    assert (p b * P l <= (1 - d) * (q b * P l) + d * (X b * P l)) by nra.
    assert (q b * P l <= exp h * (q b * Q l)) by nra.
    assert (0 <= q b * P l) by now apply Rmult_le_pos. nra. }
  assert (moves h p q -> gone d P Q -> both h d (after p P) (after q Q)) as MG.
  { intros M (X & LX & G). exists (after p X). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (M b). specialize (G l). destruct (Grow _ a5).
    assert (p b * P l <= (1 - d) * (p b * Q l) + d * (p b * X l)) by nra.
    assert (p b * Q l <= exp h * (q b * Q l)) by nra.
    assert (0 <= p b * Q l) by now apply Rmult_le_pos. nra. }
  assert (gone d p q -> came d P Q -> both h d (after p P) (after q Q)) as GC.
  { intros (X & LX & G) C. exists (after X P). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (C l). specialize (G b). destruct (Grow _ a5).
    assert (p b * P l <= (1 - d) * (q b * P l) + d * (X b * P l)) by nra. nra. }
  assert (came d p q -> gone d P Q -> both h d (after p P) (after q Q)) as CG.
  { intros C (X & LX & G). exists (after p X). split; auto. pointwise. destruct (Pos b l) as (a1 & a2 & a3 & a4 & a5).
    specialize (C b). specialize (G l). destruct (Grow _ a5).
    assert (p b * P l <= (1 - d) * (p b * Q l) + d * (p b * X l)) by nra. nra. }
  tauto.
Qed.

Lemma kinds_both P Q : is_law P -> is_law Q -> moves h P Q \/ gone d P Q \/ came d P Q -> both h d P Q.
Proof.
  intros LP LQ K. destruct K as [M|[(X & LX & G)|C]].
  - exists P. split; auto. intros z. specialize (M z). pose proof (proj1 LP z). pose proof (grow _ (proj1 LQ z)).
    assert (0 <= d * P z) by (apply Rmult_le_pos; lra). lra.
  - exists X. split; auto. intros z. specialize (G z). pose proof (proj1 LQ z). pose proof (grow _ (proj1 LQ z)).
    assert (0 <= d * Q z) by (apply Rmult_le_pos; lra). lra.
  - exists P. split; auto. intros z. specialize (C z). pose proof (grow _ (proj1 LQ z)). lra.
Qed.

Lemma both_close P Q : is_law P -> is_law Q -> both h d P Q -> close (h + h) d P Q.
Proof.
  intros LP LQ (X & LX & B) S. pose proof (exp_pos_le (h + h)) as E.
  assert (forall p : list bool -> R, is_law p -> nonneg (on S p) /\ summable (on S p)) as On.
  { intros p (Pp & Sp & _). split; [now apply on_nonneg|now apply on_summable]. }
  destruct (On Q LQ) as [Pq Sq]. destruct (On X LX) as [Px Sx].
  apply Rle_trans with (sum (fun z => exp (h + h) * on S Q z + d * on S X z)).
  - apply sum_le; [|apply summable_plus; apply summable_scal; auto; lra]. intros z. unfold on. destruct (S z); [apply B|lra].
  - rewrite sum_plus, !sum_scal; auto; try lra; try (apply summable_scal; auto; lra);
      try (intros z; apply Rmult_le_pos; auto; lra).
    pose proof (prob_bounds X S (law_sub X LX)). unfold prob in *. nra.
Qed.
End Lists.

(** * Values *)

Section Values.
Context {Row Value : Type} `{EqDec Value}.
Variable vote : Row -> option Value.
Variable s : R.
Variable t : Z.
Hypothesis s_pos : 0 < s.

(** Whether a value with so many votes is released. *)
Definition answer (n : Z) : bool -> R :=
  if (n <=? 0)%Z then ret false else lmap (fun z => (t <=? z)%Z) (around (laplace s) n).

Fixpoint released (values : list Value) (rows : list Row) : list bool -> R :=
  match values with [] => ret [] | c :: rest => after (answer (number vote rows c)) (released rest rows) end.

Let h := 1 / s.
Let d := tail (laplace s) (t - 1).

Lemma answer_law n : is_law (answer n).
Proof. unfold answer. destruct (n <=? 0)%Z; [apply ret_law|]. apply lmap_law, around_law, laplace_law, s_pos. Qed.

Lemma released_law values rows : is_law (released values rows).
Proof. induction values; simpl; [apply ret_law|]. apply after_law; auto. apply answer_law. Qed.

Lemma at_bool (p : bool -> R) b : is_law p -> p b = prob p (Bool.eqb b) /\ p (negb b) = 1 - p b.
Proof.
  intros L. pose proof L as (P & S & E). assert (p b = prob p (Bool.eqb b)) as At.
  { unfold prob. destruct (sum_finite (on (Bool.eqb b) p) [b]) as [_ ->]; [now apply on_nonneg|repeat constructor; auto| |].
    - intros c No. unfold on. destruct (Bool.eqb b c) eqn:Same; auto. apply Bool.eqb_prop in Same. subst. simpl in No; tauto.
    - simpl. unfold on. rewrite Bool.eqb_reflx. ring. }
  split; auto. destruct (sum_finite p [b; negb b]) as [_ Two]; auto.
  - repeat constructor; simpl; destruct b; intuition discriminate.
  - intros c No. simpl in No. destruct b, c; simpl in No; tauto.
  - rewrite E in Two. simpl in Two. lra.
Qed.

Lemma answer_moves n m : (0 < n)%Z -> (0 < m)%Z -> (Z.abs (m - n) <= 1)%Z -> moves h (answer n) (answer m).
Proof.
  intros N M Le b. pose proof (answer_law n) as Ln. pose proof (answer_law m) as Lm.
  destruct (at_bool _ b Ln) as [-> _]. destruct (at_bool _ b Lm) as [-> _].
  assert (close h 0 (answer n) (answer m)) as C; [|specialize (C (Bool.eqb b)); lra].
  unfold answer. destruct (Z.leb_spec n 0), (Z.leb_spec m 0); try lia.
  pose proof (laplace_law s s_pos) as L. destruct (around_law _ n L) as (Pn & Sn & _). destruct (around_law _ m L) as (Pm & Sm & _).
  apply close_lmap; auto. apply pure_close; auto. eapply pure_weaken; auto; [|now apply around_ratio].
  apply IZR_le in Le. unfold h, Rdiv. apply Rmult_le_compat_r; auto. left. now apply Rinv_0_lt_compat.
Qed.

Lemma answer_tail n : (0 < n)%Z -> lmap (fun z => (t <=? z)%Z) (around (laplace s) n) true = tail (laplace s) (t - n).
Proof.
  intros N. pose proof (answer_law n) as La. unfold answer in La. destruct (Z.leb_spec n 0) as [No|_]; [lia|].
  destruct (at_bool _ true La) as [-> _].
  pose proof (laplace_law s s_pos) as L. destruct (around_law _ n L) as (P & S & _). rewrite prob_lmap; auto.
  unfold tail, prob. destruct L as (PL & _ & _).
  destruct (sum_shift (on (fun k => (t - n <=? k)%Z) (laplace s)) (- n)) as [_ ->]; [now apply on_nonneg|].
  apply sum_ext. intros z. unfold on, around. replace (z + - n)%Z with (z - n)%Z by lia.
  destruct (Z.leb_spec t z), (Z.leb_spec (t - n) (z - n)); try lia; reflexivity.
Qed.

Lemma answer_one : answer 1 true = d.
Proof. exact (answer_tail 1 ltac:(lia)). Qed.

Lemma d_range : 0 <= d <= 1.
Proof. apply tail_bounds, laplace_law, s_pos. Qed.

(** The last vote, taken away or given. *)
Lemma answer_gone : gone d (answer 1) (answer 0).
Proof.
  exists (ret true). split; [apply ret_law|]. destruct (at_bool _ true (answer_law 1)) as [_ No]. rewrite answer_one in No.
  intros [|]; [rewrite answer_one|simpl in No; rewrite No]; unfold answer, ret; simpl; lra.
Qed.

Lemma answer_came : came d (answer 0) (answer 1).
Proof.
  destruct (at_bool _ true (answer_law 1)) as [_ No]. rewrite answer_one in No. pose proof d_range.
  intros [|]; [rewrite answer_one|simpl in No; rewrite No]; unfold answer, ret; simpl; lra.
Qed.

(** * One round replaced *)

Section Replaced.
Variables (before later : list Row) (x y : Row).
Let u := before ++ x :: later.
Let v := before ++ y :: later.

Definition votes_for (z : Row) (c : Value) : bool := match vote z with Some w => if eq_dec w c then true else false | None => false end.
Definition losing (c : Value) : bool := votes_for x c && negb (votes_for y c).
Definition gaining (c : Value) : bool := votes_for y c && negb (votes_for x c).

Lemma votes_at z c : let n := number vote (before ++ later) c in
  (0 <= n)%Z /\ number vote (before ++ z :: later) c = (n + if votes_for z c then 1 else 0)%Z.
Proof.
  assert (forall w, 0 <= in_cell vote c w)%Z as Pos.
  { intros w. unfold in_cell. destruct (vote w); [destruct (eq_dec _ _)|]; lia. }
  assert (in_cell vote c z = if votes_for z c then 1 else 0)%Z as <-.
  { unfold in_cell, votes_for. destruct (vote z); auto. now destruct (eq_dec _ _). }
  intros n. split.
  - subst n. unfold number. induction (before ++ later) as [|w l IH]; cbn [fold_right]; [lia|]. specialize (Pos w). lia.
  - subst n. generalize before. intros b. induction b as [|w b IH]; unfold number in *; cbn [app fold_right]; lia.
Qed.

Lemma one_value z c c' : votes_for z c = true -> c' <> c -> votes_for z c' = false.
Proof. unfold votes_for. destruct (vote z) as [w|]; auto. destruct (eq_dec w c), (eq_dec w c'); congruence. Qed.

Lemma others_alone f z c values : (forall c', f c' = true -> votes_for z c' = true) -> votes_for z c = true -> ~ In c values ->
  existsb f values = false.
Proof.
  intros Only Here No. induction values as [|c' values IH]; simpl in *; auto. rewrite IH by tauto. rewrite orb_false_r.
  destruct (f c') eqn:F; auto. apply Only in F. assert (c' <> c) as Other by (intros ->; tauto).
  now rewrite (one_value z c c' Here Other) in F.
Qed.

Lemma released_kinds values : NoDup values ->
  let P := released values u in let Q := released values v in
  match existsb losing values, existsb gaining values with
  | false, false => P = Q
  | true, false => moves h P Q \/ gone d P Q
  | false, true => moves h P Q \/ came d P Q
  | true, true => both h d P Q
  end.
Proof.
  assert (0 <= h) as Hh by (unfold h, Rdiv; rewrite Rmult_1_l; left; now apply Rinv_0_lt_compat). pose proof d_range as D.
  intros N. induction N as [|c values No N IH]; [reflexivity|]. cbv zeta in *. cbn [existsb released].
  set (n := number vote u c). set (m := number vote v c).
  pose proof (answer_law n) as Ln. pose proof (answer_law m) as Lm.
  pose proof (released_law values u) as LP. pose proof (released_law values v) as LQ.
  destruct (votes_at x c) as [Pos Nx]. destruct (votes_at y c) as [_ Ny]. fold u n in Nx. fold v m in Ny.
  destruct (losing c) eqn:Lose; [|destruct (gaining c) eqn:Gain].
  - pose proof Lose as Lose'. apply andb_prop in Lose' as [Vx Vy]. apply negb_true_iff in Vy.
    rewrite Vx in Nx. rewrite Vy in Ny. unfold gaining at 1. rewrite Vy. cbn [orb andb].
    rewrite (others_alone losing x c values) in IH; auto; [|intros c'; unfold losing; destruct (votes_for x c'); auto].
    assert (moves h (answer n) (answer m) \/ gone d (answer n) (answer m)) as Kind.
    { destruct (Z.eq_dec m 0) as [Zero|]; [right|left; apply answer_moves; lia].
      replace n with 1%Z by lia. rewrite Zero. apply answer_gone. }
    destruct (existsb gaining values); [apply both_kinds; auto|].
    destruct Kind; [left; apply moves_after; auto|right; apply gone_after; auto].
  - pose proof Gain as Gain'. apply andb_prop in Gain' as [Vy Vx]. apply negb_true_iff in Vx.
    rewrite Vx in Nx. rewrite Vy in Ny. cbn [orb].
    rewrite (others_alone gaining y c values) in IH; auto; [|intros c'; unfold gaining; destruct (votes_for y c'); auto].
    assert (moves h (answer n) (answer m) \/ came d (answer n) (answer m)) as Kind.
    { destruct (Z.eq_dec n 0) as [Zero|]; [right|left; apply answer_moves; lia].
      replace m with 1%Z by lia. rewrite Zero. apply answer_came. }
    destruct (existsb losing values); [apply both_kinds; auto|].
    destruct Kind; [left; apply moves_after; auto|right; apply came_after; auto].
  - assert (n = m) as Same.
    { unfold losing in Lose. unfold gaining in Gain. rewrite Nx, Ny. destruct (votes_for x c), (votes_for y c); auto; discriminate. }
    rewrite Same in *. cbn [orb]. destruct (existsb losing values), (existsb gaining values).
    + now apply both_after.
    + destruct IH; [left; apply moves_after|right; apply gone_after]; auto.
    + destruct IH; [left; apply moves_after|right; apply came_after]; auto.
    + now rewrite IH.
Qed.

Theorem Theorem_16_values values : NoDup values ->
  is_law (released values u) /\ close (2 / s) d (released values u) (released values v).
Proof.
  assert (0 <= h) as Hh by (unfold h, Rdiv; rewrite Rmult_1_l; left; now apply Rinv_0_lt_compat). pose proof d_range as D.
  intros N. pose proof (released_law values u) as LP. pose proof (released_law values v) as LQ. split; auto.
  replace (2 / s) with (h + h) by (unfold h; field; lra). apply both_close; auto.
  pose proof (released_kinds values N) as Kind. cbv zeta in Kind.
  destruct (existsb losing values), (existsb gaining values); auto; apply kinds_both; auto; try tauto.
  rewrite Kind. left. intros z. pose proof (exp_ge_1 h Hh). pose proof (proj1 LQ z). nra.
Qed.
End Replaced.
End Values.

Corollary Theorem_16_discovered {Row Value} `{EqDec Value} (vote : Row -> option Value) eps delta s t before later x y values :
  0 < eps -> 2 / eps <= s -> tail (laplace s) (t - 1) <= delta -> NoDup values ->
  let law z := released vote s t values (before ++ z :: later) in is_law (law x) /\ close eps delta (law x) (law y).
Proof.
  intros E S D N law. destruct (cost_at_scale 2 eps s) as [Pos Le]; [lra..|].
  destruct (Theorem_16_values vote s t Pos before later x y values N) as [Law C]. split; auto.
  destruct (released_law vote s t Pos values (before ++ y :: later)) as (P & Sm & _).
  now apply close_weaken with (2 / s) (tail (laplace s) (t - 1)).
Qed.

(** * Parts of a stream *)

(** Counts [c] of a first part, values [w] of a second, and all that follows, each a function of its own rounds. *)
Theorem Theorem_16_parts {Part C W T} `{EqDec C} `{EqDec W} `{EqDec T} (counts : Part -> C -> R) (values : C -> Part -> W -> R)
    (rest : C -> W -> Part -> T -> R) (near : Part -> Part -> Prop) eps delta : 0 <= delta ->
  (forall a, is_law (counts a)) -> (forall c a, is_law (values c a)) -> (forall c w a, is_law (rest c w a)) ->
  (forall a a', near a a' -> close eps delta (counts a) (counts a')) ->
  (forall c a a', near a a' -> close eps delta (values c a) (values c a')) ->
  (forall c w a a', near a a' -> close eps delta (rest c w a) (rest c w a')) ->
  let all a b e := bind (counts a) (fun c => bind (values c b) (fun w => rest c w e)) in
  forall a a' b e, near a a' ->
    close eps delta (all a b e) (all a' b e) /\ close eps delta (all b a e) (all b a' e) /\ close eps delta (all b e a) (all b e a').
Proof.
  intros D Lc Lv Lr Cc Cv Cr all a a' b e N.
  assert (forall c b e, sub_law (bind (values c b) (fun w => rest c w e))) as Sub by (intros; apply law_sub, bind_law; auto).
  assert (forall c w e, sub_law (rest c w e)) as Sub' by (intros; now apply law_sub).
  repeat split.
  - apply close_bind; auto using law_sub.
  - apply close_mixture; auto. intros c. apply close_bind; auto using law_sub.
  - apply close_mixture; auto. intros c. apply close_mixture; auto.
Qed.
