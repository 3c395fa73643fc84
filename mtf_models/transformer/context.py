"""What a layer may know besides its input."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.decode.rows import beam_dim, grouped, merged
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType, scopes


@dataclass
class Context:
    """Mode, lengths, masks, caches and losses of one call of a stack.

    Attributes:
        mesh: where it runs.
        mode: "train", "eval", "prefill" (prompts, which fill the caches) or "incremental" (one
            position at a time, with caches).
        variable_dtype: dtypes of the variables.
        length_dim: the positions of `x`; of size 1 when incremental.
        memory_length_dim: the positions that self-attention sees.
        d_model: the width of `x`.
        position: [length] int32, the index of each row of `x`.
        autoregressive: whether no position may see what comes after it; layers of any kind keep to
            it, attention inside a prefix excepted.
        input_full_attention: whether positions in a prefix see all of it.
        priority: [batch, length] int32 or None, in an autoregressive call on whole sequences:
            positions see those of equal or lower priority; None is the position itself.
        sequence_id: [batch, length] int32 or None: positions see each other if it is equal; 0 is
            padding. None: every position sees every other.
        encoder_output: [batch, memory_length, d_model] or None.
        encoder_sequence_id: [batch, memory_length] int32 or None.
        caches: when decoding, what layers change from step to step, by name.
        constants: when decoding, what layers compute in the first step only, by name.
        prompt_lengths: [batch] int32, in a prefill: caches are made for the position after each.
        cache_length: in a prefill, how many positions caches are for.
        losses: scalars that layers add to the loss, by name.
        reports: scalars that layers tell about themselves, by name.
        num_microbatches: of how many micro-batches this is one; losses and reports are summed over
            them.
        step: int32 scalar, how many steps training has made, or None outside training.
        inputs: [batch, length] int32, the ids that the stack reads.
        embeddings: [batch, length, d_model], what the stack begins with, or None.
        encoder_inputs: [batch, memory_length] int32, the ids that the encoder read, or None.
        layer_outputs: what each layer of the stack was given, in order, and what the stack gave.
        encoder_layer_outputs: [batch, memory_length, d_model] each, the encoder's, or none.
        hypotheses: how many rows of the batch stand beside each other for each row of the
            encoder's: they continue the same text.
        vocab_size: how many ids there are, padding of the table not counted.
        hidden: [batch, length, d_model], what logits are made of; for loss functions.
        vocab_embedding: the vocabulary of the stack, likewise.
        whole: where this is of some of the queries (`rows`), the context of all.
        begin: the first of these queries.
        layer: the running layer of a stack.
        layer_index: its place in the stack.
        layer_input: what the running layer of a stack was given, for the residual.
        shared_scopes: where a variable that several layers share was first made, by what it is.
    """

    mesh: Mesh
    mode: str
    variable_dtype: VariableDType
    length_dim: Dimension
    memory_length_dim: Dimension
    d_model: Dimension
    position: Tensor
    autoregressive: bool
    input_full_attention: bool = False
    priority: Tensor | None = None
    sequence_id: Tensor | None = None
    encoder_output: Tensor | None = None
    encoder_sequence_id: Tensor | None = None
    caches: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Tensor] = field(default_factory=dict)
    prompt_lengths: Tensor | None = None
    cache_length: int = 0
    losses: dict[str, Tensor] = field(default_factory=dict)
    reports: dict[str, Tensor] = field(default_factory=dict)
    num_microbatches: int = 1
    step: Tensor | None = None
    inputs: Tensor | None = None
    embeddings: Tensor | None = None
    encoder_inputs: Tensor | None = None
    layer_outputs: list[Tensor] = field(default_factory=list)
    encoder_layer_outputs: list[Tensor] = field(default_factory=list)
    hypotheses: int = 1
    vocab_size: int = 0
    hidden: Tensor | None = None
    vocab_embedding: Any = None
    layer: Any = None
    layer_index: int = 0
    layer_input: Tensor | None = None
    shared_scopes: dict[object, str] = field(default_factory=dict)
    _once: dict[object, Tensor] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    whole: Context | None = None
    begin: int = 0

    @property
    def is_training(self) -> bool:
        """Whether dropout is on."""
        return self.mode == "train"

    @property
    def incremental(self) -> bool:
        """Whether this is one step of decoding."""
        return self.mode == "incremental"

    @property
    def prefilling(self) -> bool:
        """Whether this reads prompts, before the first step of decoding."""
        return self.mode == "prefill"

    @property
    def decoding(self) -> bool:
        """Whether what is seen is kept for later steps."""
        return self.incremental or self.prefilling

    @property
    def fully_autoregressive(self) -> bool:
        """Whether every position sees only itself and those before it, without exception."""
        return self.autoregressive and not self.input_full_attention

    @property
    def read_priority(self) -> Tensor:
        """[length] or [batch, length] int32: a position sees what was written at it or below."""
        return self.position if self.priority is None else self.priority

    @property
    def write_priority(self) -> Tensor:
        """The same of what is seen: [memory_length] or [batch, memory_length] int32."""
        if self.whole is not None:
            return self.whole.write_priority
        if self.priority is None:
            return self.memory_position
        names = self.length_dim.name, self.memory_length_dim.name
        return mtf.rename_dimension(self.priority, *names)

    @property
    def memory_sequence_id(self) -> Tensor | None:
        """[batch, memory_length] int32, the sequence_id of what self-attention sees, or None."""
        whole = self.whole or self
        if whole.sequence_id is None:
            return None
        names = whole.length_dim.name, whole.memory_length_dim.name
        return mtf.rename_dimension(whole.sequence_id, *names)

    @property
    def activation_dtype(self) -> tf.DType:
        """The dtype of activations."""
        return self.variable_dtype.activation

    @property
    def nonpadding(self) -> Tensor | None:
        """[batch, length], 1 at real positions and 0 at padding, in the activation dtype."""
        if self.sequence_id is None or self.incremental:
            return None
        return self.once(
            "nonpadding",
            lambda: mtf.cast(mtf.not_equal(self.sequence_id, 0), self.activation_dtype),
        )

    def masked(self, x: Tensor) -> Tensor:
        """[batch, length, ...] with zeros at padding."""
        real = self.nonpadding
        return x if real is None else mtf.multiply(x, real, output_shape=x.shape)

    @property
    def encoder_length_dim(self) -> Dimension:
        """The positions of the encoder's output."""
        return self.encoder_output.shape.get_dim_by_name("memory_length")

    @property
    def memory_position(self) -> Tensor:
        """[memory_length] int32, the index of each position that self-attention sees."""
        return mtf.mtf_range(self.mesh, self.memory_length_dim)

    def once(self, key: object, compute: Callable[[], Tensor]) -> Tensor:
        """Computes a tensor that several layers need only the first time."""
        if key not in self._once:
            self._once[key] = compute()
        return self._once[key]

    def add_loss(self, name: str, value: Tensor) -> None:
        """Adds a scalar to the loss, under `name` in the scope of the running layer."""
        name = _unused(scopes.full_name(name), self.losses)
        self.losses[name] = self._part(value)

    def report(self, name: str, value: Tensor) -> None:
        """Tells a scalar to whoever follows the training, under `name` in the running scope."""
        name = _unused(scopes.full_name(name), self.reports)
        self.reports[name] = mtf.stop_gradient(self._part(value))

    def take_over(self, losses: Mapping[str, Tensor], reports: Mapping[str, Tensor]) -> None:
        """Adds what was added to the losses and reports of an isolated copy."""
        self.losses |= {_unused(name, self.losses): x for name, x in losses.items()}
        self.reports |= {_unused(name, self.reports): x for name, x in reports.items()}

    def _part(self, value: Tensor) -> Tensor:
        return value if self.num_microbatches == 1 else value / float(self.num_microbatches)

    def attending(self, encoded: Context | None) -> Context:
        """A copy whose layers see what an encoder made, and add to its losses."""
        if encoded is None:
            return self
        return dataclasses.replace(
            self,
            encoder_output=encoded.encoder_output,
            encoder_sequence_id=encoded.encoder_sequence_id,
            encoder_inputs=encoded.encoder_inputs,
            encoder_layer_outputs=encoded.encoder_layer_outputs,
            num_microbatches=encoded.num_microbatches,
            step=encoded.step,
            losses=encoded.losses,
            reports=encoded.reports,
        )

    def split_hypotheses(self, x: Tensor) -> Tensor:
        """The batch of a tensor as the encoder's, its hypotheses a dimension of their own.

        They see the same memory, which is so read once for all of them.
        """
        return x if self.hypotheses == 1 else grouped(x, beam_dim(self.hypotheses))

    def merge_hypotheses(self, y: Tensor) -> Tensor:
        """The way back from `split_hypotheses`."""
        return y if self.hypotheses == 1 else merged(y)

    def shorten(self, size: int) -> None:
        """Goes on with the first of each `size` positions, which are numbered anew from 0."""
        length = self.length_dim

        def first(x: Tensor | None) -> Tensor | None:
            return None if x is None else mtf.stride_tensor_1d(x, length, size)

        self.sequence_id, self.inputs = first(self.sequence_id), first(self.inputs)
        self.embeddings = first(self.embeddings)
        self.length_dim = Dimension(length.name, length.size // size)
        self.memory_length_dim = Dimension(self.memory_length_dim.name, length.size // size)
        self.position = mtf.mtf_range(self.mesh, self.length_dim)
        self._once = {}  # Those of copies are of the length they had.

    def isolated(
        self,
        encoder_output: Tensor | None,
        encoder_layer_outputs: Sequence[Tensor] = (),
        embeddings: Tensor | None = None,
    ) -> Context:
        """A copy that shares no computed tensor, for computations that are run again."""
        alone = {"_once": {}, "losses": {}, "reports": {}, "embeddings": embeddings}
        alone |= {"encoder_layer_outputs": list(encoder_layer_outputs)}
        return dataclasses.replace(self, encoder_output=encoder_output, **alone)

    def rows(self, begin: int, size: int) -> Context:
        """The context of some of the positions of a sequence, which see the same memory.

        Args:
            begin: the first of them.
            size: how many they are.
        """
        name = self.length_dim.name

        def part(x: Tensor | None) -> Tensor | None:
            return None if x is None else mtf.slice(x, begin, size, name)

        return dataclasses.replace(
            self,
            length_dim=Dimension(name, size),
            position=part(self.position),
            priority=part(self.priority),
            sequence_id=part(self.sequence_id),
            inputs=part(self.inputs),
            embeddings=part(self.embeddings),
            whole=self,
            begin=begin,
            _once={},
        )

    def self_attention_memory(self, name: str, x: Tensor) -> Tensor:
        """What self-attention sees of a projected input: all of it, or a cache with `x` written in.

        Args:
            name: which projection, asked for once in a use of a layer.
            x: [batch, length, ...].

        Returns:
            [batch, memory_length, ...]; when decoding, [batch, ..., memory_length, the last one],
            which is the order that products of heads take their operands in.
        """
        if not self.incremental:
            memory = mtf.rename_dimension(x, self.length_dim.name, self.memory_length_dim.name)
            if self.prefilling:
                more = self.cache_length - self.memory_length_dim.size
                self.caches[self._key(name)] = mtf.pad(
                    memory, [0, more], self.memory_length_dim.name
                )
            return memory
        key = self._key(name)
        row = mtf.reshape(x, x.shape - self.length_dim)
        old = self.caches.get(key)
        if old is None:
            shape = _by_heads(row.shape + self.memory_length_dim, self.memory_length_dim)
            old = mtf.zeros(self.mesh, shape, x.dtype)
        step = mtf.reshape(self.position, Shape())
        self.caches[key] = mtf.with_entry(old, row, step, self.memory_length_dim)
        return self.caches[key]

    def recent(self, name: str, x: Tensor, count: int) -> Tensor:
        """The values of the last positions up to this one, when decoding; zeros before the first.

        Args:
            name: of the values, asked for once in a use of a layer.
            x: [batch, length, ...] of the one position.
            count: how many.

        Returns:
            [batch, window, ...].
        """
        window = Dimension("window", count)
        key = self._key(name)
        shape = Shape([window if d == self.length_dim else d for d in x.shape])
        old = self.caches.get(key)
        if old is None:
            old = mtf.zeros(self.mesh, shape, x.dtype)
        last = mtf.equal(mtf.mtf_range(self.mesh, window), count - 1)
        row = mtf.reshape(x, x.shape - self.length_dim)
        moved = mtf.shift(old, -1, window, wrap=False)
        self.caches[key] = mtf.where(last, row, moved, output_shape=shape)
        return self.caches[key]

    def remember(self, name: str, x: Tensor, count: int) -> None:
        """In a prefill, keeps what `recent` has to know at the position after each prompt.

        Args:
            name: of the values, as for `recent`.
            x: [batch, length, ...] of all positions.
            count: how many `recent` gives.
        """
        if not self.prefilling:
            return
        window = Dimension("window", count)
        first = self.prompt_lengths - count
        shape = first.shape + window
        place = mtf.add(first, mtf.mtf_range(self.mesh, window), output_shape=shape)
        self.caches[self._key(name)] = mtf.gather(x, place, self.length_dim)

    def encoder_memory(self, name: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """A projection of the encoder's output; computed once for all steps of decoding.

        Args:
            name: which projection, asked for once in a use of a layer.
            compute: takes the encoder's output.

        Returns:
            What was computed, of the encoder's rows: `split_hypotheses` brings queries to them.
        """
        if not self.decoding:
            return compute(self.encoder_output)
        key = self._key(name)
        if key not in self.constants:
            found = compute(self.encoder_output)
            shape = _by_heads(found.shape, self.encoder_length_dim)
            self.constants[key] = mtf.transpose(found, shape)
        return self.constants[key]

    def _key(self, name: str) -> str:
        """What is kept under `name` by the running use of a layer.

        Layers that share their weights share a scope too, and a stack may use a layer again: each
        use is told from those before it in the same step.
        """
        key = _unused(scopes.full_name(name), self._asked)
        self._asked.add(key)
        return key


def _by_heads(shape: Shape, memory: Dimension) -> Shape:
    """The shape with the positions of a memory last but one, behind batch and heads."""
    *others, last = (shape - memory).dims
    return Shape([*others, memory, last])


def _unused(name: str, taken: Container[str]) -> str:
    """The name with the next free number behind it: layers may share their weights and scope."""
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return name if name not in taken else next(n for n in numbered if n not in taken)
