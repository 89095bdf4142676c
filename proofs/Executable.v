(* The mechanisms as programs that compute their own laws, over any numbers.

    Each definition is one text with a parameter [K], the numbers. At [rational] it is evaluated, by
    [vm_compute], to the tables that tests/privacy/test_proof_tables.py compares with the Python
    code; at [real] it is what the theorems are about (Histogram.v, Selection.v). Where the code has
    exp(-1/scale), a definition has a parameter [a]; every proof needs 0 < a < 1 and no more, so a
    rational [a] is as good as exp(-1/scale).

    A law is a list of outcomes with their probabilities. Noise that is stored is cut off at a
    [width]: what lies beyond is left out, as in littlestone._audit.enumeration. So a table holds a
    partial sum of the series of the law, exactly. *)

Require Import ZArith List Bool QArith Qround Qabs Reals.
Import ListNotations.
Open Scope Z_scope.

Record num := Num {
  carrier :> Type;
  zero : carrier; one : carrier;
  add : carrier -> carrier -> carrier; sub : carrier -> carrier -> carrier;
  mul : carrier -> carrier -> carrier; div : carrier -> carrier -> carrier }.

(* Reduced after every step: a law of four checks would otherwise have numbers of many pages. *)
Definition rational : num :=
  Num Q 0%Q 1%Q (fun x y => Qred (x + y)) (fun x y => Qred (x - y)) (fun x y => Qred (x * y))
    (fun x y => Qred (x / y)).
Definition real : num := Num R 0%R 1%R Rplus Rminus Rmult Rdiv.

Section Laws.

Variable K : num.

Declare Scope num_scope.
Local Infix "+" := (add K) : num_scope.
Local Infix "-" := (sub K) : num_scope.
Local Infix "*" := (mul K) : num_scope.
Local Infix "/" := (div K) : num_scope.
Local Notation "0" := (zero K) : num_scope.
Local Notation "1" := (one K) : num_scope.
Delimit Scope num_scope with num.
Local Open Scope num_scope.

Fixpoint power (x : K) (n : nat) : K := match n with O => 1 | S m => x * power x m end.

Definition total (l : list K) : K := fold_right (add K) 0 l.

(** * Laws as lists *)

Definition law (A : Type) := list (A * K).

Definition point {A} (x : A) : law A := [(x, 1)].

Definition bind {A B} (l : law A) (f : A -> law B) : law B :=
  flat_map (fun xp => map (fun yq => (fst yq, snd xp * snd yq)) (f (fst xp))) l.

(** The probability of all outcomes that [keep] accepts. *)
Definition mass {A} (keep : A -> bool) (l : law A) : K :=
  total (map (fun xp => if keep (fst xp) then snd xp else 0) l).

(** Outcomes in the order of their first occurrence, each with its whole probability. *)
Fixpoint insert {A} (eqb : A -> A -> bool) (x : A) (p : K) (l : law A) : law A :=
  match l with
  | [] => [(x, p)]
  | (y, q) :: m => if eqb x y then (y, q + p) :: m else (y, q) :: insert eqb x p m
  end.

Definition collected {A} (eqb : A -> A -> bool) (l : law A) : law A :=
  fold_left (fun m xp => insert eqb (fst xp) (snd xp) m) l [].

(** * Noise (Lemma 1): [a] stands for exp(-1/scale) *)

Definition laplace_mass (a : K) (k : Z) : K := (1 - a) / (1 + a) * power a (Z.abs_nat k).

Definition geometric_mass (a : K) (k : nat) : K := (1 - a) * power a k.

(** P(noise >= gap). *)
Definition laplace_tail (a : K) (gap : Z) : K :=
  if (gap <=? 0)%Z then 1 - power a (Z.to_nat (1 - gap)) / (1 + a)
  else power a (Z.to_nat gap) / (1 + a).

Definition geometric_tail (a : K) (gap : Z) : K := power a (Z.to_nat gap).

Definition laplace (width : nat) (a : K) : law Z :=
  map (fun n => let k := (Z.of_nat n - Z.of_nat width)%Z in (k, laplace_mass a k))
    (seq 0 (2 * width + 1)).

Definition geometric (width : nat) (a : K) : law Z :=
  map (fun n => (Z.of_nat n, geometric_mass a n)) (seq 0 (width + 1)).

(** * Theorem 2: the sparse vector

   [a] is the base of the threshold noise, drawn once, [b] that of the query noise; [left] is the
   number of firings that are left. A query comes with its threshold. *)

