"""Lightweight and dynamic convolutions: filters that are normalised like attention weights."""

from __future__ import annotations

import abc
from typing import Any

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.layers.activation import Activation
from mtf_models.layers.convolution import separable_conv1d
from mtf_models.layers.dense import dense, dense_product
from mtf_models.layers.initialization import VarianceScalingInitializer
from mtf_models.mesh import Dimension, Shape, Tensor
from mtf_models.mesh.initializers import random_normal
from mtf_models.transformer.context import Context
from mtf_models.transformer.convolution import (
    SeparableConv1DLayer,
    as_d_model,
    check_causal,
    check_width,
    output_dim,
    over_positions,
)

_MODULE = "mesh_tensorflow.transformer.transformer_layers"


@configurable(module=_MODULE)
class Conv1DLocalAttn(SeparableConv1DLayer):
    """A separable convolution whose filters are a softmax over positions (Wu et al. 2019).

    Args:
        min_relative_pos: as for `SeparableConv1DLayer`, like what is not named here.
        max_relative_pos: as there.
        output_size: as there.
        depthwise_filter_initializer_scale: as there.
        pointwise_filter_initializer_scale: as there.
        activation: as there.
        num_unique_depth_filters: how many channels share a filter; despite its name, which is the
            original's, with 1 every channel has its own.

    Raises:
        ConfigError: as there, and if filters cannot be shared evenly.
    """

    def __init__(
        self,
        min_relative_pos: int,
        max_relative_pos: int,
        output_size: int,
        depthwise_filter_initializer_scale: float = 1.0,
        pointwise_filter_initializer_scale: float = 1.0,
        activation: Activation = "linear",
        num_unique_depth_filters: int = 1,
    ) -> None:
        super().__init__(
            min_relative_pos,
            max_relative_pos,
            output_size,
            depthwise_filter_initializer_scale,
            pointwise_filter_initializer_scale,
            activation,
        )
        require_positive(type(self).__name__, num_unique_depth_filters=num_unique_depth_filters)
        self.num_unique_depth_filters = num_unique_depth_filters

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        check_width(self, context)
        check_causal(self, context)
        y = over_positions(
            context,
            x,
            -self.min_relative_pos,
            lambda x, _: separable_conv1d(
                x,
                output_dim(context),
                self.min_relative_pos,
                self.max_relative_pos,
                pointwise_filter_initializer_scale=self.pointwise_scale,
                kernel_depth_weights=self._filters(context, x),
                variable_dtype=context.variable_dtype,
            ),
        )
        return self.activation(as_d_model(y))

    def _filters(self, context: Context, x: Tensor) -> list[Tensor]:
        """A filter [..., d_model] for each position."""
        each, count = x.shape.dims[-1].size, self.num_unique_depth_filters
        if each % count:
            raise ConfigError(
                f"{type(self).__name__}.num_unique_depth_filters is {count}, which does not divide "
                f"the {each} channels; take a divisor."
            )
        channels = Dimension("filter_channels", each // count)
        raw = [
            self._raw(context, x, channels, i)
            for i in range(self.max_relative_pos - self.min_relative_pos + 1)
        ]
        stacked = mtf.to_float(mtf.stack(raw, "filter"))
        softmax = mtf.softmax(stacked, stacked.shape.get_dim_by_name("filter"))
        filters = mtf.unstack(mtf.cast(softmax, x.dtype), Dimension("filter", len(raw)))
        return [
            mtf.rename_dimension(
                mtf.concat([f] * count, channels.name), channels.name, x.shape.dims[-1].name
            )
            for f in filters
        ]

    @abc.abstractmethod
    def _raw(self, context: Context, x: Tensor, channels: Dimension, number: int) -> Tensor:
        """One place of the filters before their softmax, [..., filter_channels]."""


@configurable(module=_MODULE)
class LightweightConv1DLocalAttn(Conv1DLocalAttn):
    """The filters are variables (Wu et al. 2019, section 3).

    Args:
        *args: as for `Conv1DLocalAttn`, whose gin bindings apply here too.
        **kwargs: alike.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def _raw(self, context: Context, x: Tensor, channels: Dimension, number: int) -> Tensor:
        with mtf.variable_scope(f"lightwt_depthwise_dense_{number}"):
            return mtf.get_variable(
                context.mesh,
                "kernel",
                Shape([channels]),
                context.variable_dtype,
                random_normal(self.depthwise_scale),
            )


@configurable(module=_MODULE)
class DynamicConv1DLocalAttn(Conv1DLocalAttn):
    """The filters are computed from each position (Wu et al. 2019, section 4).

    Args:
        *args: as for `Conv1DLocalAttn`, whose gin bindings apply here too.
        **kwargs: alike.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def _raw(self, context: Context, x: Tensor, channels: Dimension, number: int) -> Tensor:
        width = x.shape.dims[-1]
        return dense(
            x,
            [channels],
            reduced_dims=[width],
            use_bias=False,
            variable_dtype=context.variable_dtype,
            kernel_initializer=VarianceScalingInitializer(self.depthwise_scale)([width], []),
            name=f"dynamic_depthwise_dense_{number}",
        )


_CONVOLUTIONS = {
    "lightweight_conv": LightweightConv1DLocalAttn,
    "dynamic_conv": DynamicConv1DLocalAttn,
}


@configurable(module=_MODULE)
class LocalConvAttnBlock(SeparableConv1DLayer):
    """A gated linear unit, a local convolution and a projection (Wu et al. 2019, figure 2b).

    Args:
        min_relative_pos: as for `Conv1DLocalAttn`, like what is not named here.
        max_relative_pos: as there.
        output_size: as there.
        depthwise_filter_initializer_scale: as there.
        pointwise_filter_initializer_scale: as there.
        activation: of the convolution.
        num_unique_depth_filters: as there.
        attention_type: "lightweight_conv" or "dynamic_conv".

    Raises:
        ConfigError: as there, and for another attention_type.
    """

    def __init__(
        self,
        min_relative_pos: int,
        max_relative_pos: int,
        output_size: int,
        depthwise_filter_initializer_scale: float = 1.0,
        pointwise_filter_initializer_scale: float = 1.0,
        activation: Activation = "linear",
        num_unique_depth_filters: int = 1,
        attention_type: str = "lightweight_conv",
    ) -> None:
        if attention_type not in _CONVOLUTIONS:
            raise ConfigError(
                f"LocalConvAttnBlock.attention_type is {attention_type!r}; it can be "
                f"{' or '.join(map(repr, _CONVOLUTIONS))}."
            )
        self.convolution = _CONVOLUTIONS[attention_type](
            min_relative_pos,
            max_relative_pos,
            output_size,
            depthwise_filter_initializer_scale,
            pointwise_filter_initializer_scale,
            activation,
            num_unique_depth_filters,
        )

    def call(self, context: Context, x: Tensor) -> Tensor:
        """See `TransformerLayer.call`."""
        dtype, output = context.variable_dtype, output_dim(context)
        gated = dense_product(
            x,
            [output],
            ["linear", "sigmoid"],
            use_bias=True,
            variable_dtype=dtype,
            name="local_conv_inp",
        )
        y = self.convolution.call(context, context.masked(as_d_model(gated)))
        y = dense(y, [output], variable_dtype=dtype, name="local_conv_attn_op_projection")
        return as_d_model(y)
