"""What old gin files say that means something else today, or nothing: one table of each kind.

The windows in which files with these names were written are those of the original's history.
"""

from __future__ import annotations

_TRANSFORMER = "mesh_tensorflow.transformer.transformer"
_LAYERS = "mesh_tensorflow.transformer.transformer_layers"
_UTILS = "mesh_tensorflow.transformer.utils"
_DATASET = "mesh_tensorflow.transformer.dataset"
_MOE = "mesh_tensorflow.transformer.moe.MoE1D"
_EXPERTS = f"{_LAYERS}.ExpertsSelfAttention"
_T5 = "t5.models.mesh_transformer"
_PREPROCESSORS = "t5.data.preprocessors"

DEAD_MODULES = (
    "mesh_tensorflow",
    "t5.models",
    "t5.data.sentencepiece_vocabulary",
    "t5.data.vocabularies",
    "seqio.sentencepiece_vocabulary",
)
"""Modules of `import` lines that are never imported, nor anything below them."""

SKIPPED = (
    # The list that t5 0.9.4 skips ...
    f"{_T5}.get_sentencepiece_model_path",
    f"{_UTILS}.train_model",
    f"{_PREPROCESSORS}.num_parallel_calls",
    "seqio.sentencepiece_vocabulary.SentencePieceVocabulary",
    "t5.data.sentencepiece_vocabulary.configurable_vocabulary",
    "t5.data.utils.maybe_print_dataset",
    "t5.data.vocabularies.SentencePieceVocabulary",
    "t5.data.vocabularies.Vocabulary",
    # ... and what it forgot, or what went away before the first release.
    "t5.data.dataset_providers.maybe_print_dataset",
    "t5.data.sentencepiece_vocabulary.SentencePieceVocabulary",
    "t5.data.vocabularies.ByteVocabulary",
    f"{_PREPROCESSORS}.take",
    f"{_UTILS}.auto_batch_size",
    f"{_UTILS}.get_tfds_dataset",
    f"{_UTILS}.model",
    "mesh_tensorflow.optimize.auto_train_steps",
    "mesh_tensorflow.transformer.metric_utils.get_metric_fns",
)
"""Configurables that are gone; bindings of them, and to them, are skipped."""

WITHOUT_EFFECT: dict[str, tuple[str, ...]] = {
    # The topology of TPUs, and how the original fed and fused what ran on them.
    "mesh_tensorflow.ops.rewrite_stack_variables": (),
    "mesh_tensorflow.simd_mesh_impl.SimdMeshImpl": (),
    f"{_UTILS}.tpu_mesh_shape": (),
    f"{_UTILS}.tpu_estimator_model_fn": (),
    f"{_UTILS}.run": (
        "autostack",
        "gcp_project",
        "iterations_per_loop",
        "mesh_devices",
        # A run that goes on is always the uninterrupted run.
        "checkpoint_input_pipeline",
        "skip_seen_data",
        "tpu",
        "tpu_job_name",
        "tpu_zone",
    ),
}
"""Configurables, or some parameters of them, that mean nothing outside the original."""

READERS = tuple(
    f"{_UTILS}.run.{name}" for name in ("train_dataset_fn", "eval_dataset_fn", "vocabulary")
)
"""Parameters that name who reads data. A model is the same without them, whoever it was."""

RENAMED: dict[str, str] = {
    "BitransformerFunnel.decode": "Bitransformer.decode",
    f"{_TRANSFORMER}.sublayer_layer_norm": f"{_TRANSFORMER}.sublayer_legacy_rms_norm",
    f"{_TRANSFORMER}.sublayer_final_layer_norm": f"{_TRANSFORMER}.sublayer_legacy_final_rms_norm",
    f"{_TRANSFORMER}.sublayer_layer_norm_subsampled": (
        f"{_TRANSFORMER}.sublayer_rms_norm_subsampled"
    ),
    f"{_TRANSFORMER}.layer_norm": f"{_TRANSFORMER}.sublayer_rms_norm",
    f"{_TRANSFORMER}.UTLayerStack": (
        "mesh_tensorflow.transformer.universal_transformer.UTLayerStack"
    ),
    f"{_UTILS}.learning_rate_schedule_noam": (
        "mesh_tensorflow.transformer.learning_rate_schedules.learning_rate_schedule_noam"
    ),
    f"{_UTILS}.score_from_files": f"{_UTILS}.score_from_strings",
    f"{_DATASET}.pack_and_batch": f"{_DATASET}.pack_or_pad",
    f"{_DATASET}.get_tfds_vocabulary": (
        "mesh_tensorflow.transformer.vocabulary.get_tfds_vocabulary"
    ),
}
"""Old configurable to the one that is meant today."""

