"""What models return of whole sequences."""

from __future__ import annotations

from dataclasses import dataclass, field

from mtf_models.mesh import Tensor


@dataclass(frozen=True)
class ModelOutput:
    """Of a call on whole sequences.

    Attributes:
        logits: [batch, length, vocab].
        loss: scalar float32, all parts together.
        losses: the parts by name.
        reports: what layers tell about themselves by name, such as the part of the tokens that a
            mixture of experts dropped; scalars.
    """

    logits: Tensor
    loss: Tensor
    losses: dict[str, Tensor]
    reports: dict[str, Tensor] = field(default_factory=dict)