Fixpoint sparse_vector (a b : K) (width left : nat) (noise : option Z) (queries : list (Z * Z))
  : law (list bool) :=
  match queries with
  | [] => point []
  | (query, threshold) :: rest =>
      match left with
      | O => bind (sparse_vector a b width O noise rest) (fun t => point (false :: t))
      | S fewer =>
          bind (match noise with None => laplace width a | Some r => point r end) (fun r =>
            let yes := laplace_tail b (threshold + r - query)%Z in
            bind [(true, yes); (false, 1 - yes)] (fun fired =>
              bind (sparse_vector a b width (if fired then fewer else left) (Some r) rest) (fun t =>
                point (fired :: t))))
      end
  end.

(** * Theorem 3: the mistakes monitor

   A check brings its new mistakes and its threshold. Both noises are one-sided, of base [a]. *)

Definition monitor_check (a : K) (width : nat) (noise : option Z) (count threshold : Z)
  : law (bool * Z) :=
  bind (match noise with None => geometric width a | Some r => point r end) (fun r =>
    let yes := geometric_tail a (threshold + r - count)%Z in
    [((true, r), yes); ((false, r), 1 - yes)]).

Fixpoint monitor (a : K) (width : nat) (noise : option Z) (count : Z) (checks : list (Z * Z))
  : law (list bool) :=
  match checks with
  | [] => point []
  | (mistakes, threshold) :: rest =>
      let now := (count + mistakes)%Z in
      bind (monitor_check a width noise now threshold) (fun answer =>
        let (fired, r) := answer in
        bind (if fired then monitor a width None 0%Z rest else monitor a width (Some r) now rest)
          (fun t => point (fired :: t)))
  end.

(** * Theorem 4: the stable histogram

   Keys with their votes, in the order of bytes; a key without votes is absent. [best] and [top] are
   the variables of the loop in [StableHistogram.select]; it begins with None and tau - 1. *)

Fixpoint histogram_from (a : K) (width : nat) (votes : list (Z * nat)) (best : option Z) (top : Z)
  : law (option Z) :=
  match votes with
  | [] => point best
  | (_, O) :: rest => histogram_from a width rest best top
  | (key, n) :: rest =>
      bind (laplace width a) (fun noise =>
        let noisy := (Z.of_nat n + noise)%Z in
        if (top <? noisy)%Z then histogram_from a width rest (Some key) noisy
        else histogram_from a width rest best top)
  end.

Definition histogram (a : K) (width : nat) (tau : Z) (votes : list (Z * nat)) : law (option Z) :=
  histogram_from a width votes None (tau - 1)%Z.

(** * Theorem 5: unknown-domain selection

   [q] is the growth of the weights, [accept] the acceptance probability by votes. *)

Definition weight (q : K) (n : nat) : K :=
  match n with O => 0 | S m => (q - 1) * power q m end.

Definition weights (q : K) (votes : list (Z * nat)) : K :=
  1 + total (map (fun kv => weight q (snd kv)) votes).

(** [all] is the sum Z of all weights, that of None included. *)
Definition name_probability (q : K) (accept : nat -> K) (all : K) (n : nat) : K :=
  match n with
  | O => 0
  | S _ => 1 / (1 / accept n + (all - weight q n) / weight q n)
  end.

Definition names (q : K) (accept : nat -> K) (votes : list (Z * nat)) : list (Z * K) :=
  map (fun kv => (fst kv, name_probability q accept (weights q votes) (snd kv))) votes.

Definition none_probability (q : K) (accept : nat -> K) (votes : list (Z * nat)) : K :=
  1 - total (map snd (names q accept votes)).

Definition selection (q : K) (accept : nat -> K) (votes : list (Z * nat)) : law (option Z) :=
  (None, none_probability q accept votes)
  :: map (fun kp => (Some (fst kp), snd kp)) (names q accept votes).

(** A curve as the code keeps it: a list, and 1 from its end on. *)
Definition curve_at (curve : list K) (n : nat) : K := nth n curve 1.

(** * Theorem 6: the exponential mechanism, with public weights

   A candidate is a weight and a score; a unit of score below the best divides its weight by 1/a. *)

Definition best_score (candidates : list (K * Z)) : Z :=
  match map snd candidates with [] => 0%Z | s :: rest => fold_left Z.max rest s end.

Definition candidate_weight (a : K) (best : Z) (candidate : K * Z) : K :=
  fst candidate * power a (Z.to_nat (best - snd candidate)).

Definition exponential (a : K) (candidates : list (K * Z)) : list K :=
  let best := best_score candidates in
  let all := total (map (candidate_weight a best) candidates) in
  map (fun c => candidate_weight a best c / all) candidates.

