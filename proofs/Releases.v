(** What is released one after the other, without a monitor: noisy numbers, draws, or nothing more.

    How it corresponds. After a history the next release is a function of it ([what]), and so is its law. Events are
    those of the gate (Gate.v), where Answer false stands for nothing. [releases] is the program that makes them.
    releases_close: if each release costs (e h, d h), and these add up to at most (eps, delta) on every path, so does
    all of it; by Filter (Tree.v), which is (F) of Theorem 18.
    refusing_spends_less: costs add up to no more than a budget if what would exceed it is not made, as
    CausesMechanism.begin_epoch does.
    releases_same: equal laws at every history make one law. *)

From Coq Require Import Reals List Lra Lia ZArith Bool.
From Littlestone Require Import Laws Transcripts Tree Gate.
Import ListNotations.
Open Scope R_scope.

Section Releases.
Context {V K : Type} `{EqDec V} `{EqDec K}.
Notation event := (event (V := V) (K := K)).
Notation history := (list event).

Inductive release := Numbers (p : V -> R) | Move (p : option K -> R) | Nothing.

Definition law_of (r : release) : event -> R :=
  match r with Numbers p => lmap Counted p | Move p => lmap Drawn p | Nothing => ret (Answer false) end.

Definition lawful (r : release) : Prop :=
  match r with Numbers p => is_law p | Move p => is_law p | Nothing => True end.

Definition near (e d : R) (r r' : release) : Prop :=
  match r, r' with
  | Numbers p, Numbers q => close e d p q
  | Move p, Move q => close e d p q
  | Nothing, Nothing => 0 <= e /\ 0 <= d
  | _, _ => False
  end.

Fixpoint follow (what : history -> release) (n : nat) (h : history) : list event -> R :=
  match n with O => ret [] | S k => Transcripts.next (law_of (what h)) (fun a => follow what k (a :: h)) end.

Definition releases (what : history -> release) (n : nat) : list event -> R := follow what n [].

(** The costs along a path. *)
Notation spent := (spent (fun _ : history => false)).

Lemma law_of_law r : lawful r -> is_law (law_of r).
Proof. destruct r; simpl; intros L; [now apply lmap_law..|apply ret_law]. Qed.

Lemma close_same {X} e d (p : X -> R) : sub_law p -> 0 <= e -> 0 <= d -> close e d p p.
Proof. intros L E D T. pose proof (prob_bounds p T L). pose proof (exp_ge_1 e E). nra. Qed.

Lemma near_close e d r r' : lawful r -> lawful r' -> near e d r r' -> close e d (law_of r) (law_of r').
Proof.
  destruct r as [p|p|], r' as [q|q|]; simpl; try tauto.
  - intros (P & S & _) (P' & S' & _). now apply close_lmap.
  - intros (P & S & _) (P' & S' & _). now apply close_lmap.
  - intros _ _ [E D]. apply close_same; auto. apply law_sub, ret_law.
Qed.

Lemma near_same e d r : lawful r -> 0 <= e -> 0 <= d -> near e d r r.
Proof. destruct r; simpl; auto; intros L E D; apply close_same; auto; now apply law_sub. Qed.

Section Program.
Variable what : history -> release.
Hypothesis laws : forall h, lawful (what h).

Definition laws_of (h : history) : is_law (law_of (what h)) := law_of_law _ (laws h).

Lemma follow_run n : (forall h, is_law (follow what n h)) /\
  forall h l, follow what n h l = run _ (drawn_only (fun h => law_of (what h)) laws_of) n h l.
Proof.
  induction n as [|n [Law IH]]; (split; [intros h|intros h l]).
  - apply ret_law.
  - destruct l; simpl; unfold ret; destruct (eq_dec _ _); congruence.
  - apply next_law; auto. apply laws_of.
  - assert (forall a, nonneg (follow what n (a :: h))) as Pos by (intros a; apply Law).
    destruct l as [|a l]; [now apply next_nil|]. simpl. rewrite next_cons; auto; [now rewrite IH|apply laws_of].