RENAMED_PARAMETERS: dict[str, str] = {
    f"{_TRANSFORMER}.sublayer_rms_norm.norm_epsilon": f"{_TRANSFORMER}.sublayer_rms_norm.epsilon",
    f"{_TRANSFORMER}.VocabEmbedding.scale_variable_like_classifer_weights": (
        f"{_TRANSFORMER}.VocabEmbedding.scale_variable_like_classifier_weights"
    ),
    f"{_LAYERS}.SelfAttention.relative_position_num_buckets": (
        f"{_LAYERS}.SelfAttention.relative_attention_num_buckets"
    ),
    f"{_UTILS}.tpu_estimator_model_fn.init_checkpoint": f"{_UTILS}.run.init_checkpoint",
    f"{_UTILS}.tpu_estimator_model_fn.init_variable_filter": (f"{_UTILS}.run.init_variable_filter"),
    f"{_UTILS}.infer_model.input_filename": f"{_UTILS}.decode_from_file.input_filename",
    f"{_UTILS}.infer_model.output_filename": f"{_UTILS}.decode_from_file.output_filename",
    f"{_UTILS}.infer_model.decode_from_file_fn": f"{_UTILS}.infer_model.decode_fn",
    f"{_UTILS}.score_from_strings.inputs_filename": f"{_UTILS}.score_from_strings.inputs",
    f"{_UTILS}.score_from_strings.targets_filename": f"{_UTILS}.score_from_strings.targets",
    f"{_UTILS}.score_from_strings.scores_filename": f"{_UTILS}.save_scores.scores_filename",
    f"{_UTILS}.score_from_dataset.scores_filename": f"{_UTILS}.save_scores.scores_filename",
    f"{_T5}.mesh_train_dataset_fn.mixture_name": (
        f"{_T5}.mesh_train_dataset_fn.mixture_or_task_name"
    ),
    f"{_T5}.mesh_eval_dataset_fn.mixture_name": f"{_T5}.mesh_eval_dataset_fn.mixture_or_task_name",
    f"{_PREPROCESSORS}.select_random_chunk.additional_passthrough_keys": (
        f"{_PREPROCESSORS}.select_random_chunk.passthrough_feature_keys"
    ),
    **{
        f"{layer}.{old}": f"{layer}.{new}"
        for layer in (_MOE, _EXPERTS)
        for old, new in {
            "rand_1_policy_train": "switch_policy_train",
            "rand_1_policy_eval": "switch_policy_eval",
            "rand_1_dropout": "switch_dropout",
            "rand_1_temperature": "switch_temperature",
            "rand_1_jitter": "switch_jitter",
            "switch_top_k": "ntlb_top_k",
        }.items()
    },
}
"""Old parameter to today's, both with their configurable (today's name of it)."""

