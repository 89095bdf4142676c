From Littlestone Require Sums.
From Littlestone Require Laws.
From Littlestone Require Noise.
From Littlestone Require Transcripts.
From Littlestone Require SparseVector.
From Littlestone Require CausesRows.
From Littlestone Require CausesDraw.
From Littlestone Require Epochs.
From Littlestone Require Monitor.
From Littlestone Require Exponential.
From Littlestone Require Composition.
From Littlestone Require Gates.
From Littlestone Require Causes.
From Littlestone Require Forest.
From Littlestone Require Refuted.
From Littlestone Require Watch.
From Littlestone Require Executable.
From Littlestone Require Selection.
From Littlestone Require Histogram.
From Littlestone Require Stay.
Definition all_theorems := (
  @Littlestone.Noise.Lemma_1_laplace,
  @Littlestone.Noise.Lemma_1_one_sided,
  @Littlestone.Noise.Lemma_1_tail,
  @Littlestone.Noise.Lemma_1_fold,
  @Littlestone.Noise.Lemma_1_mirror,
  @Littlestone.Noise.Lemma_1_no_mirror,
  @Littlestone.SparseVector.sparse_vector_given_keys,
  @Littlestone.SparseVector.Theorem_2,
  @Littlestone.SparseVector.Theorem_2_close,
  @Littlestone.SparseVector.Theorem_2_one_sided,
  @Littlestone.CausesRows.row_effects,
  @Littlestone.CausesRows.rise_and_fall,
  @Littlestone.CausesRows.key_of_one_world,
  @Littlestone.CausesRows.net_is_loss_difference,
  @Littlestone.CausesRows.drop_is_loss_difference,
  @Littlestone.CausesDraw.draws_close,
  @Littlestone.CausesDraw.causes_draw_close,
  @Littlestone.Epochs.epochs_close,
  @Littlestone.Epochs.streams_close,
  @Littlestone.Monitor.monitor_given_keys,
  @Littlestone.Monitor.Theorem_3,
  @Littlestone.Monitor.Theorem_3_close,
  @Littlestone.Monitor.Theorem_3_users,
  @Littlestone.Exponential.exponential_ratio,
  @Littlestone.Exponential.Theorem_6_parts,
  @Littlestone.Exponential.Theorem_6,
  @Littlestone.Exponential.Theorem_6_list,
  @Littlestone.Composition.tree_of_transcripts,
  @Littlestone.Composition.composition,
  @Littlestone.Composition.Parallel_composition,
  @Littlestone.Gates.gate_law,
  @Littlestone.Gates.Theorem_7,
  @Littlestone.Gates.epochs_gate,
  @Littlestone.Gates.Theorem_7_epochs,
  @Littlestone.Gates.Theorem_7_hist_sparse,
  @Littlestone.Causes.Theorem_15,
  @Littlestone.Forest.forest_sensitivity,
  @Littlestone.Forest.mistakes_sensitivity,
  @Littlestone.Forest.Theorem_9,
  @Littlestone.Forest.Theorem_9_single,
  @Littlestone.Forest.flat_forest_sensitivity,
  @Littlestone.Refuted.Lemma_1_smaller_refuted,
  @Littlestone.Refuted.Theorem_2_unscaled_refuted,
  @Littlestone.Refuted.Theorem_3_count_kept_refuted,
  @Littlestone.Refuted.Theorem_3_noise_shared_refuted,
  @Littlestone.Refuted.Theorem_6_rate_refuted,
  @Littlestone.Refuted.Theorem_7_delta_refuted,
  @Littlestone.Refuted.Parallel_composition_refuted,
  @Littlestone.Selection.Theorem_5_events,
  @Littlestone.Selection.Theorem_5,
  @Littlestone.Selection.Theorem_5_both,
  @Littlestone.Selection.selection_is_executable,
  @Littlestone.Selection.valid_curve_terms,
  @Littlestone.Histogram.Theorem_4_events,
  @Littlestone.Histogram.Theorem_4_tight,
  @Littlestone.Histogram.Theorem_4,
  @Littlestone.Histogram.lone_vote_closed,
  @Littlestone.Histogram.histogram_is_executable,
  @Littlestone.Stay.Theorem_17,
  tt).
Print Assumptions all_theorems.
