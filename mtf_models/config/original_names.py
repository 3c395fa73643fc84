"""Every name that gin files for the original Mesh TensorFlow and T5 can bind, as data.

From Mesh TensorFlow 0.1.21 and t5 0.9.4. A name that this package does not have (yet) is thus told
from a misspelt one.
"""

SIGNATURES: dict[str, dict[str, str]] = {
    "mesh_tensorflow.beam_search": {
        "beam_search": (
            "alpha, states=None, eos_id=1, stop_early=True, decode_length=None, use_tpu=True, "
            "dtype='float32', layout=None, mesh_shape=None, num_prefilter=2"
        ),
        "greedy_decode": (
            "temperature=0.0, initial_states=None, eos_id=1, forced_ids=None, use_tpu=True"
        ),
    },
    "mesh_tensorflow.layers": {
        "unit_scaling_convention": "value=False",
        "VarianceScalingInitializer": "scale=1.0, mode='fan_in', distribution='normal'",
        "clip_activation_gradient": "clip_rms_norm=None",
    },
    "mesh_tensorflow.ops": {
        "rewrite_stack_variables": (
            "max_combined_variable_size=536870912, max_combined_slice_size=134217728, "
            "mesh_to_impl=None"
        ),
    },
    "mesh_tensorflow.optimize": {
        "SgdOptimizer": "learning_rate",
        "MomentumOptimizer": "learning_rate, momentum",
        "AdamWeightDecayOptimizer": (
            "learning_rate, weight_decay_rate=0.0, beta_1=0.9, beta_2=0.999, epsilon=1e-06, "
            "exclude_from_weight_decay=None"
        ),
        "AdafactorOptimizer": (
            "multiply_by_parameter_scale=True, learning_rate=None, decay_rate=None, beta1=0.0, "
            "clipping_threshold=1.0, factored=True, epsilon1=1e-30, epsilon2=0.001, "
            "min_dim_size_to_factor=128, stacked_dim_names=None, exclude_from_parameter_scale=None"
        ),
        "adafactor_decay_rate_pow": "exponent=0.8, offset=0",
        "product_learning_rate": "factors=R, offset=0",
        "compute_lr_for_step": "schedules, learning_rate, train_steps=524288",
        "AdafactorWithMultiLRSchedule": (
            "variable_search=None, alt_lr_schedules=None, **AdafactorOptimizer"
        ),
        "AdamWithMultiLRSchedule": (
            "variable_search=None, alt_lr_schedules=None, **AdamWeightDecayOptimizer"
        ),
    },
    "mesh_tensorflow.simd_mesh_impl": {
        "SimdMeshImpl": (
            "shape, layout, devices=None, device_assignment=None, logical_to_physical=None, "
            "allreduce_in_bfloat16_max_group_size=8"
        ),
    },
    "mesh_tensorflow.transformer.adaptive_softmax": {
        "AdaptiveSoftmaxVocabEmbedding": "name, clusters=R",
        "adaptive_softmax_loss_fn": "",
    },
    "mesh_tensorflow.transformer.dataset": {
        "pack_or_pad": "length, pack=True, feature_keys=None, ensure_eos=False",
        "pretokenized_tfds_dataset": (
            "dataset_name=R, text2self=R, tfds_data_dir=R, dataset_split=R, batch_size=None, "
            "sequence_length=R, vocabulary=None"
        ),
        "sample_from_text_line_datasets": (
            "glob_weight_list, shuffle_buffer_size=100000, prefetch=1000"
        ),
        "make_text_line_dataset": "glob=R",
        "simple_text_line_dataset": "glob=R, shuffle_buffer_size=100000",
        "packed_parallel_tsv_dataset": (
            "dataset=R, dataset_split=R, batch_size=None, sequence_length=R, vocabulary=R, "
            "append_eos=True, eos_id=1, max_encoded_len=0"
        ),
        "untokenized_tfds_dataset": (
            "dataset_name=R, text2self=R, tfds_data_dir=R, dataset_split=R, batch_size=None, "
            "sequence_length=R, vocabulary=R, pack=R"
        ),
        "pretokenized_t2t_dataset": (
            "dataset_name=R, text2self=False, data_dir=R, dataset_split='train', batch_size=None, "
            "sequence_length=R, vocabulary=None, eos_included=True, vocab_shift=0"
        ),
        "pack_dataset": "length, keys=None, use_custom_ops=False",
    },
    "mesh_tensorflow.transformer.evolved_transformer": {
        "GatedLinearUnitLayer": "",
        "EncoderConvolutionalLayer": (
            "d_model, dropout_rate, initializer_scale=1.0, norm_epsilon=1e-06"
        ),
        "DecoderAttentionLayer": "base_num_heads",
        "DecoderConvolutionalLayer": (
            "d_model, dropout_rate, initializer_scale=1.0, norm_epsilon=1e-06"
        ),
    },
    "mesh_tensorflow.transformer.fixup_layers": {
        "DenseReluDenseFixup": (
            "hidden_size=4096, dropout_rate=0.0, activation='relu', use_bias=False, "
            "default_init='he', init_distribution='uniform', num_blocks=R"
        ),
        "SelfAttentionFixup": (
            "num_blocks=R, default_init='glorot', init_distribution='uniform', **SelfAttention"
        ),
        "EncDecAttentionFixup": "relative_attention_type=None, **SelfAttentionFixup",
        "sublayer_fixup_scale": "",
        "sublayer_fixup_shift": "",
    },
    "mesh_tensorflow.transformer.funnel_transformer": {
        "FunnelTransformerLayerStack": (
            "n_blocks=R, block_param_size=R, block_repeat_size=R, pooling_size=2, "
            "sublayers_initial=None, sublayers_per_layer=None, sublayers_final=None, "
            "pooling_type='mean', n_submodules=2"
        ),
        "BitransformerFunnel": "**Bitransformer",
    },
    "BitransformerFunnel": {
        "decode": (
            "beam_size=1, alpha=0.6, temperature=0.0, sampling_keep_top_k=-1, "
            "decode_length_multiplier=1.5, decode_length_constant=10, max_decode_length=None"
        ),
    },
    "mesh_tensorflow.transformer.heterogeneous_moe": {
        "HeterogeneousMoE1D": "moe_num_layers=1, heterogeneous_mask_info=None, **MoE1D",
    },
    "mesh_tensorflow.transformer.learning_rate_schedules": {
        "product_learning_rate": "factors=R, offset=0",
        "linear_decay": "steps_or_fraction=0.1",
        "linear_warmup": "steps_or_fraction=10000",
        "truncated_rsqrt": "warmup_steps=10000",
        "constant": "value=1.0",
        "constant_learning_rate": "learning_rate=R",
        "linear_decay_learning_rate": "initial_lr=0.1, offset=0",
        "learning_rate_schedule_noam": (
            "warmup_steps=10000, linear_decay_fraction=0.1, multiplier=1.0, offset=0"
        ),
        "slanted_triangular": "cut_fraction=0.1, ratio=32, max_learning_rate=0.01, start_step=0",
    },
    "mesh_tensorflow.transformer.memory_layers": {
        "ProductKeyValueMemory": "key_size=R, n_keys=R, n_heads=R, knn=R",
    },
    "mesh_tensorflow.transformer.moe": {
        "MoE1D": (
            "num_experts=16, loss_coef=0.01, hidden_size=4096, group_size=1024, "
            "capacity_factor_train=1.25, capacity_factor_eval=2.0, use_second_place_loss=False, "
            "second_policy_train='random', second_policy_eval='random', "
            "second_threshold_train=0.2, second_threshold_eval=0.2, dropout_rate=0.0, "
            "activation='relu', moe_gating='top_2', min_expert_capacity=4, "
            "switch_policy_train='input_jitter', switch_policy_eval='input_jitter', "
            "switch_dropout=0.1, switch_temperature=1.0, switch_jitter=0.01, ntlb_top_k=4, "
            "output_dim=None, use_experts_attention=False, z_loss=None, word_embed_mode=None, "
            "use_second_place_expert_prob=None, use_second_place_expert_prob_temp=None, "
            "top_n_num_experts_per_token=3"
        ),
    },
    "mesh_tensorflow.transformer.t2t_vocabulary": {
        "get_t2t_vocabulary": "data_dir=R, vocabulary_filename=R",
    },
    "mesh_tensorflow.transformer.transformer": {
        "LayerStack": (
            "sublayers_initial=None, sublayers_per_layer=None, sublayers_final=None, "
            "dropout_rate=None, norm_epsilon=None, recompute_grads=False"
        ),
        "sublayer_call_layer": "",
        "sublayer_mask_padding": "",
        "sublayer_rms_norm": "epsilon=1e-06, name='rms_norm'",
        "sublayer_legacy_rms_norm": "",
        "sublayer_legacy_final_rms_norm": "",
        "sublayer_rms_norm_subsampled": "percentage=100.0, epsilon=1e-06",
        "sublayer_scale_norm": "epsilon=1e-06, name='scale_norm'",
        "sublayer_residual": "",
        "sublayer_dropout": "dropout_rate=0.0",
        "sublayer_annealed_dropout": "init_dropout_rate=0.0, start_step=None, end_step=None",
        "sublayer_clip_activation_gradient": "rms_norm=1.0",
        "sublayer_legacy_dropout": "",
        "sublayer_rezero": "initial_value=0.0",
        "ReversibleLayerStack": "**LayerStack",
        "sublayer_true_layer_norm": "epsilon=1e-06",
        "Unitransformer": (
            "d_model=1024, input_vocab_size=R, output_vocab_size=R, autoregressive=R, "
            "max_length=R, shared_embedding_and_softmax_weights=False, label_smoothing=0.0, "
            "z_loss=0.0001, name='transformer', layout=None, mesh_shape=None, vocab_divisor=128, "
            "ensemble=None, loss_fn=None, positional_embedding=True, "
            "sinusoid_positional_embedding=False, input_full_attention=False, "
            "loss_on_targets_only=False, loss_denominator=None, token_dropout_rate=0.0"
        ),
        "shift_targets": "bos_id=0, eos_id=1",
        "Bitransformer": "shared_embedding=True",
        "StudentTeacher": (
            "temperature=None, fraction_soft=None, distill_start_step=0, teacher_checkpoint=None, "
            "initialize_student_weights=False"
        ),
        "make_layer_stack": "layers=R, layer_stack_cls=LayerStack, num_layers=6, block_scope=True",
        "make_bitransformer": (
            "input_vocab_size=R, output_vocab_size=R, layout=None, mesh_shape=None, "
            "encoder_name='encoder', decoder_name='decoder', bitransformer_cls=Bitransformer"
        ),
        "make_bi_student_teacher": (
            "input_vocab_size=R, output_vocab_size=R, layout=None, mesh_shape=None"
        ),
        "reduce_ensemble_logits_select": "model_id=0",
        "reduce_ensemble_logits_mean_prob": "",
        "reduce_ensemble_logits_mean_logit": "",
        "reduce_ensemble_logits": "reduce_fn=reduce_ensemble_logits_mean_prob",
        "VocabEmbedding": "name, scale_variable_like_classifier_weights=False",
        "get_vocab_embedding_cls": "cls=VocabEmbedding",
    },
    "Unitransformer": {
        "sample_autoregressive": (
            "stop_at_token=1, max_steps=None, temperature=0.0, encoder_output=None, "
            "encoder_sequence_id=None, encoder_inputs=None, shared_params=None, "
            "has_partial_sequences=True, encoder_layer_outputs=None, never_end=False, "
            "remove_partial_sequences=False, sampling_keep_top_k=-1, bos_id=0"
        ),
    },
    "Bitransformer": {
        "decode": (
            "beam_size=1, alpha=0.6, temperature=0.0, sampling_keep_top_k=-1, "
            "decode_length_multiplier=1.5, decode_length_constant=10, max_decode_length=None"
        ),
    },
    "mesh_tensorflow.transformer.transformer_layers": {
        "DenseReluDense": "hidden_size=4096, dropout_rate=0.0, activation='relu', use_bias=False",
        "SelfAttention": (
            "num_heads=8, num_memory_heads=0, key_value_size=128, shared_kv=False, "
            "dropout_rate=0.0, attention_kwargs=None, relative_attention_type=None, "
            "relative_attention_num_buckets=32, attention_func=None, combine_dims=True, "
            "keep_query_heads_dims=False, fold_scaling_into_initializer=True, z_loss_coeff=None, "
            "use_hyperprompt=False, hyperprompt_mtlshare=False, hyperprompt_length_encoder=None, "
            "hyperprompt_length_decoder=None, hyperprompt_hidden_dim=None, hyperprompt_task_num=8"
        ),
        "ExpertsSelfAttention": (
            "num_experts=16, loss_coef=0.01, group_size=1024, capacity_factor_train=1.25, "
            "capacity_factor_eval=2.0, moe_gating='switch', min_expert_capacity=4, "
            "switch_policy_train='input_jitter', switch_policy_eval='input_jitter', "
            "switch_dropout=0.0, switch_temperature=1.0, switch_jitter=0.01, ntlb_top_k=4, "
            "hidden_size=3072, activation='relu', z_loss=None, expert_computation='qkv', "
            "**SelfAttention"
        ),
        "ExpertsEncDecAttention": "relative_attention_type=None, **ExpertsSelfAttention",
        "Synthesizer": (
            "num_heads=8, num_memory_heads=0, key_value_size=128, shared_kv=False, "
            "dropout_rate=0.0, attention_kwargs=None, relative_attention_type=None, "
            "relative_attention_num_buckets=32, attention_func=None, combine_dims=True, "
            "keep_query_heads_dims=False, synthesize_mode='random_plus_alpha', "
            "fold_scaling_into_initializer=True, **SelfAttention"
        ),
        "relative_position_spans": "num_sentinels=R",
        "enc_dec_attention_bias": "heads_dims, relative_position_fn=relative_position_spans",
        "enc_dec_attention": "attention_fn=R, z_loss_coeff=None",
        "EncDecAttention": "relative_attention_type=None, **SelfAttention",
        "TransparentEncDecAttention": (
            "layers_per_encoder_module=R, layers_per_decoder_module=R, encoder_num_modules=R, "
            "decoder_num_modules=R, dropout_rate=0.0, **EncDecAttention"
        ),
        "LocalSelfAttention": (
            "radius=128, num_heads=8, num_memory_heads=0, key_value_size=128, shared_kv=False, "
            "dropout_rate=0.0, attention_kwargs=None"
        ),
        "TalkingHeadsSelfAttention": (
            "key_heads_dims=(('heads', 12),), softmax_heads_dims=(('heads', 12),), "
            "value_heads_dims=(('heads', 12),), key_size=64, value_size=64, dropout_rate=0.0, "
            "relative_attention_type=None, relative_attention_num_buckets=32, "
            "dynamic_projections=None, dynamic_projections_init_scale=0.01"
        ),
        "TalkingHeadsEncDecAttention": "relative_attention_type=None, **TalkingHeadsSelfAttention",
        "GeneralBilinearSelfAttention": (
            "heads_dims=(('heads', 12),), dropout_rate=0.0, relative_attention_type=None, "
            "relative_attention_num_buckets=32"
        ),
        "GeneralBilinearEncDecAttention": (
            "relative_attention_type=None, **GeneralBilinearSelfAttention"
        ),
        "BranchedSelfAttention": "**SelfAttention",
        "BranchedEncDecAttention": "relative_attention_type=None, **BranchedSelfAttention",
        "Conv1DLayer": "filter_size, output_size, activation='linear'",
        "SeparableConv1DLayer": (
            "min_relative_pos, max_relative_pos, output_size, "
            "depthwise_filter_initializer_scale=1.0, pointwise_filter_initializer_scale=1.0, "
            "activation='linear'"
        ),
        "Conv1DLocalAttn": (
            "min_relative_pos, max_relative_pos, output_size, "
            "depthwise_filter_initializer_scale=1.0, pointwise_filter_initializer_scale=1.0, "
            "activation='linear', num_unique_depth_filters=1"
        ),
        "LightweightConv1DLocalAttn": "**Conv1DLocalAttn",
        "DynamicConv1DLocalAttn": "**Conv1DLocalAttn",
        "LocalConvAttnBlock": (
            "min_relative_pos, max_relative_pos, output_size, "
            "depthwise_filter_initializer_scale=1.0, pointwise_filter_initializer_scale=1.0, "
            "activation='linear', num_unique_depth_filters=1, attention_type='lightweight_conv'"
        ),
        "ParallelLayer": "layer_classes=(DenseReluDense, SelfAttention), use_scope=True",
    },
    "mesh_tensorflow.transformer.universal_transformer": {
        "UTLayerStack": (
            "dropout_rate=0.0, norm_epsilon=1e-06, num_vanilla_transformer_layers=2, "
            "couple_carry_transform_gates=True, act_type=R, recurrence_type=R, act_max_steps=R, "
            "act_epsilon=R, num_rec_steps=R, num_inrecurrence_layers=R, position_start_index=R, "
            "add_or_concat_timing_signal=R, step_timing_signal_type=R, "
            "add_position_timing_signal=R, add_step_timing_signal=R, "
            "mix_with_transformer_before_ut=R, mix_with_transformer_after_ut=R, gates_inputs=R, "
            "gate_ffn_layer=R, use_gated_transformer=R, gating_type=R"
        ),
    },
    "mesh_tensorflow.transformer.utils": {
        "get_variable_dtype": (
            "master_dtype='bfloat16', slice_dtype='float32', activation_dtype='float32'"
        ),
        "separate_vocabularies": "inputs=R, targets=R",
        "init_checkpoint_variable_mapping": "name, mapping_fn=None",
        "should_load_variable": "name, filter_fn=None",
        "tpu_mesh_shape": "tpu_topology=R, model_parallelism=R, ensemble_parallelism=None",
        "variable_filter_max_size": "max_size=1e7",
        "flexible_ckpt_init_mapping": "ckpt_path='', new_layers=None, return_mapping_fn=True",
        "tpu_estimator_model_fn": (
            "model_type, vocabulary, model_dir, use_tpu, mesh_shape, layout_rules, batch_size, "
            "sequence_length, autostack, keep_checkpoint_max, save_checkpoints_steps, "
            "learning_rate_schedule=None, optimizer=None, outer_batch_size=1, tpu_summaries=False, "
            "predict_fn=None, score_in_predict_mode=False, variable_filter=None, "
            "init_checkpoint=None, init_variable_filter='', ensemble_inputs=None, "
            "mesh_devices=None, model_info_file=None, hierarchical_tiling_spec=None, "
            "weight_decay_checkpoint=None"
        ),
        "decode": "vocabulary, checkpoint_path=None",
        "compute_log_likelihoods": "checkpoint_path=None",
        "decode_from_file": (
            "vocabulary, model_type, batch_size, sequence_length, checkpoint_path=None, "
            "input_filename=R, output_filename=R, eos_id=1, repeats=1"
        ),
        # Bound by t5's infer_multi_file.gin, though the original never had it.
        "decode_from_files": "input_filenames=R, output_filenames=R",
        "decode_from_dataset": (
            "vocabulary, model_type, batch_size, sequence_length, checkpoint_path=None, "
            "infer_dataset_fn=R, dataset_split='validation', decode_output_dir=R"
        ),
        "clean_decodes": "eos_id=1, pad_id=0, length_axis=-1",
        "save_scores": "vocabulary, scores_filename=None, save_example_text=True",
        "save_scores_to_tfrecords": "vocabulary, scores_filename, shard_idx=0, save_ids_only=False",
        "score_with_estimator": (
            "eval_checkpoint_step, model_dir, vocabulary, score_postprocess_fn=save_scores, "
            "num_examples=None"
        ),
        "score_with_estimator_lazy": (
            "eval_checkpoint_step, model_dir, vocabulary, "
            "score_postprocess_fn=save_scores_to_tfrecords, num_examples=None, "
            "num_examples_per_shard=100000"
        ),
        "score_from_strings": (
            "vocabulary, model_type, batch_size, sequence_length, model_dir, eval_checkpoint_step, "
            "inputs=R, targets=R, score_postprocess_fn=R, eos_id=1, score_eos=True, "
            "score_with_estimator_fn=score_with_estimator"
        ),
        "score_from_dataset": (
            "vocabulary, batch_size, sequence_length, model_dir, eval_checkpoint_step, "
            "dataset_split, score_dataset_fn=None, score_postprocess_fn=R, "
            "score_with_estimator_fn=score_with_estimator"
        ),
        "infer_model": (
            "vocabulary, sequence_length, batch_size, model_type, model_dir, eval_checkpoint_step, "
            "checkpoint_paths=None, decode_fn=decode_from_file"
        ),
        "serialize_num_microbatches": (
            "batch_dim, sequence_length, mesh_shape, layout_rules, "
            "tokens_per_microbatch_per_replica=None"
        ),
        "auto_train_steps": "batch_size, sequence_length, train_tokens=68719476736",
        "get_checkpoint_iterator": (
            "checkpoint_step, model_dir, skip_until=0, stop_after=None, find_closest=True"
        ),
        "run": (
            "tpu_job_name, tpu, gcp_project, tpu_zone, model_dir, model_type='bitransformer', "
            "vocabulary=None, train_dataset_fn=None, eval_dataset_fn=None, dataset_split='train', "
            "autostack=True, eval_checkpoint_step=None, export_checkpoint_step=None, "
            "export_path='', mode='train', iterations_per_loop=100, save_checkpoints_steps=5000, "
            "keep_checkpoint_max=None, eval_summary_dir=None, batch_size=('tokens_per_replica', "
            "2048), train_steps=auto_train_steps, total_run_steps=None, sequence_length=None, "
            "mesh_shape=R, mesh_devices=None, layout_rules=R, learning_rate_schedule=None, "
            "optimizer=None, predict_fn=None, variable_filter=None, perplexity_eval_steps=100, "
            "init_checkpoint=None, ensemble_inputs=None, train_model_fn=train_model, "
            "skip_seen_data=False, seen_data_init_step=0, output_eval_examples=True, "
            "checkpoint_input_pipeline=False, eval_dir_suffix=None"
        ),
    },
    "mesh_tensorflow.transformer.vocab_embeddings": {
        "FactorizedVocabEmbedding": "name, inner_dimension_size=R",
        "AdaptiveVocabEmbedding": "name, clusters=R",
        "MixtureOfSoftmaxes": "name, num_softmaxes=R",
        "Mixtape": (
            "name, extra_ids=0, dropout_rate=0.0, gate_embedding_size=R, "
            "frequent_token_fraction=0.1, noise_std_dev=0.0"
        ),
    },
    "mesh_tensorflow.transformer.vocabulary": {
        "get_tfds_vocabulary": "dataset_name=R",
    },
    "t5.models.mesh_transformer": {
        "mesh_train_dataset_fn": (
            "mixture_or_task_name, sequence_length, vocabulary=None, dataset_split='train', "
            "shuffle=True, seed=None, use_cached=False, pack=True"
        ),
        "mesh_inference_dataset_fn": (
            "mixture_or_task_name, sequence_length, dataset_split, shuffle=False, seed=None, "
            "vocabulary=None, num_inference_examples=-1, use_cached=False, "
            "priming_sequence_length=None"
        ),
        "mesh_eval_dataset_fn": (
            "mixture_or_task_name, sequence_length, dataset_split, vocabulary=None, "
            "num_eval_examples=-1, use_cached=False, pack=False, shuffle_eval_examples=False, "
            "seed=None"
        ),
        "tsv_dataset_fn": (
            "filename, sequence_length, dataset_split, vocabulary, shuffle_buffer_size=10000"
        ),
        "get_vocabulary": "mixture_or_task_name=None",
    },
    "t5.models.mtf_model": {
        "MtfModel": (
            "model_dir, tpu, tpu_job_name=None, tpu_zone=None, gcp_project=None, "
            "tpu_topology='v2-8', model_parallelism=8, batch_size=('sequences_per_batch', 1), "
            "sequence_length=None, model_type='bitransformer', "
            "layout_rules='ensemble:ensemble,batch:batch,d_ff:model,heads:model,vocab:model,"
            "experts:batch', "
            "mesh_shape=None, mesh_devices=None, autostack=True, learning_rate_schedule=None, "
            "keep_checkpoint_max=None, save_checkpoints_steps=5000, optimizer=None, "
            "predict_fn=None, variable_filter=None, ensemble_inputs=None, iterations_per_loop=100, "
            "extra_gin_bindings=None"
        ),
    },
}
"""Module to name to parameters.

Arguments that only code passes are left out. `R` is a default that must be bound, any other name a
default that is no literal; `**Name` hands the remaining keyword arguments on to that class.
"""

