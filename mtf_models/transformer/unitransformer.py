"""One stack with its vocabulary: a language model, an encoder or a decoder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.data.delimited import check_aligned
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.result import DecodeResult
from mtf_models.errors import ConfigError, DataError, require_positive
from mtf_models.layers.clipping import soft_cap
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.context import Context
from mtf_models.transformer.embedding import Embedding
from mtf_models.transformer.ensembles import reduce_ensemble_logits
from mtf_models.transformer.loss_blocks import positions_at_once
from mtf_models.transformer.output import ModelOutput
from mtf_models.transformer.positions import sinusoid_positions
from mtf_models.transformer.prefix import delimited_inputs_mask, prefix_priority
from mtf_models.transformer.sequences import (
    Features,
    Sequence,
    autoregressive_inputs,
)
from mtf_models.transformer.stack import LayerStack
from mtf_models.transformer.stepwise import decode_stepwise
from mtf_models.transformer.vocab import Vocab, untied_logits

TOKEN_TYPE = "inputs_token_type"
"""[batch, length] int32: the types of the ids that are read."""

LossFunction = Callable[["Unitransformer", Context, Tensor, Tensor, Dimension], Tensor]
"""Takes the stack, its context, logits, targets and the vocabulary; returns a scalar float32."""


@configurable(module="mesh_tensorflow.transformer.transformer")
class Unitransformer:
    """A stack between an embedding of ids and, if it has an output vocabulary, logits.

    Args:
        layer_stack: the layers.
        d_model: the width of the residual stream.
        input_vocab_size: how many ids there are.
        output_vocab_size: how many classes; None for an encoder, which gives hidden states.
        autoregressive: whether a position sees only itself and those before it.
        max_length: rows of a learned positional embedding.
        shared_embedding_and_softmax_weights: whether logits use the embedding's table.
        label_smoothing: the part of the target distribution that is spread over all classes.
        z_loss: weight of the squared log partition function, in training.
        name: the variable scope.
        vocab_divisor: vocabularies are rounded up to a multiple.
        ensemble: how many members an ensemble has; None for a single model. Each has variables of
            its own and adds its own loss; the logits are those of `reduce_ensemble_logits`.
        positional_embedding: whether positions are embedded and added to the ids' embeddings.
        sinusoid_positional_embedding: whether by sinusoids, instead of a learned table.
        loss_fn: computes the cross entropy in another way; None for `cross_entropies`.
        input_full_attention: of an autoregressive stack, whether positions in the inputs of
            "inputs, EOS, targets, EOS" see all of the inputs (prefix language models).
        loss_on_targets_only: whether predicting those inputs counts nothing.
        loss_denominator: what the summed loss is divided by; by default the number of positions of
            the targets, padding included.
        token_dropout_rate: the part of the input ids that is set to padding in training.
        pad_vocab_multiple: tables are rounded up to a multiple of this too, so that they divide
            over a mesh; the added entries are masked everywhere.
        type_vocab_size: how many types of tokens are embedded and added to the ids' embeddings, by
            the feature "inputs_token_type" (0 without it); None for no such embedding.
        logits_soft_cap: see `layers.clipping.soft_cap`, of the logits of classes.
    """

    def __init__(
        self,
        layer_stack: LayerStack,
        d_model: int = 1024,
        input_vocab_size: int = REQUIRED,
        output_vocab_size: int | None = REQUIRED,
        autoregressive: bool = REQUIRED,
        max_length: int = REQUIRED,
        shared_embedding_and_softmax_weights: bool = False,
        label_smoothing: float = 0.0,
        z_loss: float = 1e-4,
        name: str = "transformer",
        vocab_divisor: int = 128,
        ensemble: int | None = None,
        positional_embedding: bool = True,
        sinusoid_positional_embedding: bool = False,
        loss_fn: LossFunction | None = None,
        input_full_attention: bool = False,
        loss_on_targets_only: bool = False,
        loss_denominator: float | None = None,
        token_dropout_rate: float = 0.0,
        pad_vocab_multiple: int = 1,
        type_vocab_size: int | None = None,
        logits_soft_cap: float | None = None,
    ) -> None:
        require_positive("Unitransformer", d_model=d_model, vocab_divisor=vocab_divisor)
        self.layer_stack = layer_stack
        self.d_model = Dimension("d_model", d_model)
        self.input_vocab_size = input_vocab_size
        self.output_vocab_size = output_vocab_size
        self.autoregressive = autoregressive
        self.max_length = max_length
        self.tied = shared_embedding_and_softmax_weights
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss
        self.name = name
        self.vocab_divisor = vocab_divisor
        self.ensemble_dims = [Dimension("ensemble", ensemble)] if ensemble else []
        self.sinusoid = sinusoid_positional_embedding
        self.learned_positions = positional_embedding and not self.sinusoid
        self.loss_fn = loss_fn
        self.input_full_attention = input_full_attention
        self.loss_on_targets_only = loss_on_targets_only
        self.loss_denominator = loss_denominator
        self.token_dropout_rate = token_dropout_rate
        self.pad_vocab_multiple = pad_vocab_multiple
        self.logits_soft_cap = logits_soft_cap
        self.type_vocab_size = type_vocab_size
        self._check(ensemble)

    def _check(self, ensemble: int | None) -> None:
        """Refuses options that contradict each other."""
        name, sizes = self.name, {"ensemble": ensemble, "type_vocab_size": self.type_vocab_size}
        require_positive("Unitransformer", **{k: n for k, n in sizes.items() if n is not None})
        if self.tied and self.output_vocab_size not in (None, self.input_vocab_size):
            raise ConfigError(
                f"{name}: the embedding has {self.input_vocab_size} ids and the logits "
                f"{self.output_vocab_size} classes, so they cannot share weights; set "
                "Unitransformer.shared_embedding_and_softmax_weights = False."
            )
        if self.input_full_attention and not self.autoregressive:
            raise ConfigError(
                f"{name}.input_full_attention is for autoregressive stacks, which this one is not; "
                "bind it in the scope of the decoder alone."
            )
        if self.type_vocab_size and (self.autoregressive or self.output_vocab_size is None):
            raise ConfigError(
                f"{name}.type_vocab_size is {self.type_vocab_size}: types of tokens are for models "
                'of run.model_type = "aligned".'
            )
        if self.logits_soft_cap is not None and self.logits_soft_cap <= 0:
            raise ConfigError(
                f"{name}.logits_soft_cap is {self.logits_soft_cap}: give a number above 0, or None "
                "for none."
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What `call` reads: targets, and where it reads something else than those, inputs."""
        return ("targets",) if self.autoregressive else ("inputs", "targets")

    @property
    def optional_features(self) -> tuple[str, ...]:
        """What `call` reads if it is there."""
        return (TOKEN_TYPE,) if self.type_vocab_size else ()

    @property
    def vocab_sizes(self) -> dict[str, int]:
        """Feature name, of prompts too, to the number of ids that it may have."""
        return {"inputs": self.input_vocab_size, "targets": self.output_vocab_size}

    def lengths(self, sequence_length: Mapping[str, int]) -> dict[str, int]:
        """Feature name to the length that `call` reads.

        Args:
            sequence_length: those of the features of a task.
        """
        return dict.fromkeys(self.feature_names, sequence_length["targets"])

    def prepared(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What `call` reads of the features of a task.

        Args:
            features: arrays [batch, length], checked.

        Raises:
            DataError: if inputs and targets are not aligned, and have to be; or for a type of
                tokens that is not there.
        """
        if not self.autoregressive:
            check_aligned(features)
        types = features.get(TOKEN_TYPE)
        if types is not None and not (0 <= types.min() and types.max() < self.type_vocab_size):
            raise DataError(
                f"{TOKEN_TYPE} has values from {types.min()} to {types.max()}, and the model has "
                f"{self.type_vocab_size} types of tokens, from 0."
            )
        return dict(features)

    @property
    def longest(self) -> int | None:
        """How many positions have an embedding; None where positions are not embedded."""
        return self.max_length if self.learned_positions or self.sinusoid else None

    @property
    def longest_features(self) -> dict[str, int | None]:
        """Feature name to the longest sequence whose positions have embeddings."""
        return dict.fromkeys(("inputs", "targets"), self.longest)

    def call(
        self,
        features: Features,
        mode: str,
        variable_dtype: VariableDType,
        num_microbatches: int = 1,
        step: Tensor | None = None,
    ) -> ModelOutput:
        """Predicts every target: from those before it, or from the inputs, position by position.

        Args:
            features: see `prepared`.
            mode: "train" or "eval".
            variable_dtype: dtypes of the variables.
            num_microbatches: of how many micro-batches this is one.
            step: int32 scalar, how many steps training has made; None outside training.
        """
        targets = Sequence.of(features, "targets")

        def embedding() -> Embedding:
            return self.embedding(targets.ids.mesh, variable_dtype)

        context = self.context(targets, mode, variable_dtype)
        context.step, context.num_microbatches = step, num_microbatches
        if self.autoregressive:
            ids = autoregressive_inputs(targets.ids, targets.segmentation)
        else:
            ids = features["inputs"]
        if not self.input_full_attention:  # which would see padding behind the row
            context.sequence_id = targets.segmentation
        types = features.get(TOKEN_TYPE)
        hidden = self.hidden(context, ids, embedding(), targets.position, types)
        return self.output(context, hidden, embedding, targets.ids, num_microbatches)

    def decode(
        self,
        features: Features,
        variable_dtype: VariableDType,
        decode_length: int,
        options: DecodeOptions,
    ) -> DecodeResult:
        """Continues prompts.

        Args:
            features: "inputs" [batch, length], the prompts, 0 after their ends; and what
                `decode_stepwise` reads.
            variable_dtype: dtypes of the variables.
            decode_length: how many positions are added to the length of the prompts.
            options: how to decode.

        Raises:
            ConfigError: if it is not autoregressive.
        """
        if not self.autoregressive:
            raise ConfigError(
                "This model predicts each target from the input at its position and decodes "
                "nothing: call it, and take the largest of `out.logits`."
            )
        prompt = mtf.pad(features["inputs"], [0, decode_length], "length")
        embedding = self.embedding(prompt.mesh, variable_dtype)
        given = features["inputs"].shape.get_dim_by_name("length").size
        return decode_stepwise(
            self, embedding, variable_dtype, prompt, options, features, given=given
        )

    @contextlib.contextmanager
    def variables(self, scope: str) -> Iterator[None]:
        """Variables made inside are in `scope`, those of all members of an ensemble in one."""
        with mtf.stacked_variables(self.ensemble_dims), mtf.variable_scope(scope):
            yield

    def vocab(self, size: int) -> Vocab:
        """A vocabulary of `size` real entries as this model lays it out."""
        return Vocab.of_size(size, self.vocab_divisor, self.pad_vocab_multiple)

    def embedding(self, mesh: Mesh, variable_dtype: VariableDType) -> Embedding:
        """The embedding of this stack's own scope."""
        with self.variables(self.name):
            return Embedding.make(self, mesh, variable_dtype)

    def positions(self, mesh: Mesh, variable_dtype: VariableDType) -> Tensor | None:
        """[max_length, d_model]: a variable of the current scope, sinusoids, or None."""
        length = Dimension("length", self.max_length)
        if self.sinusoid:
            table = sinusoid_positions(mesh, length, self.d_model)
            return mtf.cast(table, variable_dtype.activation)
        if not self.learned_positions:
            return None
        shape = Shape([length, self.d_model])
        return mtf.get_variable(
            mesh, "positional_embedding", shape, variable_dtype, random_normal()
        )

    def token_types(self, mesh: Mesh, variable_dtype: VariableDType) -> Tensor | None:
        """[token_type, d_model]: a variable of the current scope, or None."""
        if self.type_vocab_size is None:
            return None
        shape = Shape([Dimension("token_type", self.type_vocab_size), self.d_model])
        name = "token_type_embedding"
        return mtf.get_variable(mesh, name, shape, variable_dtype, random_normal())

    def context(self, sequence: Sequence, mode: str, variable_dtype: VariableDType) -> Context:
        """The context of a whole sequence."""
        length = sequence.length_dim
        mesh = sequence.ids.mesh
        return Context(
            mesh=mesh,
            mode=mode,
            variable_dtype=variable_dtype,
            length_dim=length,
            memory_length_dim=Dimension("memory_length", length.size),
            d_model=self.d_model,
            position=mtf.mtf_range(mesh, length),
            autoregressive=self.autoregressive,
            input_full_attention=self.input_full_attention,
            priority=prefix_priority(sequence.ids) if self.input_full_attention else None,
            sequence_id=sequence.sequence_id,
        )

    def hidden(
        self,
        context: Context,
        ids: Tensor,
        embedding: Embedding,
        position: Tensor | None = None,
        token_type: Tensor | None = None,
    ) -> Tensor:
        """[batch, length] ids to [batch, length, d_model], through the stack.

        Args:
            context: of the call.
            ids: what is read.
            embedding: of ids and positions.
            position: of each id, where rows are packed; by default the context's.
            token_type: of each id; None for type 0.
        """
        ids = mtf.dropout(ids, context.is_training, rate=self.token_dropout_rate)
        context.inputs, context.vocab_size = ids, self.input_vocab_size
        position = context.position if position is None else position
        longest = context.memory_length_dim.size
        x = embedding.embed(ids, position, longest=longest, token_type=token_type)
        context.embeddings = x
        with self.variables(self.name):
            return self.layer_stack.call(context, x)

    def logits(self, context: Context, hidden: Tensor, embedding: Embedding) -> Tensor:
        """[..., d_model] to [..., vocab], of an ensemble all members' in one."""
        return self.reduced(self.member_logits(context, hidden, embedding))

    def member_logits(self, context: Context, hidden: Tensor, embedding: Embedding) -> Tensor:
        """[..., d_model] to [..., vocab], each member of an ensemble for itself."""
        vocab = self.vocab(self.output_vocab_size)
        if self.tied:
            logits = embedding.ids.hidden_to_logits(hidden, context.is_training)
        else:
            with self.variables(self.name):
                logits = untied_logits(hidden, vocab, self.d_model, context.variable_dtype)
        return vocab.mask_padding(soft_cap(logits, self.logits_soft_cap))

    def reduced(self, logits: Tensor) -> Tensor:
        """The logits of an ensemble of those of its members; others as they are."""
        for dim in self.ensemble_dims:
            vocab = self.vocab(self.output_vocab_size)
            logits = vocab.mask_padding(reduce_ensemble_logits(logits, dim, vocab.dim))
        return logits

    def output(
        self,
        context: Context,
        hidden: Tensor,
        embedding: Callable[[], Embedding],
        targets: Tensor,
        num_microbatches: int,
    ) -> ModelOutput:
        """Logits and losses of hidden states.

        Where the members of an ensemble have targets of their own, logits are each member's.

        Args:
            context: of the call.
            hidden: [batch, length, d_model].
            embedding: gives that of the ids; called in each block where losses are computed so.
            targets: [batch, length].
            num_microbatches: of how many micro-batches this is one.
        """
        # Where losses are computed in blocks, no training step computes these.
        logits = self.member_logits(context, hidden, embedding())
        if self.loss_fn is None:
            losses = self.cross_entropies(context, hidden, embedding, logits, targets)
            training = context.is_training
            cross_entropy = self.weighted_mean(losses, targets, training, num_microbatches)
        else:
            vocab = self.vocab(self.output_vocab_size)
            context.hidden, context.vocab_embedding = hidden, embedding().ids
            cross_entropy = self.loss_fn(self, context, logits, targets, vocab.dim)
        parts = {**context.losses, "cross_entropy": cross_entropy}
        together = set(self.ensemble_dims).isdisjoint(targets.shape)
        logits = self.reduced(logits) if together else logits
        return ModelOutput(logits, mtf.add_n(list(parts.values())), parts, context.reports)

    def cross_entropies(
        self,
        context: Context,
        hidden: Tensor,
        embedding: Callable[[], Embedding],
        logits: Tensor,
        targets: Tensor,
    ) -> Tensor:
        """[batch, length] float32, of an ensemble each member's; see `output` for what it takes."""
        vocab = self.vocab(self.output_vocab_size)

        def of(logits: Tensor, targets: Tensor) -> Tensor:
            return softmax_cross_entropy(
                logits,
                targets,
                vocab.dim,
                z_loss=self.z_loss if context.is_training else 0.0,
                label_smoothing=self.label_smoothing,
                classes=vocab.classes,
            )

        def of_rows(_: int, hidden: Tensor, targets: Tensor) -> list[Tensor]:
            return [of(self.member_logits(context, hidden, embedding()), targets)]

        length = targets.shape.get_dim_by_name("length")
        size = positions_at_once(logits, length) if context.is_training else None
        if size is None:
            return of(logits, targets)
        [losses] = mtf.in_blocks(of_rows, [hidden, targets], [], length, size)
        return losses

    def loss_weights(self, targets: Tensor, is_training: bool) -> Tensor:
        """[batch, length] float32: 1 where a target counts, 0 at padding and negative ids."""
        counts = mtf.greater(targets, 0)
        if self.loss_on_targets_only:
            counts = mtf.logical_and(counts, mtf.logical_not(delimited_inputs_mask(targets)))
        return mtf.to_float(counts)

    def weighted_mean(
        self, losses: Tensor, targets: Tensor, is_training: bool, num_microbatches: int
    ) -> Tensor:
        """The sum of the losses that count, divided by the number of all positions.

        Those of the members of an ensemble are added up, so that each learns as if alone.

        Args:
            losses: [batch, length] float32, of an ensemble each member's.
            targets: [batch, length].
            is_training: see `loss_weights`.
            num_microbatches: of how many micro-batches this is one.
        """
        weights = self.loss_weights(targets, is_training)
        return mtf.reduce_sum(losses * weights) / self.denominator(targets, num_microbatches)

    def denominator(self, targets: Tensor, num_microbatches: int) -> float:
        """What a sum of losses is divided by: as bound, else the number of all positions."""
        positions = (targets.shape - self.ensemble_dims).size
        return self.loss_denominator or positions * num_microbatches
