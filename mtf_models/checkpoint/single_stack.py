"""What Hugging Face's configs of models of one stack, GPT-2's and BERT's, tell apart."""

from __future__ import annotations

from dataclasses import dataclass

GPT2, BERT = "gpt2", "bert"


@dataclass(frozen=True, kw_only=True)
class SingleStack:
    """A language model with norms first (GPT-2), or a masked one with norms last (BERT).

    All maps and norms have biases, and positions are learned.

    Attributes:
        model_type: the family's name there, "gpt2" or "bert".
        vocab_size: the rows of the embedding.
        d_model: the width of the residual stream.
        d_ff: the width of the feed-forward layers.
        num_heads: heads of attention, which share d_model.
        num_layers: blocks.
        max_length: positions.
        activation: our name of the feed-forward layers' activation, and of a masked model's head.
        epsilon: of the norms.
        dropout_rate: in training, of what layers give.
        attention_dropout_rate: in training, of attention weights.
        tied: whether logits use the embedding, instead of a matrix of their own.
        type_vocab_size: types of tokens; 0 for a model that has none.
        end: the id at which decoding ends.
    """

    model_type: str
    vocab_size: int
    d_model: int
    d_ff: int
    num_heads: int
    num_layers: int
    max_length: int
    activation: str
    epsilon: float
    dropout_rate: float = 0.1
    attention_dropout_rate: float = 0.1
    tied: bool = True
    type_vocab_size: int = 0
    end: int = 1

    @property
    def notice(self) -> str | None:
        """What of the ids is otherwise here, for whoever reads such a model."""
        if self.model_type != GPT2:
            return None
        return (
            "Here id 0 begins a sequence and is padding, and id 1 ends what is scored; GPT-2's own "
            "vocabulary has '!' and '\"' there."
        )

    @property
    def num_experts(self) -> int:
        """There are none."""
        return 0

    @property
    def d_kv(self) -> int:
        """The width of a head."""
        return self.d_model // self.num_heads
