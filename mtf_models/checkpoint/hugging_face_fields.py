"""What is known of the fields of Hugging Face's config.json: tables, one for each fate."""

from __future__ import annotations

from typing import Any

FAMILIES: dict[str, dict[str, Any]] = {
    "t5": dict(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8),
    "mt5": dict(vocab_size=250112, d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6),
    "umt5": dict(vocab_size=250112, d_model=512, d_kv=64, d_ff=1024, num_layers=8, num_heads=6),
    "switch_transformers": dict(
        vocab_size=32128, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12
    ),
}
"""model_type -> the sizes that a config.json without them means."""

GATED_BY_DEFAULT = ("mt5", "umt5")
"""Families whose feed_forward_proj is "gated-gelu" where a config.json does not say it."""

ARCHITECTURES = {
    "t5": ("T5ForConditionalGeneration", "T5WithLMHeadModel"),
    "mt5": ("MT5ForConditionalGeneration",),
    "umt5": ("UMT5ForConditionalGeneration",),
    "switch_transformers": ("SwitchTransformersForConditionalGeneration",),
}
"""model_type -> the classes whose tensors these are."""

ACTIVATIONS = {
    "relu": "relu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "silu": "swish",
    "swish": "swish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "linear": "linear",
}
"""Their name of an activation -> ours, in the T5 family, whose "gelu" is not always the same."""

MAPPED = (
    "model_type",
    "architectures",
    "vocab_size",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_decoder_layers",
    "num_heads",
    "relative_attention_num_buckets",
    "feed_forward_proj",
    "dense_act_fn",
    "is_gated_act",
    "tie_word_embeddings",
    "scale_decoder_outputs",
    "dropout_rate",
    "layer_norm_epsilon",
    "mtf_legacy_norm_names",
)
"""Fields that say what a model is; the last one is ours, and transformers passes it on."""

MAPPED_OF_SWITCH = (
    "num_experts",
    "expert_capacity",
    "num_sparse_encoder_layers",
    "num_sparse_decoder_layers",
    "encoder_sparse_step",
    "decoder_sparse_step",
    "router_jitter_noise",
    "router_aux_loss_coef",
    "router_z_loss_coef",
)
"""Fields that say, besides, what a model of experts is."""

FIXED: dict[str, tuple[Any, ...]] = {
    "relative_attention_max_distance": (128,),
    "decoder_start_token_id": (0, None),
    "pad_token_id": (0,),
    "eos_token_id": (1, [1]),
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({}, None),
    "chunk_size_feed_forward": (0,),
    "quantization_config": (None,),
    "router_bias": (False,),
    "router_ignore_padding_tokens": (False,),
    "router_dtype": ("float32",),
    "router_type": ("tokens_masked",),
    "batch_prioritized_routing": (False,),
}
"""Fields that models here can have in one value only."""

WITHOUT_EFFECT = frozenset(
    {
        # Of the folder, the software and the interface.
        "_commit_hash",
        "_name_or_path",
        "attn_implementation",
        "dtype",
        "name_or_path",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "return_dict",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers_version",
        "use_bfloat16",
        "use_cache",
        "xla_device",
        # Of how the weights were made, and of training.
        "add_router_probs",
        "classifier_dropout",
        "gradient_checkpointing",
        "initializer_factor",
        "n_positions",
        "tf_legacy_loss",
        # Of other tasks than generation, or of tokens that no layer knows.
        "bos_token_id",
        "finetuning_task",
        "id2label",
        "label2id",
        "num_labels",
        "prefix",
        "problem_type",
        "sep_token_id",
        "task_specific_params",
        # transformers' layers do not read it.
        "scalable_attention",
        # How transformers' `generate` searches.
        "bad_words_ids",
        "begin_suppress_tokens",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "length_penalty",
        "max_length",
        "min_length",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "output_scores",
        "remove_invalid_values",
        "repetition_penalty",
        "return_dict_in_generate",
        "suppress_tokens",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
    }
)
"""Fields that change nothing of what a model computes from its inputs."""
