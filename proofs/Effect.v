(** Theorem 15 of docs/guarantee.md, step 1: what one row does to the causes learner, src/littlestone/_learners/effect.py.

    How it corresponds. A row lists patterns and has a label: None where it is normal, Some y where it has the outcome
    y; without outcomes there is one. The published rule is an or of keys, each a pattern and an outcome. Numbers are
    in whole units: a missed row adds [al] to the loss that the monitor watches and a false alarm [be]; a row of an
    outcome weighs [A] in the draw and a normal one [B]. They are public and need not be related: the monitor's costs
    are fixed before the epoch, the weights when it ends. [effect_of] is what the code computes, one definition, from
    which proofs/tables are computed too; [moved] says what it adds to the score of a move: add a key, drop a published one, or replace one by a
    narrower key. [lowers] says which keys an unmatched normal row lowers: its own, or all that share their hashes.
    [support] is what rows of the outcome alone say on a key, which the weight of a frequent key reads too.
    row_effects: if the loss does not move, scores move by 2 max(A, B) at most, up and down together; if it does, then
    by max(al, be) at most, and scores by A + B. support_effects: the same where one or both of the two scores that move
    is a support.
    key_of_one_world: a key that one row alone makes active scores at most A, and has a support of at most A.
    *_is_loss_difference: with one outcome, and al = A, be = B, scores are what a move would have saved. *)

From Coq Require Import ZArith List Bool Lia.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope Z_scope.

Section Rows.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.

Definition key : Type := (pattern * outcome)%type.

Inductive row := null | example (patterns : list pattern) (label : option outcome).

Inductive change := add (k : key) | drop (b : key) | replace (b k : key).

#[export] Instance EqDec_change : EqDec change.
Proof. intros m n. unfold key in *. decide equality; apply eq_dec. Defined.

(** None is to change nothing. *)
Definition move := option change.

(** What a row does: to the loss, to the counts (the first cause that matches it, and the label that counts there),
    to the keys that it lists, and to the one cause that alone matches it. *)
Record effect := { loss : Z; cell : option (option key * option outcome); for_keys : Z; for_drop : Z }.

Variables A B al be : Z.
Variable lowers : list pattern -> key -> bool.

Section Published.

Variable P : list key.

(** The published keys whose pattern the row lists. *)
Definition matching (patterns : list pattern) : list key :=
  filter (fun b => if in_dec eq_dec (fst b) patterns then true else false) P.

Definition has_outcome (y : outcome) (b : key) : bool := if eq_dec (snd b) y then true else false.

Definition effect_of (r : row) : effect :=
  match r with
  | null => {| loss := 0; cell := None; for_keys := 0; for_drop := 0 |}
  | example patterns label =>
      match matching patterns, label with
      | [], None => {| loss := 0; cell := Some (None, None); for_keys := - B; for_drop := 0 |}
      | [], Some y => {| loss := al; cell := Some (None, Some y); for_keys := A; for_drop := 0 |}
      | b :: others, None =>
          {| loss := be; cell := Some (Some b, None); for_keys := 0;
             for_drop := match others with [] => B | _ => 0 end |}
      | b :: others, Some y =>
          let told := existsb (has_outcome y) (b :: others) in
          {| loss := if told then 0 else al; cell := Some (Some b, if has_outcome y b then Some y else None);
             for_keys := 0; for_drop := match others with [] => if told then - A else 0 | _ => 0 end |}
      end
  end.

(** What it adds to the score of a move: a row of an outcome speaks for keys of that outcome, a normal one against
    all. A row that the narrower key matches too does not speak on replacing. *)