(** * Theorem 15: the draw of the causes learner

   In units. A move is listed in public, with its weight, its score and an offset, and may be clipped at a score of 0;
   or it adds an unknown key, which has a weight, the score [gain] less the bar, and what rows of its outcome alone say,
   [support], less what that has to exceed. Nothing weighs 1. *)

Inductive candidate :=
  | plain_move (weight : K) (gain offset : Z)
  | known_key (weight : K) (gain offset : Z)
  | unknown_key (weight : K) (gain bar support high : Z).

Definition weighed (c : candidate) : K * Z :=
  match c with
  | plain_move w gain offset => (w, gain - offset)
  | known_key w gain offset => (w, Z.max gain 0 - offset)
  | unknown_key w gain bar support high => (w, Z.min (gain - bar) (support - high))
  end%Z.

(** What rows say, by how many are negative and how many positive. *)
Definition counted (positive negative : Z) (rows : Z * Z) : Z := (positive * snd rows - negative * fst rows)%Z.

Definition causes_draw (a : K) (candidates : list candidate) : list K :=
  exponential a ((1, 0%Z) :: map weighed candidates).

(** * Theorem 16: released counts, and values that stand out

   The probability of an outcome: of the released numbers, and, value by value in order, of whether it is released. A
   value without a vote is not. *)

Fixpoint counts_mass (a : K) (counts released : list Z) : K :=
  match counts, released with
  | [], [] => 1
  | n :: counts, z :: released => laplace_mass a (z - n)%Z * counts_mass a counts released
  | _, _ => 0
  end.

Fixpoint values_mass (a : K) (t : Z) (votes : list Z) (answers : list bool) : K :=
  match votes, answers with
  | [], [] => 1
  | n :: votes, yes :: answers =>
      let p := if (n <=? 0)%Z then 0 else laplace_tail a (t - n)%Z in
      (if yes then p else 1 - p) * values_mass a t votes answers
  | _, _ => 0
  end.

Fixpoint each_of {A} (choices : list (list A)) : list (list A) :=
  match choices with
  | [] => [[]]
  | some :: rest => flat_map (fun x => map (cons x) (each_of rest)) some
  end.

Definition released_counts (a : K) (width : nat) (counts : list Z) : law (list Z) :=
  map (fun zs => (zs, counts_mass a counts zs))
    (each_of (map (fun n => map (fun k => n + fst k)%Z (laplace width a)) counts)).

Definition released_values (a : K) (t : Z) (votes : list Z) : law (list bool) :=
  map (fun answers => (answers, values_mass a t votes answers)) (each_of (map (fun _ => [true; false]) votes)).

(** * Theorem 7: the one gate

   A schedule has a state: it says the threshold at an age of the monitor's window, how long windows and epochs are, and
   what its state is after an epoch that ended with a firing or not, and with a key or not. The draw reads the rows since
   the last one, the latest first. *)

Definition reached (length : option nat) (age : nat) : bool :=
  match length with None => false | Some n => (n <=? age)%nat end.

Section Gate.
Context {State Row : Type}.
Variables (limit : State -> nat -> Z) (window epoch : State -> option nat).
Variable after : State -> bool -> option Z -> State.
Variable loss : Z -> Row -> Z.
Variable draw : State -> Z -> list Row -> law (option Z).

Fixpoint gate (a : K) (width : nat) (state : State) (published : Z) (noise : option Z) (count : Z)
  (read : list Row) (window_age epoch_age : nat) (rows : list Row) : law (list (bool * option Z)) :=
  match rows with
  | [] => point []
  | row :: rest =>
      let now := (count + loss published row)%Z in
      bind (monitor_check a width noise now (limit state (S window_age))) (fun answer =>
        let (fired, r) := answer in
        if fired || reached (epoch state) (S epoch_age) then
          bind (draw state published (row :: read)) (fun key =>
            bind (gate a width (after state fired key) (match key with None => published | Some k => k end)
                    None 0%Z [] 0 0 rest)
              (fun t => point ((true, key) :: t)))
        else
          let over := reached (window state) (S window_age) in
          bind (gate a width state published (if over then None else Some r) (if over then 0%Z else now)
                  (row :: read) (if over then O else S window_age) (S epoch_age) rest)
            (fun t => point ((false, None) :: t)))
  end.

End Gate.

(** A row is the key that it is evidence for, or None; it is a mistake if that is not the published key. The draw is
    unknown-domain selection from the votes, without the published key; a refusal raises the threshold. *)

