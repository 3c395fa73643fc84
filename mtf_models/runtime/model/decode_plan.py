"""What a graph does to decode a batch, whatever its rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import tensorflow as tf

import mtf_models.mesh as mtf
from mtf_models.decode.options import DecodeOptions
from mtf_models.decode.prompts import Prompts
from mtf_models.decode.result import DecodeResult
from mtf_models.mesh import Dimension, RandomStream, Tensor
from mtf_models.mesh.scopes import without_gradients
from mtf_models.mesh.size import Size
from mtf_models.transformer.delimited import DelimitedUnitransformer

if TYPE_CHECKING:
    from mtf_models.runtime.model import Model


@dataclass(frozen=True)
class DecodePlan:
    """Decoding by a model, as far as it does not depend on the rows.

    Attributes:
        options: how ids are chosen.
        has_encoder: whether inputs are encoded; else they are prompts, which are continued.
        added: how many positions are decoded, those given to begin with counted, or added to
            those of prompts.
        max_steps: at most so many ids for each row, or None.
        rule: a row has at most so many ids for each id of its inputs, and so many more; or None.
    """

    options: DecodeOptions
    has_encoder: bool
    added: int
    max_steps: int | None = None
    rule: tuple[float, float] | None = None

    def positions(self, width: int | Size) -> int | Size:
        """How many positions a row has: decoded ones, and those of prompts.

        Args:
            width: how many the inputs have.
        """
        return self.added if self.has_encoder else width + self.added

    def run(self, model: Model, features: Mapping[str, Tensor]) -> DecodeResult:
        """Decodes, in a graph.

        Args:
            model: what decodes.
            features: "inputs" [batch, length]; of an encoder-decoder perhaps "targets"
                [batch, length] to begin with; where ids are drawn, "uniforms" [batch, beam,
                length], see `decode.sampling.SamplingLoop`.
        """
        rows = {**features, "limits": self._limits(features)}
        # DTensor cannot compile a gradient of one's own in a loop.
        with model.using(model.read(), RandomStream((model.seed, 0))), without_gradients():
            found = model.network.decode(rows, model.variable_dtype, self.added, self.options)
        if isinstance(model.network, DelimitedUnitransformer):
            return self._without_prompts(found, features["inputs"])
        return found

    def _limits(self, features: Mapping[str, Tensor]) -> Tensor:
        """[batch] int32, the position at which each row ends at the latest."""
        inputs = features["inputs"]
        counts = Prompts.of(inputs).lengths
        width = inputs.shape.get_dim_by_name("length").size
        limits = mtf.zeros_like(counts) + self.positions(width)
        if self.rule is not None:
            multiplier, constant = self.rule
            most = mtf.cast(counts, tf.float64) * multiplier + constant
            limits = mtf.minimum(limits, mtf.cast(most, limits.dtype))
        if self.max_steps is not None:
            given = counts if not self.has_encoder else mtf.zeros_like(counts)
            if "targets" in features:
                given = Prompts.of(features["targets"]).lengths
            limits = mtf.minimum(limits, given + self.max_steps)
        return limits

    def _without_prompts(self, found: DecodeResult, prompts: Tensor) -> DecodeResult:
        """The targets alone, of a model that reads inputs and targets in one row."""
        length, added = found.ids.shape.get_dim_by_name("length"), Dimension("added", self.added)
        begin = Prompts.of(prompts).lengths
        place = mtf.add(begin, mtf.mtf_range(begin.mesh, added), output_shape=begin.shape + added)
        ids = mtf.gather(found.ids, place, length, found.ids.shape - length + added)
        return replace(found, ids=mtf.rename_dimension(ids, added.name, length.name))
