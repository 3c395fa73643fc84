"""An encoder and a decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, config_scope, configurable
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.result import DecodeResult
from mtf_models.errors import ConfigError
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.transformer.context import Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.output import ModelOutput
from mtf_models.transformer.sequences import Features, Sequence, autoregressive_inputs
from mtf_models.transformer.stack import make_layer_stack
from mtf_models.transformer.stepwise import decode_stepwise
from mtf_models.transformer.unitransformer import Unitransformer


@configurable(module="mesh_tensorflow.transformer.transformer")
class Bitransformer:
    """A decoder that attends to the output of an encoder (Vaswani et al. 2017, section 3.1).

    Args:
        encoder: without output vocabulary.
        decoder: autoregressive.
        shared_embedding: whether both read ids by one table, `shared/embedding`.

    Raises:
        ConfigError: if the embedding is to be shared and the two differ in width or vocabulary, or
            they differ in the number of members of an ensemble.
    """

    feature_names = ("inputs", "targets")

    def __init__(
        self, encoder: Unitransformer, decoder: Unitransformer, shared_embedding: bool = True
    ) -> None:
        if shared_embedding:
            _check_shareable(encoder, decoder)
        if encoder.ensemble_dims != decoder.ensemble_dims:
            raise ConfigError(
                "Encoder and decoder are ensembles of different size: "
                f"{Shape(encoder.ensemble_dims)} and {Shape(decoder.ensemble_dims)}; bind "
                "Unitransformer.ensemble for both."
            )
        self.encoder = encoder
        self.decoder = decoder
        encoder.layer_stack.outputs_are_read = any(
            layer.reads_encoder_layers for layer in decoder.layer_stack.layers
        )
        self.shared_embedding = shared_embedding

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Feature name to the number of ids that it may have."""
        sizes = self.encoder.input_vocab_size, self.decoder.output_vocab_size
        return dict(zip(self.feature_names, sizes, strict=True))

    @property
    def ensemble_dims(self) -> list[Dimension]:
        """The members of an ensemble; empty for a single model."""
        return self.decoder.ensemble_dims

    @property
    def longest_features(self) -> dict[str, int | None]:
        """Feature name to the longest sequence whose positions have embeddings."""
        return {"inputs": self.encoder.longest, "targets": self.decoder.longest}

    @property
    def vocab_divisor(self) -> int:
        """What the decoder's vocabulary is rounded up to a multiple of."""
        return self.decoder.vocab_divisor

    def lengths(self, sequence_length: Mapping[str, int]) -> dict[str, int]:
        """Feature name to the length that `call` reads.

        Args:
            sequence_length: those of the features of a task.
        """
        return {name: sequence_length[name] for name in self.feature_names}

    def prepared(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What `call` reads of the features of a task: all of them as they are.

        Args:
            features: arrays [batch, length], checked.
        """
        return dict(features)

    def loss_weights(self, targets: Tensor, is_training: bool) -> Tensor:
        """See `Unitransformer.loss_weights`."""
        return self.decoder.loss_weights(targets, is_training)

    def call(
        self,
        features: Features,
        mode: str,
        variable_dtype: VariableDType,
        num_microbatches: int = 1,
        step: Tensor | None = None,
    ) -> ModelOutput:
        """Predicts every target from the inputs and the targets before it.

        Args:
            features: "inputs" and "targets" [batch, length], and their packing.
            mode: "train" or "eval".
            variable_dtype: dtypes of the variables.
            num_microbatches: of how many micro-batches this is one.
            step: int32 scalar, how many steps training has made; None outside training.
        """
        inputs, targets = (Sequence.of(features, name) for name in self.feature_names)
        embeddings = self._embeddings(inputs.ids.mesh, variable_dtype)
        encoded = self._encode(inputs, mode, variable_dtype, embeddings[0], num_microbatches, step)
        context = self.decoder.context(targets, mode, variable_dtype)
        context = context.attending(encoded)
        ids = autoregressive_inputs(targets.ids, targets.sequence_id)
        hidden = self.decoder.hidden(context, ids, embeddings[1], targets.position)
        return self.decoder.output(
            context,
            hidden,
            lambda: self._embeddings(targets.ids.mesh, variable_dtype)[1],
            targets.ids,
            num_microbatches,
        )

    def decode(
        self,
        features: Features,
        variable_dtype: VariableDType,
        decode_length: int,
        options: DecodeOptions,
    ) -> DecodeResult:
        """Decodes inputs.

        Args:
            features: "inputs" [batch, length]; may have "targets" [batch, length], what the
                decoded ids begin with; and what `decode_stepwise` reads.
            variable_dtype: dtypes of the variables.
            decode_length: how many positions are decoded at the most, given ones counted.
            options: how to decode.
        """
        inputs = Sequence.of(features, "inputs")
        embeddings = self._embeddings(inputs.ids.mesh, variable_dtype)
        encoded = self._encode(inputs, "eval", variable_dtype, embeddings[0])
        return decode_stepwise(
            self.decoder,
            embeddings[1],
            variable_dtype,
            _prompt(features, inputs, decode_length),
            options,
            features,
            encoded,
            given=_given(features),
        )

    def _encode(
        self,
        inputs: Sequence,
        mode: str,
        dtype: VariableDType,
        embedding: Embedding,
        num_microbatches: int = 1,
        step: Tensor | None = None,
    ) -> Context:
        """The encoder's context, its output in the place where a decoder looks for it."""
        context = self.encoder.context(inputs, mode, dtype)
        context.step, context.num_microbatches = step, num_microbatches
        hidden = self.encoder.hidden(context, inputs.ids, embedding, inputs.position)
        context.encoder_output = _as_memory(hidden)
        context.encoder_sequence_id = _as_memory(context.sequence_id)
        context.encoder_inputs = _as_memory(context.inputs)
        context.encoder_layer_outputs = [_as_memory(x) for x in context.layer_outputs]
        return context

    def _embeddings(self, mesh: Mesh, dtype: VariableDType) -> tuple[Embedding, Embedding]:
        """Of the encoder and of the decoder."""
        if not self.shared_embedding:
            return self.encoder.embedding(mesh, dtype), self.decoder.embedding(mesh, dtype)
        both = (self.encoder, self.decoder)
        together = all(s.learned_positions for s in both) and len({s.max_length for s in both}) == 1
        with self.encoder.variables("shared"):
            shared = Embedding.make(self.encoder, mesh, dtype, positions=together)
        if together:
            return shared, shared
        return tuple(self._own_positions(shared, s, mesh, dtype) for s in both)

    @staticmethod
    def _own_positions(
        shared: Embedding, stack: Unitransformer, mesh: Mesh, dtype: VariableDType
    ) -> Embedding:
        with stack.variables(stack.name):
            return dataclasses.replace(shared, positions=stack.positions(mesh, dtype))


@configurable(module="mesh_tensorflow.transformer.transformer")
def make_bitransformer(
    input_vocab_size: int = REQUIRED,
    output_vocab_size: int = REQUIRED,
    encoder_name: str = "encoder",
    decoder_name: str = "decoder",
    bitransformer_cls: type[Bitransformer] = Bitransformer,
) -> Bitransformer:
    """An encoder-decoder whose sides are bound in the gin scopes `encoder/` and `decoder/`.

    Args:
        input_vocab_size: of the encoder.
        output_vocab_size: of the decoder.
        encoder_name: the variable scope of the encoder.
        decoder_name: the variable scope of the decoder; the same one shares all weights.
        bitransformer_cls: what to make.
    """
    with config_scope("encoder"):
        encoder = Unitransformer(
            layer_stack=make_layer_stack(),
            input_vocab_size=input_vocab_size,
            output_vocab_size=None,
            autoregressive=False,
            name=encoder_name,
        )
    with config_scope("decoder"):
        decoder = Unitransformer(
            layer_stack=make_layer_stack(),
            input_vocab_size=output_vocab_size,
            output_vocab_size=output_vocab_size,
            autoregressive=True,
            name=decoder_name,
        )
    return bitransformer_cls(encoder, decoder)


def _prompt(features: Features, inputs: Sequence, length: int) -> Tensor:
    """[batch, length] ids that are given, 0 where they are wanted."""
    given = _given(features)
    if not given:
        shape = inputs.ids.shape - inputs.length_dim + Dimension("length", length)
        return mtf.zeros(inputs.ids.mesh, shape, inputs.ids.dtype)
    return mtf.pad(features["targets"], [0, length - given], "length")


def _given(features: Features) -> int:
    """How many positions the targets have that are given to begin with."""
    begun = features.get("targets")
    return 0 if begun is None else begun.shape.get_dim_by_name("length").size


def _as_memory(x: Tensor) -> Tensor:
    return mtf.rename_dimension(x, "length", "memory_length")


def _check_shareable(encoder: Unitransformer, decoder: Unitransformer) -> None:
    widths = encoder.d_model.size, decoder.d_model.size
    vocabs = encoder.input_vocab_size, decoder.input_vocab_size
    if widths[0] != widths[1] or vocabs[0] != vocabs[1]:
        raise ConfigError(
            f"Encoder and decoder have d_model {widths[0]} and {widths[1]} and vocabularies of "
            f"{vocabs[0]} and {vocabs[1]} ids, so they cannot share an embedding; set "
            "Bitransformer.shared_embedding = False."
        )
