"""A stack that shortens its sequence on the way, and the encoder-decoder around it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mtf_models.mesh as mtf
from mtf_models.configurable import REQUIRED, configurable
from mtf_models.errors import ConfigError, require_positive
from mtf_models.mesh import Tensor
from mtf_models.transformer.bitransformer import Bitransformer
from mtf_models.transformer.context import Context
from mtf_models.transformer.layer import TransformerLayer
from mtf_models.transformer.stack import LayerStack, Sublayer

_POOLS = {"mean": mtf.reduce_mean, "max": mtf.reduce_max, "min": mtf.reduce_min}


@configurable(module="mesh_tensorflow.transformer.funnel_transformer")
class FunnelTransformerLayerStack(LayerStack):
    """Blocks of layers; each but the first pools the sequence (Dai et al. 2020, section 2.2).

    A block has several sets of parameters, each used several times in a row, and each consisting
    of `n_submodules` layers. After the first layer of a block, what it gives is pooled: the layer
    still sees the whole sequence.

    Args:
        layers: as many as all sets of parameters need, in order.
        n_blocks: how many blocks.
        block_param_size: of each block, how many sets of parameters.
        block_repeat_size: of each block, how often each set is used.
        pooling_size: how many positions become one.
        sublayers_initial: see `LayerStack`.
        sublayers_per_layer: see `LayerStack`.
        sublayers_final: see `LayerStack`.
        pooling_type: "mean", "max" or "min".
        n_submodules: the layers of a set.

    Raises:
        ConfigError: if there are not as many layers, or the lists do not have an entry for each
            block, or another pooling is asked for.
    """

    def __init__(
        self,
        layers: Sequence[TransformerLayer],
        n_blocks: int = REQUIRED,
        block_param_size: Sequence[int] = REQUIRED,
        block_repeat_size: Sequence[int] = REQUIRED,
        pooling_size: int = 2,
        sublayers_initial: Sequence[Sublayer] | None = None,
        sublayers_per_layer: Sequence[Sublayer] | None = None,
        sublayers_final: Sequence[Sublayer] | None = None,
        pooling_type: str = "mean",
        n_submodules: int = 2,
    ) -> None:
        super().__init__(
            layers,
            sublayers_initial=sublayers_initial,
            sublayers_per_layer=sublayers_per_layer,
            sublayers_final=sublayers_final,
            dropout_rate=None,
            norm_epsilon=None,
        )
        self.pooling_size = pooling_size
        self.pooling_type = pooling_type
        self.repeats = list(block_repeat_size)
        _check(len(self.layers), n_blocks, block_param_size, self.repeats, n_submodules)
        if pooling_type not in _POOLS:
            raise ConfigError(
                f"FunnelTransformerLayerStack.pooling_type is {pooling_type!r}; it can be "
                f"{', '.join(_POOLS)}."
            )
        require_positive("FunnelTransformerLayerStack", pooling_size=pooling_size)
        self.blocks = _arranged(self.layers, block_param_size, n_submodules)

    def transform(self, context: Context, x: Tensor) -> Tensor:
        """See `LayerStack.transform`; the length of the context and of the output shrinks."""
        for block, (parameter_sets, repeats) in enumerate(
            zip(self.blocks, self.repeats, strict=True)
        ):
            pools = block > 0
            for submodules in parameter_sets:
                for layer in submodules * repeats:
                    x = self.call_layer(layer, context, x)
                    x = self._pooled(context, x) if pools else x
                    pools = False
        return x

    def _pooled(self, context: Context, x: Tensor) -> Tensor:
        length, size = context.length_dim, self.pooling_size
        if length.size % size:
            raise ConfigError(
                f"FunnelTransformerLayerStack pools {size} positions into one, which does not "
                f"divide {length}; make the sequence length a multiple of "
                f"{size ** (len(self.blocks) - 1)}."
            )
        context.shorten(size)
        return mtf.pool_tensor_1d(x, length, _POOLS[self.pooling_type], size)


@configurable(module="mesh_tensorflow.transformer.funnel_transformer")
class BitransformerFunnel(Bitransformer):
    """A `Bitransformer` whose encoder gives fewer positions than it reads."""


Block = list[list[TransformerLayer]]


def _arranged(
    layers: list[TransformerLayer], sets: Sequence[int], n_submodules: int
) -> list[Block]:
    """The layers of each set of parameters of each block, named by where they are."""
    rest, blocks = iter(layers), []
    for block, count in enumerate(sets):
        blocks.append([list(itertools.islice(rest, n_submodules)) for _ in range(count)])
        for index, submodules in enumerate(blocks[-1]):
            for number, layer in enumerate(submodules):
                layer.name = (
                    f"funnel_block_{block:03d}/param_idx_{index:03d}/submodule_{number:03d}"
                )
    return blocks


def _check(
    layers: int, n_blocks: int, sets: Sequence[int], repeats: Sequence[int], n_submodules: int
) -> None:
    faults = [
        f"{name} = {list(sizes)} has not one positive number for each of {n_blocks} blocks"
        for name, sizes in (("block_param_size", sets), ("block_repeat_size", repeats))
        if len(sizes) != n_blocks or min(sizes, default=0) < 1
    ]
    if not faults and layers != sum(sets) * n_submodules:
        faults.append(
            f"{sum(sets)} sets of {n_submodules} layers need {sum(sets) * n_submodules} layers and "
            f"there are {layers}: set make_layer_stack.num_layers times its layers to that"
        )
    if faults:
        raise ConfigError(f"FunnelTransformerLayerStack: {'; '.join(faults)}.")
