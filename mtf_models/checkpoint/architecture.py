"""What Hugging Face's configs of the T5 family tell apart, in our words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An encoder-decoder of the T5 family.

    Attributes:
        model_type: the family's name there.
        vocab_size: the rows of the embedding, padding included.
        d_model: the width of the residual stream.
        d_kv: the width of a head.
        d_ff: the width of the feed-forward layers.
        num_heads: heads of attention.
        num_layers: blocks of the encoder.
        num_decoder_layers: blocks of the decoder.
        num_buckets: buckets of relative positions.
        bias_in_every_layer: whether each self-attention has a bias of relative positions, instead
            of one for all of a stack.
        activation: our name of the feed-forward layers' activation.
        gated: whether it gates a second projection.
        tied: whether logits use the embedding, scaled by d_model^-½, instead of a matrix of their
            own without a scale.
        dropout_rate: in training.
        epsilon: of the norms.
        legacy_norms: whether our variables of norms have T5 1.0's names.
        num_experts: of sparse layers; 0 for a model that has none.
        encoder_step: every so many blocks of the encoder, its second (or only) one is sparse; 0
            for none.
        decoder_step: the same of the decoder.
        expert_capacity: how many tokens of a sequence an expert takes.
        router_jitter: how far from 1 are the factors of what the router sees, in training.
        router_loss: weight of the loss that balances the experts.
        router_z_loss: weight of the router's z-loss.
    """

    model_type: str = "t5"
    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_heads: int
    num_layers: int
    num_decoder_layers: int
    num_buckets: int = 32
    bias_in_every_layer: bool = False
    activation: str = "relu"
    gated: bool = False
    tied: bool = True
    dropout_rate: float = 0.1
    epsilon: float = 1e-6
    legacy_norms: bool = False
    num_experts: int = 0
    encoder_step: int = 0
    decoder_step: int = 0
    expert_capacity: int = 0
    router_jitter: float = 0.0
    router_loss: float = 0.0
    router_z_loss: float = 0.0

    @property
    def stacks(self) -> tuple[Stack, Stack]:
        """The encoder and the decoder."""
        return (
            Stack("encoder", self.num_layers, self.encoder_step),
            Stack("decoder", self.num_decoder_layers, self.decoder_step),
        )


@dataclass(frozen=True)
class Stack:
    """One side of an architecture.

    Attributes:
        name: "encoder" or "decoder".
        blocks: how many blocks there are in Hugging Face's count.
        sparse_step: see `Architecture.encoder_step`.
    """

    name: str
    blocks: int
    sparse_step: int

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers of a block, before the feed-forward layer."""
        return ("SelfAttention",) + (("EncDecAttention",) if self.name == "decoder" else ())

    @property
    def period(self) -> int:
        """How many of Hugging Face's blocks make one of ours, which are all alike."""
        return self.sparse_step or 1

    def is_sparse(self, block: int) -> bool:
        """Whether the feed-forward layer of a block is of experts."""
        return bool(self.sparse_step) and (self.sparse_step == 1 or block % self.sparse_step == 1)