Definition moved (r : row) (m : move) : Z :=
  match r, m with
  | null, _ | _, None => 0
  | example patterns label, Some (add k) =>
      match label with
      | Some y => if has_outcome y k
                  then for_keys (effect_of r) * Z.of_nat (count_occ eq_dec patterns (fst k)) else 0
      | None => if lowers patterns k then for_keys (effect_of r) else 0
      end
  | example patterns _, Some (drop b) =>
      match matching patterns with [b'] => if eq_dec b b' then for_drop (effect_of r) else 0 | _ => 0 end
  | example patterns _, Some (replace b k) =>
      match matching patterns with
      | [b'] => if eq_dec b b' then if in_dec eq_dec (fst k) patterns then 0 else for_drop (effect_of r) else 0
      | _ => 0
      end
  end.

(** What it adds to the support of a key: only rows of an outcome speak. *)
Definition support (r : row) (m : move) : Z :=
  match r, m with example _ (Some _), Some (add _) => moved r m | _, _ => 0 end.

Definition said (alone : bool) (r : row) (m : move) : Z := if alone then support r m else moved r m.

(** An unmatched row of the key's outcome that lists its pattern makes it active. *)
Definition makes_active (r : row) (k : key) : bool :=
  match r with
  | example patterns (Some y) =>
      match matching patterns with
      | [] => has_outcome y k && (if in_dec eq_dec (fst k) patterns then true else false)
      | _ => false
      end
  | _ => false
  end.

(** The patterns of a row are a set. *)
Definition lists_a_set (r : row) : Prop :=
  match r with null => True | example patterns _ => NoDup patterns end.

Definition score (rows : list row) (m : move) : Z := fold_right (fun r total => moved r m + total) 0 rows.

Definition supports (rows : list row) (m : move) : Z := fold_right (fun r total => support r m + total) 0 rows.

Definition active (rows : list row) (k : key) : bool := existsb (fun r => makes_active r k) rows.

Hypothesis weights : 0 <= A /\ 0 <= B /\ 0 <= al /\ 0 <= be.

(** The table of the lemma. *)
Definition is_add (m : move) : bool := match m with Some (add _) => true | _ => false end.

Definition within (r : row) (n low high low' high' : Z) : Prop :=
  loss (effect_of r) = n /\
  forall m, if is_add m then low <= moved r m <= high else low' <= moved r m <= high'.

Lemma support_within : forall r n low high low' high', within r n low high low' high' -> low <= 0 <= high -> low' <= 0 <= high' ->
  forall alone m, if is_add m then low <= said alone r m <= high else low' <= said alone r m <= high'.
Proof.
  intros r n low high low' high' [_ inside] zero zero' alone m. specialize (inside m).
  destruct alone; [|exact inside]. unfold said, support. destruct r as [|patterns [y|]], m as [[k|b|b k]|]; cbn [is_add] in *; trivial; lia.
Qed.

Definition kind (r : row) : Prop :=
  within r al 0 A 0 0 \/ within r 0 (- B) 0 0 0 \/ within r 0 0 0 (- A) 0 \/ within r be 0 0 0 B.

Lemma count_of_set : forall (patterns : list pattern) p, NoDup patterns ->
  0 <= Z.of_nat (count_occ eq_dec patterns p) <= 1.
Proof.
  intros patterns p unique. pose proof (proj1 (NoDup_count_occ eq_dec patterns) unique p). lia.
Qed.

Lemma row_kind : forall r, lists_a_set r -> kind r.
Proof.
  intros [|patterns label] set; unfold kind, within.
  { right; left. split; [reflexivity|]. intros [[]|]; cbn; lia. }
  cbn [lists_a_set] in set. cbn [effect_of moved].
  destruct (matching patterns) as [|b [|b' others]] eqn:matched; destruct label as [y|]; cbn [loss for_keys for_drop].
  - left. split; trivial. intros [[k|b|b k]|]; cbn [is_add]; try lia.
    pose proof (count_of_set patterns (fst k) set). destruct (has_outcome y k); nia.
  - right; left. split; trivial. intros [[k|b|b k]|]; cbn [is_add]; try lia. destruct (lowers patterns k); lia.
  - cbn [existsb]. rewrite orb_false_r. destruct (has_outcome y b).
    + right; right; left. split; trivial. intros [[k|d|d k]|]; cbn [is_add]; try lia.
      * destruct (has_outcome y k); lia. * destruct (eq_dec d b); lia.
      * destruct (eq_dec d b); [destruct (in_dec _ _ _)|]; lia.
    + left. split; trivial. intros [[k|d|d k]|]; cbn [is_add]; try lia.
      * destruct (has_outcome y k); lia. * destruct (eq_dec d b); lia.
      * destruct (eq_dec d b); [destruct (in_dec _ _ _)|]; lia.
  - right; right; right. split; trivial. intros [[k|d|d k]|]; cbn [is_add]; try lia.
    + destruct (lowers patterns k); lia. + destruct (eq_dec d b); lia.
    + destruct (eq_dec d b); [destruct (in_dec _ _ _)|]; lia.
  - destruct (existsb (has_outcome y) (b :: b' :: others)); [right; left|left]; (split; [trivial|]);
      intros [[k|d|d k]|]; cbn [is_add]; try destruct (has_outcome y k); lia.
  - right; right; right. split; trivial. intros [[k|d|d k]|]; cbn [is_add]; try destruct (lowers patterns k); lia.
Qed.

(** What the replacement of row x by row y does to the score of a move. *)
Definition shift (x y : row) (m : move) : Z := moved y m - moved x m.

Definition shift_said (alone : bool) (x y : row) (m : move) : Z := said alone y m - said alone x m.

Theorem support_effects : forall x y m n alone alone', lists_a_set x -> lists_a_set y ->
  let sigma := loss (effect_of y) - loss (effect_of x) in
  (sigma = 0 -> shift_said alone x y m - shift_said alone' x y n <= 2 * Z.max A B) /\
  (sigma <> 0 -> shift_said alone x y m - shift_said alone' x y n <= A + B).
Proof.
  intros x y m n alone alone' set_x set_y sigma. unfold sigma, shift_said.
  destruct (row_kind x set_x) as [inx|[inx|[inx|inx]]]; destruct (row_kind y set_y) as [iny|[iny|[iny|iny]]];
  pose proof (support_within _ _ _ _ _ _ inx ltac:(lia) ltac:(lia)) as ix;
  pose proof (support_within _ _ _ _ _ _ iny ltac:(lia) ltac:(lia)) as iy;
  destruct inx as [lx _], iny as [ly _];
  rewrite lx, ly; pose proof (ix alone m); pose proof (iy alone m); pose proof (ix alone' n); pose proof (iy alone' n);
  destruct (is_add m), (is_add n); lia.
Qed.

(** [shift m] is at most the largest rise and [- shift n] at most the largest fall; to change nothing has shift 0, so
    this is a bound on rise + fall. *)
Theorem row_effects : forall x y m n, lists_a_set x -> lists_a_set y ->
  let sigma := loss (effect_of y) - loss (effect_of x) in
  Z.abs sigma <= Z.max al be /\
  (sigma = 0 -> shift x y m - shift x y n <= 2 * Z.max A B) /\
  (sigma <> 0 -> shift x y m - shift x y n <= A + B).
Proof.
  intros x y m n set_x set_y sigma. split; [|exact (support_effects x y m n false false set_x set_y)]. unfold sigma.
  destruct (row_kind x set_x) as [(-> & _)|[(-> & _)|[(-> & _)|(-> & _)]]];
  destruct (row_kind y set_y) as [(-> & _)|[(-> & _)|[(-> & _)|(-> & _)]]]; lia.
Qed.

(** The largest rise and fall over any list of moves, as the text has them. *)
Definition rise (x y : row) (moves : list move) : Z := fold_right (fun m most => Z.max (shift x y m) most) 0 moves.
Definition fall (x y : row) (moves : list move) : Z := fold_right (fun m most => Z.max (- shift x y m) most) 0 moves.

Corollary rise_and_fall : forall x y moves, lists_a_set x -> lists_a_set y ->
  let sigma := loss (effect_of y) - loss (effect_of x) in
  (sigma = 0 -> rise x y moves + fall x y moves <= 2 * Z.max A B) /\
  (sigma <> 0 -> Z.abs sigma <= Z.max al be /\ rise x y moves + fall x y moves <= A + B).
Proof.
  intros x y moves set_x set_y.
  assert (idle : shift x y None = 0) by (unfold shift; destruct x, y; reflexivity).
  assert (up : exists m, rise x y moves = shift x y m).
  { induction moves as [|m moves [n same]]; cbn; [now exists None|]. fold (rise x y moves). rewrite same.
    destruct (Z.max_spec (shift x y m) (shift x y n)) as [[_ ->]|[_ ->]]; eauto. }
  assert (down : exists m, fall x y moves = - shift x y m).
  { clear up. induction moves as [|m moves [n same]]; cbn; [exists None; lia|]. fold (fall x y moves). rewrite same.
    destruct (Z.max_spec (- shift x y m) (- shift x y n)) as [[_ ->]|[_ ->]]; eauto. }
  destruct up as [m ->], down as [n ->]. pose proof (row_effects x y m n set_x set_y). cbv zeta in *. lia.
Qed.

(** A row raises a key only by making it active, and then by A at most. *)
Lemma add_effect : forall r k, lists_a_set r -> moved r (Some (add k)) <= (if makes_active r k then A else 0).
Proof.
  intros [|patterns [y|]] k set; cbn [moved makes_active effect_of lists_a_set] in *; try lia.
  - destruct (matching patterns); cbn [for_keys]; [|destruct (has_outcome y k); lia].
    destruct (has_outcome y k); cbn; [|lia]. pose proof (count_of_set patterns (fst k) set).
    destruct (in_dec eq_dec (fst k) patterns) as [|absent]; [nia|].
    rewrite (proj1 (count_occ_not_In eq_dec _ _) absent). lia.
  - destruct (matching patterns); destruct (lowers patterns k); cbn [for_keys]; lia.
Qed.

Lemma support_effect : forall r k, lists_a_set r -> support r (Some (add k)) <= (if makes_active r k then A else 0).
Proof.
  intros [|patterns [y|]] k set; cbn [support]; [cbn; lia|now apply add_effect|cbn; lia].
Qed.

Lemma score_app : forall u v m, score (u ++ v) m = score u m + score v m.
Proof. intros u v m. unfold score. induction u; cbn; lia. Qed.

Lemma supports_app : forall u v m, supports (u ++ v) m = supports u m + supports v m.
Proof. intros u v m. unfold supports. induction u; cbn; lia. Qed.

Lemma supports_of_inactive : forall rows k, Forall lists_a_set rows ->
  active rows k = false -> supports rows (Some (add k)) <= 0.
Proof.
  intros rows k sets. unfold active, supports.
  induction sets as [|r rows set _ below]; cbn [existsb fold_right]; [lia|]. intros none.
  apply orb_false_elim in none as [none_here none_there].
  pose proof (support_effect r k set) as here. rewrite none_here in here. specialize (below none_there). lia.
Qed.

Lemma score_of_inactive : forall rows k, Forall lists_a_set rows ->
  active rows k = false -> score rows (Some (add k)) <= 0.
Proof.
  intros rows k sets. unfold active, score.
  induction sets as [|r rows set _ below]; cbn [existsb fold_right]; [lia|]. intros none.
  apply orb_false_elim in none as [none_here none_there].
  pose proof (add_effect r k set) as here. rewrite none_here in here. specialize (below none_there). lia.
Qed.

(** A key that is active in one world only is listed by the replaced row, and its score is at most that of one
    missed row, whatever speaks against it. *)
Theorem key_of_one_world : forall before after x y k,
  Forall lists_a_set (before ++ x :: after) ->
  active (before ++ x :: after) k = true -> active (before ++ y :: after) k = false ->
  makes_active x k = true /\ score (before ++ x :: after) (Some (add k)) <= A /\
  supports (before ++ x :: after) (Some (add k)) <= A.
Proof.
  intros before after x y k sets here there.
  unfold active in here, there. rewrite existsb_app in here, there. cbn [existsb] in here, there.
  apply orb_false_elim in there as [no_before there]. apply orb_false_elim in there as [_ no_after].
  rewrite no_before, no_after, orb_false_r in here. cbn in here.
  apply Forall_app in sets as [set_before sets]. inversion_clear sets as [|? ? set_x set_after].
  split; [trivial|]. rewrite score_app, supports_app. unfold score at 2, supports at 2; cbn [fold_right].
  fold (score after (Some (add k))) (supports after (Some (add k))).
  pose proof (score_of_inactive before k set_before no_before).
  pose proof (score_of_inactive after k set_after no_after).
  pose proof (supports_of_inactive before k set_before no_before).
  pose proof (supports_of_inactive after k set_after no_after).
  pose proof (add_effect x k set_x). pose proof (support_effect x k set_x). rewrite here in *. lia.
Qed.

(** Only the difference of the replaced row is left of the scores. *)
Lemma score_change : forall before after x y m,
  score (before ++ y :: after) m - score (before ++ x :: after) m = shift x y m.
Proof. intros. rewrite !score_app. unfold shift, score; cbn [fold_right]. lia. Qed.

Lemma supports_change : forall before after x y m,
  supports (before ++ y :: after) m - supports (before ++ x :: after) m = shift_said true x y m.
Proof. intros. rewrite !supports_app. unfold shift_said, said, supports; cbn [fold_right]. lia. Qed.

(** The code sums, for each narrower key, the rows that list it: what dropping the cause gains, less what these say. *)
Definition listing (k : key) (r : row) : bool :=
  match r with example patterns _ => if in_dec eq_dec (fst k) patterns then true else false | null => false end.

Theorem replace_score : forall rows b k,
  score rows (Some (replace b k)) = score rows (Some (drop b)) - score (filter (listing k) rows) (Some (drop b)).
Proof.
  intros rows b k. unfold score. induction rows as [|r rows same]; [reflexivity|]. cbn [fold_right filter]. rewrite same.
  destruct r as [|patterns label]; cbn [listing]; [cbn; lia|].
  destruct (in_dec eq_dec (fst k) patterns) eqn:listed; cbn [fold_right moved]; rewrite ?listed;
    destruct (matching patterns) as [|b' [|]]; try destruct (eq_dec b b'); lia.
Qed.

End Published.
End Rows.

Arguments row : clear implicits.
Arguments change : clear implicits.
Arguments move : clear implicits.
Arguments key : clear implicits.

(** The scores are exact loss differences where there is one outcome. *)
Section One_outcome.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.
Variables A B : Z.
Variable lowers : list pattern -> key pattern outcome -> bool.
Hypothesis one : forall y z : outcome, y = z.
Hypothesis exact : forall patterns k, lowers patterns k = true <-> In (fst k) patterns.

Notation loss P r := (loss (effect_of A B A B P r)).
Notation moved P := (moved A B A B lowers P).

Lemma one_outcome : forall y (b : key pattern outcome), has_outcome y b = true.
Proof. intros y b. unfold has_outcome. destruct (eq_dec (snd b) y); auto. Qed.

Lemma loss_by_match : forall (P : list (key pattern outcome)) patterns label,
  loss P (example patterns label)
  = match matching P patterns, label with
    | [], Some _ => A | [], None => 0 | _ :: _, Some _ => 0 | _ :: _, None => B end.
Proof.
  intros P patterns [y|]; cbn [effect_of]; destruct (matching P patterns); trivial.
  cbn -[has_outcome]. now rewrite one_outcome.
Qed.

Theorem net_is_loss_difference : forall P r k, lists_a_set r -> moved P r (Some (add k)) = loss P r - loss (k :: P) r.
Proof.
  intros P [|patterns label] k set; [cbn; lia|]. rewrite !loss_by_match.
  cbn [Effect.moved effect_of matching filter lists_a_set] in *. fold (matching P patterns).
  pose proof (count_of_set patterns (fst k) set).
  destruct (in_dec eq_dec (fst k) patterns) as [listed|absent].
  - assert (Z.of_nat (count_occ eq_dec patterns (fst k)) = 1) as ->
      by (pose proof (proj1 (count_occ_In eq_dec _ _) listed); lia).
    rewrite (proj2 (exact patterns k) listed).
    destruct (matching P patterns); destruct label; rewrite ?one_outcome; cbn [for_keys]; lia.
  - rewrite (proj1 (count_occ_not_In eq_dec _ _) absent).
    destruct (lowers patterns k) eqn:low; [now apply exact in low|].
    destruct (matching P patterns); destruct label; rewrite ?one_outcome; lia.
Qed.

(** What is left to match a row without [b]. *)
Lemma matching_without : forall (P : list (key pattern outcome)) patterns b,
  matching (remove eq_dec b P) patterns = remove eq_dec b (matching P patterns).
Proof.
  intros P patterns b. unfold matching. induction P as [|p P same]; [reflexivity|]. cbn.
  destruct (eq_dec b p) as [<-|other]; cbn; destruct (in_dec eq_dec _ patterns); cbn; rewrite ?same; trivial.
  - now destruct (eq_dec b b).
  - now destruct (eq_dec b p).
Qed.

Theorem drop_is_loss_difference : forall P r b, NoDup P ->
  moved P r (Some (drop b)) = loss P r - loss (remove eq_dec b P) r.
Proof.
  intros P [|patterns label] b unique; [cbn; lia|]. rewrite !loss_by_match, matching_without.
  assert (NoDup (matching P patterns)) as unique' by now apply NoDup_filter.
  cbn [Effect.moved effect_of]. destruct (matching P patterns) as [|b1 [|b2 matched]]; cbn -[has_outcome].
  - destruct label; lia.
  - destruct (eq_dec b b1); destruct label; cbn -[has_outcome]; rewrite ?one_outcome; cbn; lia.
  - destruct (eq_dec b b1) as [<-|]; [|destruct label; lia].
    destruct (eq_dec b b2) as [<-|]; [|destruct label; lia].
    inversion_clear unique' as [|? ? twice _]. elim twice. now left.
Qed.

(** Of a key that is narrower: rows that list it list [b]. *)
Theorem replace_is_loss_difference : forall P patterns label b k, NoDup P -> In b P ->
  (In (fst k) patterns -> In (fst b) patterns) ->
  moved P (example patterns label) (Some (replace b k))
  = loss P (example patterns label) - loss (k :: remove eq_dec b P) (example patterns label).
Proof.
  intros P patterns label b k unique published nested.
  pose proof (drop_is_loss_difference P (example patterns label) b unique) as dropped.
  rewrite !loss_by_match in *. cbn [Effect.moved effect_of matching filter] in *.
  fold (matching (remove eq_dec b P) patterns). destruct (in_dec eq_dec (fst k) patterns) as [listed|absent].
  - assert (In b (matching P patterns)) as here.
    { apply filter_In. split; trivial. destruct (in_dec eq_dec (fst b) patterns); tauto. }
    destruct (matching P patterns) as [|b1 [|b2 matched]]; [elim here| |];
      destruct label; cbn; try match goal with |- context [if ?same then _ else _] => destruct same end; lia.
  - exact dropped.
Qed.

End One_outcome.
