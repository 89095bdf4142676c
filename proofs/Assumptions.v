(** Prints what the main theorems rest on: the axioms of Coq's real numbers, and nothing else.

    tests/test_proofs.py reads the output. Every
    [Theorem] of every file is listed, which that test checks too. *)

From Littlestone Require Import Refuted.
From Littlestone Require Import Noise SparseVector Monitor Exponential Composition Gates CausesRows CausesDraw Epochs Causes.

Print Assumptions Lemma_1_laplace.
Print Assumptions Lemma_1_one_sided.
Print Assumptions Lemma_1_tail.
Print Assumptions Lemma_1_fold.
Print Assumptions Lemma_1_mirror.
Print Assumptions Lemma_1_no_mirror.
Print Assumptions Lemma_1_smaller_refuted.
Print Assumptions Theorem_2.
Print Assumptions Theorem_2_close.
Print Assumptions Theorem_2_one_sided.
Print Assumptions Theorem_2_unscaled_refuted.
Print Assumptions Theorem_3.
Print Assumptions Theorem_3_close.
Print Assumptions Theorem_3_users.
Print Assumptions Theorem_3_count_kept_refuted.
Print Assumptions Theorem_3_noise_shared_refuted.
Print Assumptions Theorem_6.
Print Assumptions Theorem_6_list.
Print Assumptions Theorem_6_parts.
Print Assumptions Theorem_6_rate_refuted.
Print Assumptions composition.
Print Assumptions Parallel_composition.
Print Assumptions Parallel_composition_refuted.
Print Assumptions gate_law.
Print Assumptions Theorem_7.
Print Assumptions Theorem_7_epochs.
Print Assumptions Theorem_7_hist_sparse.
Print Assumptions row_effects.
Print Assumptions causes_draw_close.
Print Assumptions epochs_close.
Print Assumptions Theorem_15.
Print Assumptions Theorem_7_delta_refuted.