HISTORICAL_PARAMETERS: dict[str, str] = {
    f"{_TRANSFORMER}.LayerStack": "use_layer_norm=True, use_rezero=False",
    f"{_TRANSFORMER}.VocabEmbedding": "inner_dimension_size=None",
    f"{_TRANSFORMER}.make_layer_stack": "use_universal_transformer=False, block_sharing",
    f"{_TRANSFORMER}.sublayer_rms_norm": "model_dim",
    f"{_LAYERS}.SelfAttention": (
        "relative_attention_bias=False, relative_attention_contextual=False"
    ),
    _EXPERTS: "use_experts_attention",
    "mesh_tensorflow.optimize.AdafactorWithMultiLRSchedule": "batch_size, sequence_length",
    "mesh_tensorflow.optimize.AdamWithMultiLRSchedule": "batch_size, sequence_length",
    "mesh_tensorflow.transformer.learning_rate_schedules.learning_rate_schedule_noam": (
        "train_steps"
    ),
    f"{_DATASET}.packed_parallel_tsv_dataset": "filenames, shuffle_buffer_size",
    f"{_UTILS}.score_with_estimator": (
        "model_type, batch_size, sequence_length, checkpoint_path, inputs, targets, "
        "scores_filename, eos_id, score_eos"
    ),
    f"{_UTILS}.serialize_num_microbatches": "length_dim",
    f"{_UTILS}.run": (
        "activation_dtype, checkpoint_path, checkpoint_step, checkpoints_to_keep, compute_metrics, "
        "compute_metrics_from_file_fn, data_dir, dataset, dataset_fn, eval_steps, "
        "get_components_fn, learning_rate_fn, master_dtype, num_eval_examples, "
        "process_metric_names, run_post_decode_metrics, save_steps, slice_dtype, text2self"
    ),
    f"{_UTILS}.tpu_estimator_model_fn": (
        "alpha, beam_size, checkpoints_to_keep, get_estimator_metric_fns, get_metric_fns, "
        "learning_rate, length, metric_names, save_steps, temperature, text2self, variable_dtype"
    ),
    f"{_UTILS}.decode": (
        "batch_size, dataset_size, label_output_filename, length, log_labels, output_filename, "
        "padded_dataset_size, pred_output_filename, inputs_encoder, targets_encoder, text2self"
    ),
    f"{_UTILS}.decode_from_file": (
        "dataset_size, padded_dataset_size, label_output_filename, log_labels, "
        "pred_output_filename, length, inputs_encoder, targets_encoder, text2self"
    ),
    f"{_UTILS}.clean_decodes": "vocab_size",
    f"{_T5}.mesh_train_dataset_fn": "shuffle_buffer_size",
    f"{_T5}.mesh_eval_dataset_fn": "shuffle_buffer_size",
    "t5.models.mtf_model.MtfModel": "vocabulary, init_checkpoint",
    f"{_PREPROCESSORS}.split_tokens": "num_parallel_calls, unused_vocabulary",
    f"{_PREPROCESSORS}.denoise": "features, vocabulary",
    f"{_PREPROCESSORS}.noise_span_to_unique_sentinel": "batch_size",
    f"{_PREPROCESSORS}.nonnoise_span_to_unique_sentinel": "batch_size",
    f"{_PREPROCESSORS}.random_spans_noise_mask": "batch_size",
}
"""Today's configurable to parameters that it once had, or has in versions after the last release.

With a default, the parameter changed what is computed: another value than it cannot be reproduced.
"""

MODEL_MODULES = (
    "mesh_tensorflow.layers",
    "mesh_tensorflow.optimize",
    "mesh_tensorflow.transformer.adaptive_softmax",
    "mesh_tensorflow.transformer.evolved_transformer",
    "mesh_tensorflow.transformer.fixup_layers",
    "mesh_tensorflow.transformer.funnel_transformer",
    "mesh_tensorflow.transformer.heterogeneous_moe",
    "mesh_tensorflow.transformer.learning_rate_schedules",
    "mesh_tensorflow.transformer.memory_layers",
    "mesh_tensorflow.transformer.moe",
    _TRANSFORMER,
    _LAYERS,
    "mesh_tensorflow.transformer.universal_transformer",
    "mesh_tensorflow.transformer.vocab_embeddings",
)
"""Modules whose bindings change what a model computes: none of them may be lost in silence."""

UNASKED = (
    "mesh_tensorflow.layers.VarianceScalingInitializer",
    "mesh_tensorflow.layers.unit_scaling_convention",
    "mesh_tensorflow.optimize.adafactor_decay_rate_pow",
    f"{_TRANSFORMER}.VocabEmbedding",
    f"{_TRANSFORMER}.get_vocab_embedding_cls",
    f"{_TRANSFORMER}.shift_targets",
    f"{_LAYERS}.enc_dec_attention",
    f"{_LAYERS}.enc_dec_attention_bias",
)
"""Configurables of those modules that the original uses without being asked to by a reference."""

SCOPES = ("decoder", "encoder", "student", "teacher")
"""The scopes that the original's models open around what they build."""
