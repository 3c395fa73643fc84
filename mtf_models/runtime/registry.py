"""Registers everything that gin files may name."""

from __future__ import annotations

import functools


@functools.cache
def register() -> None:
    """Imports every module whose decorators may do it; again does nothing."""
    import mtf_models.runtime.decode_settings
    import mtf_models.runtime.initial_names
    import mtf_models.runtime.modes.infer
    import mtf_models.runtime.modes.score
    import mtf_models.runtime.settings
    import mtf_models.runtime.tasks
    import mtf_models.runtime.variable_filter
    import mtf_models.transformer.attention
    import mtf_models.transformer.bitransformer
    import mtf_models.transformer.convolution
    import mtf_models.transformer.evolved
    import mtf_models.transformer.feed_forward
    import mtf_models.transformer.fixup
    import mtf_models.transformer.general_bilinear
    import mtf_models.transformer.local_attention
    import mtf_models.transformer.local_convolution
    import mtf_models.transformer.memory_layers
    import mtf_models.transformer.moe.layer
    import mtf_models.transformer.parallel
    import mtf_models.transformer.student_teacher
    import mtf_models.transformer.talking_heads
    import mtf_models.transformer.universal.stack  # noqa: F401
