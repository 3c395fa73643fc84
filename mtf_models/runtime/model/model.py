"""A model on a mesh: call it, differentiate it, decode with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.config import Config
from mtf_models.data.features import check_features
from mtf_models.decode.listener import Listener
from mtf_models.decode.result import DecodeResult
from mtf_models.errors import ConfigError, DataError
from mtf_models.layers.loss import softmax_cross_entropy
from mtf_models.mesh import (
    Dimension,
    Mesh,
    RandomStream,
    Shape,
    Tensor,
    Variable,
    VariableDType,
    VariableStore,
)
from mtf_models.runtime.bindings.settings import RunSettings
from mtf_models.runtime.model import decode_request
from mtf_models.runtime.model.compiled import CompiledFunction, Tensors
from mtf_models.runtime.model.decode_request import DecodeRequest
from mtf_models.runtime.model.networks import Network
from mtf_models.transformer.ensembles import by_member
from mtf_models.transformer.output import ModelOutput
from mtf_models.transformer.sequences import until_end

_AXES = ("batch", "length")


class Model:
    """A network with its variables on a mesh, each call compiled once for each shape.

    Made by `mtf.build_model` and `mtf.load_model`. Features are integer arrays [batch, length]
    named as SeqIO names them: "inputs", "targets" and, where rows are packed, their
    "_segmentation" and "_position".

    Attributes:
        network: the layers.
        mesh: where it runs.
        config: what it was built from.
        settings: what the config says of runs.
        variable_dtype: dtypes of the variables.
        seed: of initial values and dropout.
    """

    def __init__(
        self,
        network: Network,
        store: VariableStore,
        config: Config,
        settings: RunSettings,
        variable_dtype: VariableDType,
    ) -> None:
        self.network = network
        self.mesh: Mesh = store.mesh
        self.config = config
        self.settings = settings
        self.variable_dtype = variable_dtype
        self.seed = store.seed
        self.listener = Listener()
        self._store = store
        self._functions: dict[Any, CompiledFunction] = {}

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The variables by their checkpoint names; allocated when first read."""
        return MappingProxyType(self._store.variables)

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(v.shape.size for v in self.variables.values() if v.trainable)

    @property
    def compilations(self) -> int:
        """How many graphs were compiled so far: one for each function and shape of inputs."""
        return sum(function.compilations for function in self._functions.values())

    def on_mesh(self, mesh: Mesh) -> Model:
        """The same model on another mesh, its variables without values."""
        store = self._store.specified_on(mesh)
        return Model(self.network, store, self.config, self.settings, self.variable_dtype)

    def __call__(self, features: Mapping[str, Any], mode: str = "eval") -> ModelOutput:
        """Computes logits and losses.

        Args:
            features: see the class.
            mode: "train" (dropout, z-loss; the first step's) or "eval".

        Returns:
            `logits` [batch, length, padded vocab], `loss`, `losses` and `reports`. Where the
            members of an ensemble train on batches of their own, the logits of "train" have a
            first dimension `ensemble`.

        Raises:
            DataError: if a feature is missing, unknown or does not fit the vocabulary.
        """
        run = self.compiled(("call", _checked_mode(mode)), lambda x: self._call(x, mode))
        found = run(self.tensors(features))
        return ModelOutput(**found)

    def gradients(self, features: Mapping[str, Any], mode: str = "train") -> dict[str, Tensor]:
        """The derivative of the loss by every trainable variable, under its checkpoint name.

        Args:
            features: see the class.
            mode: "train" or "eval".
        """

        def run(tensors: Tensors) -> Tensors:
            stream = RandomStream((self.seed, 0))
            grads = self.loss_and_gradients(tensors, mode, stream, self.read())[1]
            return {name: mtf.cast(g, self.variables[name].dtype) for name, g in grads.items()}

        return self.compiled(("gradients", _checked_mode(mode)), run)(self.tensors(features))

    def decode(
        self,
        features: Mapping[str, Any],
        beam_size: int | None = None,
        temperature: float | None = None,
        alpha: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        num_return: int | None = None,
        seed: int | None = None,
        max_decode_length: int | None = None,
        **more: Any,
    ) -> DecodeResult:
        """Decodes the inputs: greedily, by a beam search, or by drawing.

        What is None is as the config says (`Bitransformer.decode`, `beam_search`,
        `Unitransformer.sample_autoregressive`), by default greedy. What a row draws depends on the
        seed, its ids and its row number alone, and on no other row.

        Args:
            features: "inputs" [batch, length], not packed; a decoder-only model takes its prompts
                so. Targets may be there too, and are not read.
            beam_size: above 1, of a beam search.
            temperature: above 0, to draw; 0 takes the most likely id.
            alpha: of the length penalty ((5 + n) / 6)^alpha of a beam search.
            top_k: draw among so many of the likeliest ids.
            top_p: draw among the fewest likeliest ids with this part of the probability.
            num_return: sequences for each row: the best of a beam, or independent draws.
            seed: of what is drawn; by default the model's.
            max_decode_length: how many positions are decoded, or for a decoder-only model added to
                those of the prompts. By default as many as the inputs have, of which a beam search
                uses 1.5 times those of the row, and 10; of a decoder-only model the config's
                targets.
            **more: see `runtime.model.decode_request`, and for `repetition_penalty`,
                `no_repeat_ngram`, `stop_ids`, ... `decode.options.DecodeOptions`.

        Returns:
            `ids` [batch, length], or [batch, beam, length] for several sequences of a row, of a
            decoder-only model prompt and continuation; `scores` and `log_probabilities`.

        Raises:
            ConfigError: if what is asked for is unknown or does not fit together.
            DataError: if the inputs are missing, packed or do not fit the vocabulary.
        """
        request = DecodeRequest.of(
            beam_size=beam_size,
            temperature=temperature,
            alpha=alpha,
            top_k=top_k,
            top_p=top_p,
            num_return=num_return,
            seed=seed,
            max_decode_length=max_decode_length,
            **more,
        )
        return decode_request.decode(self, _unpacked(features), request)

    def score(self, features: Mapping[str, Any]) -> Tensor:
        """The log-probability of each row of targets: end of sequence counted, padding not.

        Args:
            features: see the class; not packed.

        Returns:
            [batch] float32, natural logarithm.

        Raises:
            DataError: if a feature is missing, packed or does not fit the vocabulary.
        """
        tokens = self.token_scores(features)
        return mtf.reduce_sum(tokens, reduced_dim=tokens.shape.get_dim_by_name("length"))

    def token_scores(self, features: Mapping[str, Any]) -> Tensor:
        """The log-probability of each target after those before it.

        Args:
            features: see the class; not packed.

        Returns:
            [batch, length] float32, natural logarithm; 0 at padding, at negative targets, which
            are read and not predicted, and after the first end of sequence that is predicted.

        Raises:
            DataError: if a feature is missing, packed or does not fit the vocabulary.
        """
        return self.compiled(("score",), self.scores_of)(self.tensors(_unpacked(features)))

    def scores_of(self, tensors: Tensors) -> Tensor:
        """What `token_scores` gives, in a graph.

        Args:
            tensors: features on the mesh.
        """
        logits = self._call(tensors, "eval")["logits"]
        targets = tensors["targets"]
        vocab = logits.shape.get_dim_by_name("vocab")
        weights = until_end(targets, self.network.loss_weights(targets, is_training=False))
        return -softmax_cross_entropy(logits, targets, vocab) * weights

    def loss_and_gradients(
        self,
        tensors: Tensors,
        mode: str,
        stream: RandomStream,
        table: Mapping[str, tf.Tensor],
        num_microbatches: int = 1,
        step: Tensor | None = None,
        trained: Sequence[Variable] | None = None,
    ) -> tuple[ModelOutput, Tensors]:
        """The output of the network and the derivatives of its loss, for a step to use.

        The derivatives are in the activation dtype of each variable.

        Args:
            tensors: features on the mesh.
            mode: "train" or "eval".
            stream: what dropout draws from.
            table: the values of the variables, from `read`.
            num_microbatches: of how many micro-batches this is one.
            step: int32 scalar, how many steps training has made; None for none.
            trained: by which variables to derive; None for all that can be trained.
        """
        if trained is None:
            trained = [v for v in self.variables.values() if v.trainable]
        values = self._store.in_activation_dtypes(table)
        # Recomputation runs layers again while gradients are taken, hence inside `using` too.
        with self.using(values, stream), tf.GradientTape() as tape:
            tape.watch([values[v.name] for v in trained])
            read = self._for_members(tensors, mode)
            step = self._first_step(mode) if step is None else step
            output = self.network.call(read, mode, self.variable_dtype, num_microbatches, step)
            with tape.stop_recording():
                watched = [Tensor(self.mesh, v.shape, values[v.name]) for v in trained]
                grads = mtf.gradients(tape, output.loss, watched)
        return output, {v.name: g for v, g in zip(trained, grads, strict=True)}

    def allocate(self) -> None:
        """Gives every variable that has no value its initial one."""
        self._store.allocate()

    def read(self) -> dict[str, tf.Tensor]:
        """The value of every variable, read once, for one step."""
        return self._store.read()

    def tensors(self, features: Mapping[str, Any], names: tuple[str, ...] | None = None) -> Tensors:
        """Checks features and puts them on the mesh.

        Args:
            features: see the class.
            names: those that must be there, to be put there as they are; by default those of a
                task, from which the network's `prepared` takes what it reads.

        Raises:
            DataError: listing all faults.
        """
        arrays = {name: np.asarray(value) for name, value in _by_name(features).items()}
        wanted = names or self.network.feature_names
        allowed = {n + suffix for n in wanted for suffix in ("", "_segmentation", "_position")}
        allowed |= set() if names else set(getattr(self.network, "optional_features", ()))
        faults = [f"{n} is missing" for n in wanted if n not in arrays]
        faults += [f"{n} is not a feature of this model" for n in arrays if n not in allowed]
        if faults:
            raise DataError(
                f"Features do not fit: {'; '.join(faults)}. It reads {', '.join(sorted(allowed))}."
            )
        check_features(arrays, self.network.vocab_sizes, negative_targets="inputs" not in wanted)
        if names is None:
            arrays = self.network.prepared(arrays)
        return {
            name: mtf.import_tf_tensor(
                self.mesh, array.astype(np.int32), Shape(zip(_AXES, array.shape, strict=True))
            )
            for name, array in arrays.items()
        }

    def _for_members(self, tensors: Tensors, mode: str) -> Tensors:
        """Features as they are or, where each member of an ensemble trains on its own, by member.

        [batch, length] becomes [ensemble, batch, length], the first rows for the first member.
        """
        members = self.settings.ensemble_inputs if mode == "train" else None
        return by_member(tensors, Dimension("ensemble", members)) if members else tensors

    @contextlib.contextmanager
    def using(self, table: Mapping[str, tf.Tensor], stream: RandomStream) -> Iterator[None]:
        """Around what runs layers: their bindings, the values of variables, random numbers."""
        with self.config.active(), self._store.serving(table), mtf.random_stream(stream):
            yield

    def compiled(self, key: Hashable, function: Callable[[Tensors], Any]) -> CompiledFunction:
        """A function of this model that is compiled once for each shape of its inputs.

        Args:
            key: what function it is; the first one of a key is kept.
            function: see `CompiledFunction`.
        """
        self.allocate()
        if key not in self._functions:
            self._functions[key] = CompiledFunction(self.mesh, function)
        return self._functions[key]

    def _call(self, tensors: Tensors, mode: str) -> dict[str, Any]:
        with self.using(self._store.read(), RandomStream((self.seed, 0))):
            read = self._for_members(tensors, mode)
            step = self._first_step(mode)
            output = self.network.call(read, mode, self.variable_dtype, step=step)
        return dict(vars(output))

    def _first_step(self, mode: str) -> Tensor | None:
        return mtf.constant(self.mesh, 0, dtype=tf.int32) if mode == "train" else None


def _by_name(features: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(features, Mapping):
        raise DataError(
            "Features are integer arrays by name, such as {'inputs': ids}; this is a "
            f"{type(features).__name__}."
        )
    return features


def _unpacked(features: Mapping[str, Any]) -> Mapping[str, Any]:
    packed = [name for name in _by_name(features) if name.endswith(("_segmentation", "_position"))]
    if packed:
        raise DataError(
            f"This takes one sequence a row, without packing, and was given {', '.join(packed)}. "
            "Leave them out, and the rows unpacked."
        )
    return features


def _checked_mode(mode: str) -> str:
    if mode not in ("train", "eval"):
        raise ConfigError(f'A model has no mode {mode!r}; take "train" or "eval".')
    return mode