Qed.
End Program.

Theorem releases_close what what' e d eps delta n :
  (forall h, lawful (what h)) -> (forall h, lawful (what' h)) -> (forall h, near (e h) (d h) (what h) (what' h)) ->
  (forall h, spent e h <= eps) -> (forall h, spent d h <= delta) ->
  is_law (releases what n) /\ close eps delta (releases what n) (releases what' n).
Proof.
  intros Law Law' Near E D. split; [now apply follow_run|].
  eapply close_ext; [intros l; symmetry; apply (follow_run what Law)|intros l; symmetry; apply (follow_run what' Law')|].
  apply Filter with e d; auto. intros h. now apply near_close.
Qed.

Theorem releases_same what what' n : (forall h, lawful (what h)) -> (forall h, lawful (what' h)) ->
  (forall h a, law_of (what h) a = law_of (what' h) a) -> forall l, releases what n l = releases what' n l.
Proof.
  intros Law Law' Same. unfold releases. generalize (@nil event). induction n as [|n IH]; intros h l; [reflexivity|].
  pose proof (proj1 (follow_run what Law n)) as Pos. pose proof (proj1 (follow_run what' Law' n)) as Pos'.
  destruct l as [|a l]; simpl.
  - rewrite !next_nil; auto; intros a; [apply Pos'|apply Pos].
  - rewrite !next_cons; try (apply law_of_law; auto); try (intros b; apply Pos); try (intros b; apply Pos').
    now rewrite Same, IH.
Qed.

(** * A budget *)

(** What was spent if nothing was made that would have exceeded the budget. *)
Section Budget.
Variables e d : history -> R.
Variables eps delta : R.

Definition fits (spent_e spent_d : R) (h : history) : bool :=
  if Rle_dec (e h + spent_e) eps then if Rle_dec (d h + spent_d) delta then true else false else false.

Fixpoint used (h : history) : R * R :=
  match h with
  | [] => (0, 0)
  | _ :: g => let (x, y) := used g in if fits x y g then (e g + x, d g + y) else (x, y)
  end.

Definition affordable (h : history) : bool := fits (fst (used h)) (snd (used h)) h.
Definition paid (c : history -> R) (h : history) : R := if affordable h then c h else 0.
Definition refusing (what : history -> release) (h : history) : release := if affordable h then what h else Nothing.

Theorem refusing_spends_less : 0 <= eps -> 0 <= delta -> forall h, spent (paid e) h <= eps /\ spent (paid d) h <= delta.
Proof.
  intros E D h. assert (forall h, spent (paid e) h = fst (used h) /\ spent (paid d) h = snd (used h)) as Used.
  { clear h. induction h as [|a g [IHe IHd]]; simpl; auto. rewrite IHe, IHd. unfold paid, affordable. destruct (used g) as [x y]. simpl.
    destruct (fits x y g); simpl; split; ring. }
  destruct (Used h) as [-> ->]. induction h as [|a g IH]; simpl; [lra|]. destruct (used g) as [x y]. simpl in IH.
  unfold fits. destruct (Rle_dec (e g + x) eps); auto. destruct (Rle_dec (d g + y) delta); auto.
Qed.

Theorem refusing_close what what' n : 0 <= eps -> 0 <= delta ->
  (forall h, lawful (what h)) -> (forall h, lawful (what' h)) -> (forall h, near (e h) (d h) (what h) (what' h)) ->
  is_law (releases (refusing what) n) /\ close eps delta (releases (refusing what) n) (releases (refusing what') n).
Proof.
  intros E D Law Law' Near. apply releases_close with (paid e) (paid d); try (intros h; now apply refusing_spends_less).
  - intros h. unfold refusing. now destruct (affordable h).
  - intros h. unfold refusing. now destruct (affordable h).
  - intros h. unfold refusing, paid. destruct (affordable h); [apply Near|simpl; lra].
Qed.
End Budget.
End Releases.

Arguments release : clear implicits.
