(** Theorem 19 of docs/guarantee.md, the draw: a score is a sum over users, each of whom has a clipped part.

    How it corresponds. Of a draw's rows each user has a list, those that are read. [user_part] is what UserPairs.score
    of src/littlestone/_privacy/causes.py computes of one user and one move: what the rows of Effect.v do to the score,
    clipped to [- lowest, units] for adding a key, and the mirror image for dropping a cause; no causes are replaced.
    [units] are those of a whole weight, [lowest] is c0 in units. [pairs_score] is the sum as the code has it, over
    pairs of a user and a key with their counts; proofs/tables is computed from it.
    part_moves: a user moves no score by more than units + lowest.
    user_fresh: keys that one user alone makes active have a support of at most [units], and weigh at most R delta_1 together,
    where R, here [cap], is the number of rows that are read of a user.
    user_draw_close: all rows of one user replaced, (2 (1 + c0) s, R delta_1 / (1 + R delta_1)). *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Compare Effect CausesDraw.
Import ListNotations.
Open Scope R_scope.

Definition clip (low high z : Z) : Z := Z.min high (Z.max low z).

(** The score of a place: of each pair its negatives and positives, weighed and clipped, summed up. *)
Definition pairs_score {Place} `{EqDec Place} (A B low high : Z) (pairs : list (Place * (Z * Z))) (place : Place) : Z :=
  total_of (fun pair => if eq_dec (fst pair) place
                        then clip low high (A * snd (snd pair) - B * fst (snd pair)) else 0%Z)%Z pairs.

Section Users.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Notation key := (key pattern outcome).
Notation row := (row pattern outcome).
Notation change := (change pattern outcome).
Notation move := (move pattern outcome).

Variable lowers : list pattern -> key -> bool.
Variables units lowest : Z.
Hypothesis units_nonneg : (0 <= units)%Z.
Hypothesis lowest_nonneg : (0 <= lowest)%Z.
Variable delta : R.
Hypothesis delta_nonneg : 0 <= delta.
Variable pub : public pattern outcome.
Hypothesis ok : proper pub.
Hypothesis most_of_users : (units <= most pub)%Z.

Notation A := (positive pub).
Notation B := (negative pub).
Notation P := (published pub).
Notation score := (score A B 0 0 lowers P).
Notation supports := (supports A B 0 0 lowers P).

Definition user_part (rows : list row) (m : move) : Z :=
  match m with
  | None => 0
  | Some (add _) => clip (- lowest) units (score rows m)
  | Some _ => - clip (- lowest) units (- score rows m)
  end%Z.

Definition user_score (users : list (list row)) (m : move) : Z := total_of (fun rows => user_part rows m) users.

(** The same of the rows of outcomes alone, for the weight of a frequent key. *)
Definition support_part (rows : list row) (m : move) : Z := clip (- lowest) units (supports rows m).

Definition user_supports (users : list (list row)) (m : move) : Z := total_of (fun rows => support_part rows m) users.

Definition user_draw (users : list (list row)) : move -> R :=
  drawn (weigh delta pub (user_score users) (user_supports users) (active P (concat users))).

(** The clip: each part lies in an interval of length units + lowest. *)
Theorem part_moves x y m : (user_part y m - user_part x m <= units + lowest)%Z.
Proof. unfold user_part, clip. destruct m as [[]|]; lia. Qed.

Lemma user_score_at before x after m :
  user_score (before ++ x :: after) m = (user_part x m + user_score (before ++ after) m)%Z.
Proof. unfold user_score. rewrite !total_app. simpl. lia. Qed.

Lemma user_supports_at before x after m :
  user_supports (before ++ x :: after) m = (support_part x m + user_supports (before ++ after) m)%Z.
Proof. unfold user_supports. rewrite !total_app. simpl. lia. Qed.

Lemma user_score_idle users : user_score users None = 0%Z.
Proof. induction users as [|rows users IH]; [reflexivity|exact IH]. Qed.

Lemma user_draw_law users : is_law (user_draw users).
Proof.
  apply scored_law with (named (concat users)); auto. intros k. apply active_named.
Qed.

Definition good (rows : list row) : Prop := Forall (fun x => lists_a_set x /\ within_prior pub x) rows.

Lemma good_sets rows : good rows -> Forall lists_a_set rows.
Proof. apply Forall_impl. now intros x [L _]. Qed.

Lemma active_app u v k : active P (u ++ v) k = active P u k || active P v k.
Proof. apply existsb_app. Qed.

(** Whom no row makes a key active has at most 0 there. *)
Lemma part_of_inactive rows k : good rows -> active P rows k = false -> (support_part rows (Some (add k)) <= 0)%Z.
Proof.
  intros G No. destruct ok as [PA PB _ _ _ _ _ _]. unfold support_part, clip.
  pose proof (supports_of_inactive A B 0 0 lowers P ltac:(lia) rows k (good_sets rows G) No). lia.
Qed.

Lemma support_of_others users k : Forall good users -> active P (concat users) k = false ->
  (user_supports users (Some (add k)) <= 0)%Z.
Proof.
  intros G No. induction G as [|rows users G _ IH]; unfold user_supports in *; simpl in *; [lia|].
  rewrite active_app in No. apply orb_false_elim in No as [No No'].
  pose proof (part_of_inactive rows k G No) as Le. specialize (IH No'). lia.
Qed.

(** The keys that rows make active: priors of at most 1 for each row. *)
Lemma prior_of_rows rows l : NoDup l -> good rows ->
  lsum (fun k => if active P rows k then prior pub (fst k) else 0) l <= INR (length rows).
Proof.
  intros N G. induction G as [|x rows [L W] _ IH].
  - simpl. rewrite lsum_zero. lra.
  - pose proof (prior_of_row pub x l ok N L W) as One. cbn [length]. rewrite S_INR.
    eapply Rle_trans; [|apply Rplus_le_compat; [exact IH|exact One]]. rewrite <- lsum_plus. apply lsum_le. intros k.
    pose proof (prior_nonneg _ ok (fst k)). unfold active. cbn [existsb]. fold (active P rows k).
    destruct (makes_active P x k), (active P rows k); cbn [orb]; lra.
Qed.

Lemma user_fresh before after x y (cap : nat) : Forall good (before ++ x :: after) -> (length x <= cap)%nat ->
  fresh_within pub (INR cap) (user_supports (before ++ x :: after))
    (active P (concat (before ++ x :: after))) (active P (concat (before ++ y :: after))).
Proof.
  intros G Few.
  assert (good x) as Gx by now apply Forall_elt in G.
  assert (Forall good (before ++ after)) as Others.
  { apply Forall_app in G as [G1 G2]. inversion_clear G2. now apply Forall_app. }
  assert (forall z k, active P (concat (before ++ z :: after)) k = active P z k || active P (concat (before ++ after)) k) as Split.
  { intros z k. rewrite !concat_app. cbn [concat]. rewrite !active_app.
    destruct (active P (concat before) k), (active P z k), (active P (concat after) k); reflexivity. }
  assert (forall k, active P (concat (before ++ x :: after)) k = true -> active P (concat (before ++ y :: after)) k = false ->
    active P x k = true /\ active P (concat (before ++ after)) k = false) as Alone.
  { intros k. rewrite !Split. destruct (active P x k), (active P y k), (active P (concat (before ++ after)) k); auto; discriminate. }
  split.
  - intros k Here There. destruct (Alone k Here There) as [_ No]. rewrite user_supports_at.
    pose proof (support_of_others _ k Others No). unfold support_part, clip. lia.
  - intros l N. eapply Rle_trans; [|apply Rle_trans with (1 := prior_of_rows x l N Gx), le_INR, Few].
    apply lsum_le. intros k. pose proof (prior_nonneg _ ok (fst k)). specialize (Alone k).
    destruct (active P (concat (before ++ x :: after)) k), (active P (concat (before ++ y :: after)) k); cbn [andb negb];
      destruct (active P x k); lra.
Qed.

(** All rows of one user replaced: every score may move by units + lowest, one up and another down. *)
Theorem user_draw_close before after x y (cap : nat) :
  Forall good (before ++ x :: after) -> Forall good (before ++ y :: after) -> (length x <= cap)%nat -> (length y <= cap)%nat ->
  close (rate pub * IZR (2 * (units + lowest))) (delta * INR cap / (1 + delta * INR cap))
    (user_draw (before ++ x :: after)) (user_draw (before ++ y :: after)).
Proof.
  intros Gx Gy Fx Fy.
  apply scored_close with (named (concat (before ++ x :: after)) ++ named (concat (before ++ y :: after))); auto;
    try apply user_score_idle; try (now apply user_fresh).
  - intros k [alive|alive]; apply active_named in alive; apply in_or_app; auto.
  - assert (forall x y m, (support_part y m - support_part x m <= units + lowest)%Z) as Supp
      by (intros; unfold support_part, clip; lia).
    intros m n. rewrite !user_score_at, !user_supports_at.
    pose proof (part_moves y x m). pose proof (part_moves x y n). pose proof (Supp y x m). pose proof (Supp x y n). lia.
Qed.

(** * The sum as the code has it *)

(** What a row says on a change: true where it is a row of the outcome. *)
Definition said (c : change) (r : row) : option bool :=
  match r, c with
  | example patterns label, add k =>
      match matching P patterns, label with
      | [], Some y => if has_outcome y k && (if in_dec eq_dec (fst k) patterns then true else false) then Some true else None
      | [], None => if lowers patterns k then Some false else None
      | _, _ => None
      end
  | example patterns label, drop b =>
      match matching P patterns, label with
      | [b'], Some y => if eq_dec b b' then if has_outcome y b then Some true else None else None
      | [b'], None => if eq_dec b b' then Some false else None
      | _, _ => None
      end
  | _, _ => None
  end.

Definition is_said (c : change) (b : bool) (r : row) : Z :=
  match said c r with Some b' => if Bool.eqb b b' then 1 else 0 | None => 0 end%Z.

Definition told (c : change) (b : bool) (rows : list row) : Z := total_of (is_said c b) rows.

Definition adds (c : change) : bool := match c with add _ => true | _ => false end.
Definition drops (c : change) : bool := match c with drop _ => true | _ => false end.

Lemma score_by_counts c rows : adds c || drops c = true -> Forall lists_a_set rows ->
  score rows (Some c) = ((if adds c then 1 else -1) * (A * told c true rows - B * told c false rows))%Z.
Proof.
  intros Kind L. unfold told. induction L as [|x rows L _ IH]; [cbn; lia|].
  rewrite !total_cons. unfold Effect.score in *. cbn [fold_right]. rewrite IH. clear IH.
  assert (moved A B 0 0 lowers P x (Some c) = (if adds c then 1 else -1) *
    (A * is_said c true x - B * is_said c false x))%Z as ->; [|ring]. unfold is_said.
  destruct x as [|patterns label], c as [k|b|b k]; try discriminate Kind; cbn [moved said adds]; try (cbn [Bool.eqb]; lia).
  - cbn [lists_a_set] in L. pose proof (count_of_set patterns (fst k) L) as Once. cbn [effect_of].
    destruct (matching P patterns) as [|b others]; destruct label as [y|]; cbn [for_keys].
    + destruct (has_outcome y k); cbn [andb]; [|cbn [Bool.eqb]; lia].
      destruct (in_dec eq_dec (fst k) patterns) as [I|I].
      * pose proof (proj1 (count_occ_In eq_dec _ _) I). replace (Z.of_nat (count_occ eq_dec patterns (fst k))) with 1%Z by lia. cbn [Bool.eqb]. lia.
      * rewrite (proj1 (count_occ_not_In eq_dec _ _) I). cbn [Bool.eqb]. lia.
    + destruct (lowers patterns k); cbn [Bool.eqb]; lia.
    + destruct (has_outcome y k); cbn [Bool.eqb]; lia.
    + destruct (lowers patterns k); cbn [Bool.eqb]; lia.
  - cbn [effect_of]. destruct (matching P patterns) as [|b' [|]]; destruct label as [y|]; try (cbn [Bool.eqb]; lia).
    + destruct (eq_dec b b') as [->|]; [|cbn [Bool.eqb]; lia]. cbn [existsb for_drop]. rewrite orb_false_r.
      destruct (has_outcome y b'); cbn [Bool.eqb]; lia.
    + destruct (eq_dec b b'); cbn [Bool.eqb for_drop]; lia.
Qed.

(** The pairs of a user and a change that some row speaks on. *)
Definition some_row (pair : change * (Z * Z)) : bool := negb ((fst (snd pair) =? 0) && (snd (snd pair) =? 0))%Z.

Definition pair_of (rows : list row) (c : change) : change * (Z * Z) := (c, (told c false rows, told c true rows)).

Definition pairs_of (changes : list change) (users : list (list row)) : list (change * (Z * Z)) :=
  filter some_row (flat_map (fun rows => map (pair_of rows) changes) users).

Lemma pairs_of_user changes c rows : NoDup changes -> In c changes ->
  pairs_score A B (- lowest) units (filter some_row (map (pair_of rows) changes)) c
  = clip (- lowest) units (A * told c true rows - B * told c false rows).
Proof.
  assert (forall l, ~ In c l -> pairs_score A B (- lowest) units (filter some_row (map (pair_of rows) l)) c = 0%Z) as None.
  { intros l. unfold pairs_score. induction l as [|d l IH]; intros No; [reflexivity|]. cbn [map filter].
    destruct (some_row _); [rewrite total_cons; cbn [pair_of fst]|apply IH; simpl in No; tauto].
    destruct (eq_dec d c) as [->|]; [simpl in No; tauto|]. rewrite Z.add_0_l. apply IH. simpl in No; tauto. }
  intros N. induction N as [|d changes No N IH]; [intros []|]. intros I. cbn [map filter].
  destruct (eq_dec d c) as [->|Other].
  - destruct (some_row _) eqn:Some'; unfold pairs_score, some_row in *.
    + rewrite total_cons. cbn [pair_of fst snd]. destruct (eq_dec c c); [|tauto]. rewrite None by trivial. lia.
    + rewrite None by trivial. apply negb_false_iff, andb_prop in Some' as [E E']. apply Z.eqb_eq in E, E'. simpl in E, E'.
      rewrite E, E'. unfold clip. lia.
  - assert (In c changes) as I' by (destruct I; [congruence|auto]). rewrite <- (IH I'). unfold pairs_score.
    destruct (some_row _); auto. rewrite total_cons. cbn [pair_of fst]. destruct (eq_dec d c); [congruence|]. apply Z.add_0_l.
Qed.

Theorem user_score_is_executable changes c users : adds c || drops c = true -> NoDup changes -> In c changes ->
  Forall good users ->
  user_score users (Some c) = ((if adds c then 1 else -1) * pairs_score A B (- lowest) units (pairs_of changes users) c)%Z.
Proof.
  intros Kind N I G. induction G as [|rows users G _ IH]; [destruct (adds c); reflexivity|].
  unfold user_score, pairs_of in *. cbn [flat_map]. rewrite filter_app. unfold pairs_score at 1. rewrite total_app.
  fold (pairs_score A B (- lowest) units (filter some_row (map (pair_of rows) changes)) c).
  rewrite pairs_of_user, total_cons by trivial. rewrite IH, Z.mul_add_distr_l. unfold pairs_score. f_equal. unfold user_part.
  pose proof (score_by_counts c rows Kind (good_sets rows G)) as ->.
  destruct c; try discriminate Kind; cbn [adds]; [f_equal|]; unfold clip; lia.
Qed.

End Users.
