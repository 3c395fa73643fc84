"""The names of the field: what a dimension or a mesh axis may be called without surprise."""

DIMENSIONS: dict[str, str] = {
    "ensemble": "members of an ensemble",
    "outer_batch": "groups of the batch, for two-level data parallelism",
    "batch": "examples, or packed rows",
    "beam": "hypotheses of a beam search",
    "length": "positions of a sequence",
    "memory_length": "positions that are attended to",
    "d_model": "width of the residual stream",
    "d_ff": "hidden width of a feed-forward layer",
    "heads": "attention heads",
    "query_heads": "query heads that share one memory head",
    "d_kv": "width of one attention head",
    "buckets": "relative position buckets",
    "vocab": "entries of the vocabulary, padded",
    "token_type": "types of tokens, such as first and second sentence",
    "experts": "experts of a mixture",
    "expert_hidden": "hidden width of an expert",
    "expert_unsplit": "experts, where tokens are routed",
    "expert_capacity": "slots of an expert in a group",
    "batch_unsplit": "routing groups, where experts are split over the axis of the batch",
    "group": "tokens of a routing group",
    "choices": "experts that a token may go to",
    "microbatch": "parts of a batch that a step runs one after another",
}

AXES: dict[str, str] = {
    "batch": "data parallelism",
    "data": "data parallelism",
    "model": "model parallelism",
    "ensemble": "one part for each member of an ensemble",
    "all": "one axis over all devices",
    "outer": "the outer level of two-level data parallelism",
    "inner": "the inner level of two-level data parallelism",
}
