"""A model with its texts as one module of TensorFlow: what a SavedModel is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from mtf_models.decode.options import EOS
from mtf_models.mesh import Shape, Tensor
from mtf_models.mesh.size import Size
from mtf_models.runtime.model.decode_plan import DecodePlan
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.using.text_codec import ByteCodec, PieceCodec
from mtf_models.transformer.delimited import DelimitedUnitransformer

_BUCKETS = 2**62
"""Into so many numbers texts are hashed, to draw by."""

Signature = tf.types.experimental.ConcreteFunction


@dataclass(frozen=True)
class ServedText:
    """The texts of a feature.

    Attributes:
        codec: makes ids of them.
        end: ids that are put after them.
        longest: how many ids are read; what is longer is cut.
    """

    codec: PieceCodec | ByteCodec
    end: tuple[int, ...]
    longest: int


class ServingModule(tf.Module):
    """Texts in, texts and scores out.

    Args:
        model: on a mesh of one device.
        texts: of "inputs", or of the prompts of a decoder-only model, and of "targets".
        fixed_rows: None for batches of any number and length of rows, in graphs whose sizes are
            known when they run. A model that needs to know them runs so many rows at a time, of
            the longest length.
    """

    def __init__(
        self, model: Model, texts: Mapping[str, ServedText], fixed_rows: int | None = None
    ) -> None:
        super().__init__()
        self._model = model
        self._texts = dict(texts)
        self._fixed_rows = fixed_rows
        # What is saved with the graphs has to be an attribute.
        self.weights = {name: variable.held for name, variable in model.variables.items()}
        self.codecs = {name: text.codec for name, text in texts.items()}

    def predicting(self, plan: DecodePlan, seeded: bool = False) -> Signature:
        """Decodes texts.

        Args:
            plan: how.
            seeded: whether the caller gives the seed of what is drawn.

        Returns:
            It takes `inputs` [n] strings and, if seeded, `seed`, an int64 scalar. It returns
            `outputs` and their `scores` and `log_probabilities` [n], or [n, beam] for several of
            each, the `inputs`, and in `trimmed` [n] how many ids of each input were not read.
        """
        arguments = [tf.TensorSpec([None], tf.string, name="inputs")]
        if seeded:
            arguments.append(tf.TensorSpec([], tf.int64, name="seed"))

        def run(inputs: tf.Tensor, seed: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
            rows, trimmed = self._rows("inputs", inputs)
            given = [self._dense(rows, self._texts["inputs"].longest)]
            if plan.options.draws:
                given.append(self._uniforms(inputs, seed, plan, given[0]))
            found, scores, log_probabilities = self._by_rows(
                lambda *rows: self._decoded(plan, *rows), given, [tf.int32, tf.float32, tf.float32]
            )
            return {
                "inputs": inputs,
                "outputs": self._texts_of(found),
                "scores": scores,
                "log_probabilities": log_probabilities,
                "trimmed": trimmed,
            }

        return tf.function(run, arguments, autograph=False).get_concrete_function()

    def scoring(self) -> Signature:
        """Scores targets.

        Returns:
            It takes `inputs`, unless the model reads none, and `targets` [n], strings. It returns
            the `scores` [n], log-probabilities, ends of sequence counted, the `targets`, and in
            `trimmed` [n] how many ids of each row were not read.
        """
        names = self._model.network.feature_names
        arguments = [tf.TensorSpec([None], tf.string, name=name) for name in names]

        def run(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            rows, trimmed = zip(*map(self._rows, names, texts), strict=True)
            given = self._scored(dict(zip(names, rows, strict=True)))
            (scores,) = self._by_rows(
                lambda *rows: self._scores(dict(zip(given, rows, strict=True))),
                list(given.values()),
                [tf.float32],
            )
            return {"targets": texts[-1], "scores": scores, "trimmed": tf.add_n(trimmed)}

        return tf.function(run, arguments, autograph=False).get_concrete_function()

    def _decoded(
        self, plan: DecodePlan, ids: tf.Tensor, uniforms: tf.Tensor | None = None
    ) -> list[tf.Tensor]:
        rows = {"inputs": self._named("inputs", ids)}
        batch, length = rows["inputs"].shape
        if uniforms is not None:
            beam = ("beam", plan.options.num_return)
            shape = Shape([batch, beam, ("length", plan.positions(length.size))])
            rows["uniforms"] = Tensor(self._model.mesh, shape, uniforms)
        found = plan.run(self._model, rows)
        return [x.value for x in (found.ids, found.scores, found.log_probabilities)]

    def _texts_of(self, ids: tf.Tensor) -> tf.Tensor:
        """[n, length] or [n, beam, length] ids to [n] or [n, beam] strings."""
        shape = tf.shape(ids)
        texts = self.codecs["targets"].decode(tf.reshape(ids, [-1, shape[-1]]))
        return tf.ensure_shape(tf.reshape(texts, shape[:-1]), ids.shape[:-1])

    def _scores(self, rows: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        named = {name: self._named(name.partition("_")[0], x) for name, x in rows.items()}
        return [tf.reduce_sum(self._model.scores_of(named).value, axis=1)]

    def _scored(self, rows: Mapping[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
        """The features that the network reads."""
        if not self._is_delimited:
            return {n: self._dense(x, self._texts[n].longest) for n, x in rows.items()}
        # One sequence, as `data.delimited.join` makes it of rows that are not packed.
        longest = sum(text.longest for text in self._texts.values())
        ids = self._dense(tf.concat(list(rows.values()), 1), longest)
        real = tf.cast(tf.not_equal(ids, 0), tf.int32)
        positions = real * tf.range(tf.shape(ids)[1])
        return {"targets": ids, "targets_segmentation": real, "targets_position": positions}

    @property
    def _is_delimited(self) -> bool:
        return isinstance(self._model.network, DelimitedUnitransformer)

    def _rows(self, name: str, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The ids of texts, and how many of each were cut."""
        text, count = self._texts[name], tf.shape(texts)[0]
        end = tf.tile(tf.constant([text.end], tf.int32), [count, 1])
        rows = tf.concat([tf.cast(text.codec.encode(texts), tf.int32), end], axis=1)
        trimmed = tf.maximum(tf.cast(rows.row_lengths(), tf.int32) - text.longest, 0)
        rows = rows[:, : text.longest]
        if self._is_delimited and name == "inputs":
            # An end divides them from the targets, in the place of the last id where it was cut.
            rows = tf.concat([rows[:, :-1], tf.fill([count, 1], EOS)], axis=1)
        return rows, trimmed

    def _dense(self, rows: tf.RaggedTensor, longest: int) -> tf.Tensor:
        """[n, length] ids, zeros after each row; at least one position."""
        if self._fixed_rows is not None:
            return rows.to_tensor(shape=[None, longest])
        ids = rows.to_tensor()
        return tf.pad(ids, [[0, 0], [0, tf.maximum(1 - tf.shape(ids)[1], 0)]])

    def _named(self, name: str, ids: tf.Tensor) -> Tensor:
        """Ids on the mesh, of sizes that are known as early as the graphs know them."""
        rows, length = ids.shape
        if self._fixed_rows is None:
            here = tf.shape(ids)
            rows = Size.of("batch", here[0])
            length = Size.of(f"length of {name}", here[1], self._longest(name))
        return Tensor(self._model.mesh, Shape([("batch", rows), ("length", length)]), ids)

    def _longest(self, name: str) -> int:
        joined = self._is_delimited and name == "targets"
        return sum(t.longest for t in self._texts.values()) if joined else self._texts[name].longest

    def _by_rows(
        self,
        run: Callable[..., list[tf.Tensor]],
        given: Sequence[tf.Tensor],
        dtypes: Sequence[tf.DType],
    ) -> list[tf.Tensor]:
        """What `run` makes of rows: of all at once, or of a fixed number at a time."""
        if self._fixed_rows is None:
            return run(*given)
        count, rows = tf.shape(given[0])[0], self._fixed_rows
        chunks = (count + rows - 1) // rows
        # The last rows are made up: again the last one.
        places = tf.minimum(tf.range(chunks * rows), count - 1)
        grouped = [
            tf.reshape(tf.gather(x, places), [-1, rows, *x.shape.as_list()[1:]]) for x in given
        ]
        found = tf.map_fn(
            lambda x: run(*x), grouped, fn_output_signature=list(dtypes), parallel_iterations=1
        )
        return [tf.reshape(x, [-1, *x.shape.as_list()[2:]])[:count] for x in found]

    def _uniforms(
        self, texts: tf.Tensor, seed: tf.Tensor | None, plan: DecodePlan, ids: tf.Tensor
    ) -> tf.Tensor:
        """[n, beam, length] numbers that depend on the seed and the text of the row alone.

        Args:
            texts: [n] strings.
            seed: int64 scalar; None for another one in each call.
            plan: of the decoding.
            ids: [n, length] of the texts.
        """
        if seed is None:
            seed = tf.random.uniform([], maxval=_BUCKETS, dtype=tf.int64)
        width = tf.shape(ids)[1] if self._fixed_rows is None else ids.shape[1]
        # Positions come first: a longer row of numbers begins like a shorter one.
        shape = [plan.positions(width), plan.options.num_return]

        def drawn(text: tf.Tensor) -> tf.Tensor:
            numbers = tf.random.stateless_uniform(shape, tf.stack([seed, text]), alg="philox")
            return tf.transpose(numbers)

        hashed = tf.strings.to_hash_bucket_fast(texts, _BUCKETS)
        numbers = tf.map_fn(drawn, hashed, fn_output_signature=tf.float32)
        return tf.ensure_shape(
            numbers, [None, shape[1], None if tf.is_tensor(shape[0]) else shape[0]]
        )
