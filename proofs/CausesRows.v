(* Theorem 15, steps 1 and 4: what a row does to the scores of the causes learner.

   Costs are counted in whole units, as in the code: a missed positive is [miss] units, a false
   alarm [alarm], so c = alarm / miss.  A row lists patterns and has a label: [None] where it is
   normal (negative), [Some y] where it has the outcome y; with one outcome this is the first table
   of the theorem, with several the second one.  [lowers] says which keys an unmatched negative
   row lowers: its own, or all that share their hashes ("Hashed negatives"). *)

From Coq Require Import ZArith List Bool Lia.
From Littlestone Require Import Laws.
Import ListNotations.
Open Scope Z_scope.

Section Rows.

Context {pattern outcome : Type} `{EqDec pattern} `{EqDec outcome}.

(* A key is a pattern and an outcome; the published rule is an or of keys. *)
Definition key : Type := (pattern * outcome)%type.

Inductive row := null | example (patterns : list pattern) (label : option outcome).

Inductive move := nothing | add (k : key) | drop (b : key).

#[export] Instance EqDec_move : EqDec move.
Proof. intros m n. unfold key in *. decide equality; apply eq_dec. Defined.

Variables miss alarm : Z.
Variable lowers : list pattern -> key -> bool.

Section Published.

Variable P : list key.

(* The published keys whose pattern the row lists. *)
Definition matching (patterns : list pattern) : list key :=
  filter (fun b => if in_dec eq_dec (fst b) patterns then true else false) P.

Definition has_outcome (y : outcome) (b : key) : bool :=
  if eq_dec (snd b) y then true else false.

(* The loss of the published rule on a row. *)
Definition loss (r : row) : Z :=
  match r with
  | null => 0
  | example patterns label =>
      match matching patterns, label with
      | [], None => 0
      | [], Some _ => miss
      | _ :: _, None => alarm
      | matched, Some y => if existsb (has_outcome y) matched then 0 else miss
      end
  end.