LIVING: dict[str, tuple[str, ...]] = {
    "t5.data.preprocessors": (
        "record",
        "select_random_chunk",
        "reduce_concat_tokens",
        "unsupervised",
        "split_tokens",
        "split_tokens_to_inputs_length",
        "split_tokens_to_targets_length",
        "split_tokens_to_random_length",
        "concatenate_and_split_to_fixed_length",
        "filter_by_string_length",
        "random_spans_helper",
        "random_spans_tokens_length",
        "random_spans_targets_length",
        "denoise",
        "iid_noise_mask",
        "regular_noise_mask",
        "random_spans_noise_mask",
        "random_prefix_noise_mask",
        "sentinel_id",
        "noise_token_to_sentinel",
        "noise_span_to_sentinel",
        "nonnoise_span_to_sentinel",
        "noise_span_to_unique_sentinel",
        "nonnoise_span_to_unique_sentinel",
        "drop_noise_tokens",
        "drop_nonnoise_tokens",
        "permute_noise_tokens",
        "noise_token_to_gathered_token",
        "noise_token_to_random_token",
        "noise_token_to_random_token_or_sentinel",
    ),
    "t5.data.utils": (
        "rate_num_examples",
        "rate_unsupervised",
    ),
}
"""Modules that still exist, to the names that importing them registers with gin."""