Fixpoint vote (key : Z) (votes : list (Z * nat)) : list (Z * nat) :=
  match votes with
  | [] => [(key, 1%nat)]
  | (other, n) :: rest =>
      if (key =? other)%Z then (other, S n) :: rest else (other, n) :: vote key rest
  end.

Definition voted (row : option Z) (votes : list (Z * nat)) : list (Z * nat) :=
  match row with None => votes | Some key => vote key votes end.

Definition mistake (published : Z) (row : option Z) : Z :=
  match row with None => 0%Z | Some key => if (key =? published)%Z then 0%Z else 1%Z end.

Definition without (published : Z) (votes : list (Z * nat)) : list (Z * nat) :=
  filter (fun kv => negb (fst kv =? published)%Z) votes.

Definition votes_gate (a q : K) (accept : nat -> K) (width : nat) (window epoch : option nat)
  (rows : list (option Z)) : law (list (bool * option Z)) :=
  gate (fun refusals age => 2 + Z.of_nat refusals - Z.of_nat age)%Z (fun _ => window) (fun _ => epoch)
    (fun refusals _ key => match key with None => S refusals | Some _ => O end) mistake
    (fun _ published read => selection q accept (without published (fold_right voted [] read)))
    a width O 0%Z None 0%Z [] O O rows.

End Laws.

(** * The acceptance curve, in rationals (Theorem 5)

   The same steps as [acceptance_curve] of _privacy/selection.py; [growth_bits] and [bits] are the
   grids of q and of the probabilities. *)

Section Curve.
Local Open Scope Q_scope.

Definition floored (bits : nat) (x : Q) : Q :=
  let scale := (2 ^ Z.of_nat bits)%Z in Qred (Qmake (Qfloor (x * inject_Z scale)) (Z.to_pos scale)).

(** A partial sum of the series of exp: [j] is the next term's number. *)
Fixpoint series (x term sum : Q) (j : Z) (terms : nat) : Q :=
  match terms with
  | O => sum
  | S fewer =>
      let next := Qred (term * x / inject_Z j) in series x next (Qred (sum + next)) (j + 1) fewer
  end.

Definition exp_below (x : Q) : Q := series x 1 1 1 (23 + 4 * Z.to_nat (Qfloor (x + 1))).

Definition least (x y : Q) : Q := if Qle_bool x y then x else y.

(** Conditions (1) to (4). *)
Definition valid_step (now after g low : Q) : bool :=
  let odds_now := now * (1 - after) in let odds_after := after * (1 - now) in
  negb (Qle_bool now 0) && negb (Qle_bool after now) && negb (Qle_bool 1 after)
  && Qle_bool after (g * now + low) && Qle_bool (1 - now) (g * (1 - after))
  && Qle_bool (g * odds_now) odds_after && Qle_bool odds_after (g * g * odds_now).

Fixpoint curve_from (g low top p : Q) (bits fuel : nat) : list Q :=
  match fuel with
  | O => [p]
  | S fewer =>
      if Qle_bool (1 - p) top then [p] else
      let next := least (Qred (g * p + low)) (least (Qred (1 - (1 - p) / g))
                    (Qred (g * g * p / (1 - p + g * g * p)))) in
      p :: curve_from g low top (floored bits next) bits fewer
  end.

Definition top_share : Q := 1 # 1024.

(** The growth, and the acceptance probabilities from 0 votes on. *)
Definition acceptance_curve (epsilon delta : Q) (growth_bits bits fuel : nat) : Q * list Q :=
  let q := floored growth_bits (exp_below (epsilon / 2)) in
  let low := Qred (delta * (1 - top_share)) in
  (q, 0 :: curve_from (Qred (q * q)) low (Qred (delta * top_share)) (floored bits low) bits fuel).

Fixpoint steps_valid (g low : Q) (curve : list Q) : bool :=
  match curve with
  | now :: ((after :: _) as rest) => valid_step now after g low && steps_valid g low rest
  | _ => true
  end.

(** What [AcceptanceCurve] asks of a curve, but for q <= exp(epsilon/2). *)
Definition valid_curve (delta q : Q) (curve : list Q) : bool :=
  match curve with
  | zero :: ((first :: _) as rest) =>
      let low := delta * (1 - top_share) in
      negb (Qle_bool q 1) && Qeq_bool zero 0 && negb (Qle_bool first 0) && Qle_bool first low
      && Qle_bool (1 - delta * top_share) (last rest 0) && negb (Qle_bool 1 (last rest 0))
      && steps_valid (q * q) low rest
  | _ => false
  end.

End Curve.