(* What a row adds to the score of a move: net[k] for adding k, drop[b] for dropping b. *)
Definition effect (r : row) (m : move) : Z :=
  match r, m with
  | null, _ | _, nothing => 0
  | example patterns label, add k =>
      match matching patterns, label with
      | [], Some y =>
          if has_outcome y k
          then miss * Z.of_nat (count_occ eq_dec patterns (fst k)) else 0
      | [], None => if lowers patterns k then - alarm else 0
      | _ :: _, _ => 0
      end
  | example patterns label, drop b =>
      match matching patterns, label with
      | [b'], None => if eq_dec b b' then alarm else 0
      | [b'], Some y => if eq_dec b b' then (if has_outcome y b' then - miss else 0) else 0
      | _, _ => 0
      end
  end.

(* An unmatched row of the key's outcome that lists its pattern makes it active. *)
Definition makes_active (r : row) (k : key) : bool :=
  match r with
  | example patterns (Some y) =>
      match matching patterns with
      | [] => has_outcome y k && (if in_dec eq_dec (fst k) patterns then true else false)
      | _ => false
      end
  | _ => false
  end.

(* The patterns of a row are a set. *)
Definition lists_a_set (r : row) : Prop :=
  match r with null => True | example patterns _ => NoDup patterns end.

Definition score (rows : list row) (m : move) : Z :=
  fold_right (fun r total => effect r m + total) 0 rows.

Definition total_loss (rows : list row) : Z :=
  fold_right (fun r total => loss r + total) 0 rows.

Definition active (rows : list row) (k : key) : bool := existsb (fun r => makes_active r k) rows.

Hypothesis units : 0 <= alarm <= miss.

(* The table of the theorem: a row is of one of five kinds, by its loss and the way it moves
   the scores of adds and of drops. *)
Definition kind (r : row) : Prop :=
  (loss r = miss /\ (forall k, 0 <= effect r (add k) <= miss) /\ forall b, effect r (drop b) = 0)
  \/ (loss r = 0 /\ (forall k, - alarm <= effect r (add k) <= 0)
      /\ forall b, effect r (drop b) = 0)
  \/ (loss r = 0 /\ (forall k, effect r (add k) = 0)
      /\ forall b, - miss <= effect r (drop b) <= 0)
  \/ (loss r = alarm /\ (forall k, effect r (add k) = 0)
      /\ forall b, 0 <= effect r (drop b) <= alarm).

Lemma count_of_set : forall (patterns : list pattern) p, NoDup patterns ->
  0 <= Z.of_nat (count_occ eq_dec patterns p) <= 1.
Proof.
  intros patterns p unique.
  pose proof (proj1 (NoDup_count_occ eq_dec patterns) unique p). lia.
Qed.

Lemma row_kind : forall r, lists_a_set r -> kind r.
Proof.
  intros [|patterns [y|]] set; unfold kind; cbn [loss effect].
  - right; left. repeat split; lia.
  - cbn [lists_a_set] in set.
    destruct (matching patterns) as [|b [|b' rest]] eqn:matched.
    + left. repeat split; try lia; destruct (has_outcome y k); try lia;
        pose proof (count_of_set patterns (fst k) set); nia.
    + cbn [existsb]. rewrite orb_false_r. destruct (has_outcome y b).
      * right; right; left. repeat split; try lia; destruct (eq_dec b0 b); lia.
      * left. repeat split; try lia. intros b0. destruct (eq_dec b0 b); reflexivity.
    + destruct (existsb (has_outcome y) (b :: b' :: rest)).
      * right; left. repeat split; lia.
      * left. repeat split; lia.
  - destruct (matching patterns) as [|b [|b' rest]] eqn:matched.
    + right; left. repeat split; try lia; destruct (lowers patterns k); lia.
    + right; right; right. repeat split; try lia; destruct (eq_dec b0 b); lia.
    + right; right; right. repeat split; lia.
Qed.

(* What the replacement of row x by row y does to the score of a move. *)
Definition change (x y : row) (m : move) : Z := effect y m - effect x m.

(* Step 1.  [change m] is at most the largest rise and [- change n] at most the largest fall;
   doing nothing has change 0, so this is a bound on rise + fall. *)
Theorem row_effects : forall x y m n, lists_a_set x -> lists_a_set y ->
  Z.abs (loss y - loss x) <= miss /\
  (loss y = loss x -> change x y m - change x y n <= 2 * miss) /\
  (loss y <> loss x -> change x y m - change x y n <= miss + alarm).
Proof.
  intros x y m n set_x set_y.
  assert (idle : forall r, effect r nothing = 0) by (intros []; reflexivity).
  destruct (row_kind x set_x) as [(lx & ax & dx)|[(lx & ax & dx)|[(lx & ax & dx)|(lx & ax & dx)]]];
  destruct (row_kind y set_y) as [(ly & ay & dy)|[(ly & ay & dy)|[(ly & ay & dy)|(ly & ay & dy)]]];
  unfold change; rewrite lx, ly; (split; [lia|]);
  destruct m as [|k|b]; destruct n as [|k'|b']; rewrite ?idle, ?dx, ?dy;
  try pose proof (ax k); try pose proof (ay k); try pose proof (ax k'); try pose proof (ay k');
  try pose proof (dx b); try pose proof (dy b); try pose proof (dx b'); try pose proof (dy b');
  split; lia.
Qed.

(* The largest rise and fall over any list of moves, as the text has them. *)
Definition rise (x y : row) (moves : list move) : Z :=
  fold_right (fun m most => Z.max (change x y m) most) 0 moves.
Definition fall (x y : row) (moves : list move) : Z :=
  fold_right (fun m most => Z.max (- change x y m) most) 0 moves.

Corollary rise_and_fall : forall x y moves, lists_a_set x -> lists_a_set y ->
  (loss y = loss x -> rise x y moves + fall x y moves <= 2 * miss) /\
  (loss y <> loss x -> rise x y moves + fall x y moves <= miss + alarm).
Proof.
  intros x y moves set_x set_y.
  assert (up : exists m, rise x y moves = change x y m).
  { induction moves as [|m moves [n same]]; cbn; [now exists nothing; destruct x, y|].
    fold (rise x y moves). rewrite same.
    destruct (Z.max_spec (change x y m) (change x y n)) as [[_ ->]|[_ ->]]; eauto. }
  assert (down : exists m, fall x y moves = - change x y m).
  { clear up. induction moves as [|m moves [n same]]; cbn; [now exists nothing; destruct x, y|].
    fold (fall x y moves). rewrite same.
    destruct (Z.max_spec (- change x y m) (- change x y n)) as [[_ ->]|[_ ->]]; eauto. }
  destruct up as [m ->], down as [n ->].
  pose proof (row_effects x y m n set_x set_y). lia.
Qed.

(* A row moves no score of a key that it does not list, of its own or through a hash. *)
Lemma moves_what_it_lists : forall patterns label m,
  effect (example patterns label) m <> 0 ->
  match m with
  | nothing => False
  | add k => In (fst k) patterns \/ lowers patterns k = true
  | drop b => In b P /\ In (fst b) patterns
  end.
Proof.
  intros patterns label [|k|b] moved; cbn [effect] in moved.
  - now apply moved.
  - destruct (matching patterns); [|now elim moved]. destruct label as [y|].
    + destruct (has_outcome y k); [|now elim moved].
      left. apply (count_occ_In eq_dec). nia.
    + right. now destruct (lowers patterns k).
  - destruct (matching patterns) as [|b' [|]] eqn:matched; [now elim moved| |now elim moved].
    assert (b = b') as -> by (destruct label; destruct (eq_dec b b'); trivial; now elim moved).
    assert (listed : In b' (matching patterns)) by (rewrite matched; now left).
    apply filter_In in listed as [published lists]. split; [trivial|].
    now destruct (in_dec eq_dec (fst b') patterns).
Qed.

(* A row raises a key only by making it active, and then by [miss] at most. *)
Lemma add_effect : forall r k, lists_a_set r ->
  effect r (add k) <= (if makes_active r k then miss else 0).
Proof.
  intros [|patterns [y|]] k set; cbn [effect makes_active lists_a_set] in *; try lia.
  - destruct (matching patterns); [|lia]. destruct (has_outcome y k); cbn; [|lia].
    pose proof (count_of_set patterns (fst k) set).
    destruct (in_dec eq_dec (fst k) patterns) as [|absent]; [nia|].
    rewrite (proj1 (count_occ_not_In eq_dec _ _) absent). lia.
  - destruct (matching patterns); destruct (lowers patterns k); lia.
Qed.

Lemma score_app : forall some others m, score (some ++ others) m = score some m + score others m.
Proof. intros some others m. unfold score. induction some; cbn; lia. Qed.

Lemma score_of_inactive : forall rows k, Forall lists_a_set rows ->
  active rows k = false -> score rows (add k) <= 0.
Proof.
  intros rows k sets. unfold active, score.
  induction sets as [|r rows set _ below]; cbn; [lia|]. intros none.
  apply orb_false_elim in none as [none_here none_there].
  pose proof (add_effect r k set) as here. rewrite none_here in here. specialize (below none_there).
  lia.
Qed.

(* Step 4.  A key that is active in one world only is listed by the replaced row, and its net is at
   most that of one missed positive, whatever its negatives. *)
Theorem key_of_one_world : forall before after x y k,
  Forall lists_a_set (before ++ x :: after) ->
  active (before ++ x :: after) k = true -> active (before ++ y :: after) k = false ->
  makes_active x k = true /\ score (before ++ x :: after) (add k) <= miss.
Proof.
  intros before after x y k sets here there.
  unfold active in here, there. rewrite existsb_app in here, there. cbn in here, there.
  apply orb_false_elim in there as [no_before there]. apply orb_false_elim in there as [_ no_after].
  rewrite no_before, no_after, orb_false_r in here. cbn in here.
  apply Forall_app in sets as [set_before sets]. inversion_clear sets as [|? ? set_x set_after].
  split; [trivial|]. rewrite score_app. unfold score at 2; cbn; fold (score after (add k)).
  pose proof (score_of_inactive before k set_before no_before).
  pose proof (score_of_inactive after k set_after no_after).
  pose proof (add_effect x k set_x). rewrite here in *. lia.
Qed.

(* Only the difference of the replaced row is left of the scores and of the loss. *)
Lemma score_change : forall before after x y m,
  score (before ++ y :: after) m - score (before ++ x :: after) m = change x y m.
Proof. intros. rewrite !score_app. unfold change, score; cbn. lia. Qed.

End Published.

(* The counters are exact loss differences where there is one outcome. *)
Section One_outcome.

Hypothesis one : forall y z : outcome, y = z.
Hypothesis exact : forall patterns k, lowers patterns k = true <-> In (fst k) patterns.

Lemma one_outcome : forall y b, has_outcome y b = true.
Proof. intros y b. unfold has_outcome. destruct (eq_dec (snd b) y); auto. Qed.

Lemma loss_by_match : forall P patterns label,
  loss P (example patterns label)
  = match matching P patterns, label with
    | [], Some _ => miss | [], None => 0 | _ :: _, Some _ => 0 | _ :: _, None => alarm end.
Proof.
  intros P patterns [y|]; cbn [loss]; destruct (matching P patterns); trivial.
  cbn. now rewrite one_outcome.
Qed.

Theorem net_is_loss_difference : forall P r k, lists_a_set r ->
  effect P r (add k) = loss P r - loss (k :: P) r.
Proof.
  intros P [|patterns label] k set; [cbn; lia|]. rewrite !loss_by_match.
  cbn [effect matching filter lists_a_set] in *. fold (matching P patterns).
  pose proof (count_of_set patterns (fst k) set).
  destruct (in_dec eq_dec (fst k) patterns) as [listed|absent].
  - assert (Z.of_nat (count_occ eq_dec patterns (fst k)) = 1) as ->
      by (pose proof (proj1 (count_occ_In eq_dec _ _) listed); lia).
    rewrite (proj2 (exact patterns k) listed).
    destruct (matching P patterns); destruct label; rewrite ?one_outcome; lia.
  - rewrite (proj1 (count_occ_not_In eq_dec _ _) absent).
    destruct (lowers patterns k) eqn:low; [now apply exact in low|].
    destruct (matching P patterns); destruct label; rewrite ?one_outcome; lia.
Qed.

Theorem drop_is_loss_difference : forall P r b, NoDup P ->
  effect P r (drop b) = loss P r - loss (remove eq_dec b P) r.
Proof.
  intros P [|patterns label] b unique; [cbn; lia|]. rewrite !loss_by_match. cbn [effect].
  assert (rest : matching (remove eq_dec b P) patterns = remove eq_dec b (matching P patterns)).
  { clear unique. unfold matching. induction P as [|p P same]; [reflexivity|]. cbn.
    destruct (eq_dec b p) as [<-|other]; cbn;
      destruct (in_dec eq_dec _ patterns); cbn; rewrite ?same; trivial.
    - now destruct (eq_dec b b).
    - now destruct (eq_dec b p). }
  rewrite rest.
  assert (NoDup (matching P patterns)) as unique' by now apply NoDup_filter.
  destruct (matching P patterns) as [|b1 [|b2 matched]]; cbn.
  - destruct label; lia.
  - destruct (eq_dec b b1); destruct label; rewrite ?one_outcome; lia.
  - destruct (eq_dec b b1) as [<-|]; [|destruct label; lia].
    destruct (eq_dec b b2) as [<-|]; [|destruct label; lia].
    inversion_clear unique' as [|? ? twice _]. elim twice. now left.
Qed.

End One_outcome.
End Rows.

Arguments row : clear implicits.
Arguments move : clear implicits.
Arguments key : clear implicits.
