"""A language model that reads the inputs and writes the targets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.data.delimited import join
from mtf_models.mesh import Tensor
from mtf_models.transformer.prefix import delimited_inputs_mask
from mtf_models.transformer.unitransformer import Unitransformer


class DelimitedUnitransformer(Unitransformer):
    """An autoregressive stack over "inputs, EOS, targets, EOS" (model type "delimited_lm").

    It is bound as `Unitransformer`. In training the inputs are predicted too, unless
    `loss_on_targets_only`; outside of it only targets count, and only they are decoded.
    """

    feature_names = ("inputs", "targets")

    @property
    def longest_features(self) -> dict[str, int | None]:
        """See `Unitransformer.longest_features`; both share the positions."""
        half = self.longest and self.longest // 2
        return dict.fromkeys(self.feature_names, half)

    def lengths(self, sequence_length: Mapping[str, int]) -> dict[str, int]:
        """See `Unitransformer.lengths`."""
        return {"targets": sum(sequence_length[name] for name in self.feature_names)}

    def prepared(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Unitransformer.prepared`; rows are joined by `data.delimited.join`."""
        return join(features)

    def loss_weights(self, targets: Tensor, is_training: bool) -> Tensor:
        """See `Unitransformer.loss_weights`."""
        weights = super().loss_weights(targets, is_training)
        if is_training:
            return weights
        return weights * mtf.to_float(mtf.logical_not(delimited_inputs_mask(targets)))
