"""The projections of attention: queries, keys and values, and the output."""

from __future__ import annotations

from dataclasses import dataclass

import mtf_models.mesh as mtf
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType
from mtf_models.mesh.initializers import Initializer, random_normal, unit_scaling_convention, zeros


@dataclass(frozen=True)
class AttentionProjections:
    """Maps d_model to heads and back, in variables q, k, v (or kv) and o of the current scope.

    Their biases are q_bias, k_bias, v_bias (or kv_bias) and o_bias.

    Attributes:
        mesh: where the variables live.
        d_model: the width of the residual stream.
        key_dim: the width of a head.
        num_heads: query heads; 1 has no dimension of its own.
        num_memory_heads: key and value heads: 0 for as many as query heads, 1 for one without a
            dimension (Shazeer 2019), n for n groups of query heads.
        variable_dtype: dtypes of the variables.
        shared_kv: whether keys and values are one projection.
        combine_dims: whether a variable has heads times key_dim in one dimension called heads.
        fold_scaling: whether q is initialised smaller by key_dim^-½, instead of scaled. Under the
            unit scaling convention all are scaled.
        use_bias: whether there are biases.
    """

    mesh: Mesh
    d_model: Dimension
    key_dim: Dimension
    num_heads: int
    num_memory_heads: int
    variable_dtype: VariableDType
    shared_kv: bool
    combine_dims: bool
    fold_scaling: bool
    use_bias: bool

    @property
    def memory_heads_dims(self) -> list[Dimension]:
        """The head dimensions of keys and values."""
        count = self.num_memory_heads or self.num_heads
        return [Dimension("heads", count)] if count > 1 else []

    @property
    def query_heads_dims(self) -> list[Dimension]:
        """The head dimensions of queries, logits and outputs."""
        if not self.num_memory_heads:
            return self.memory_heads_dims
        each = self.num_heads // self.num_memory_heads
        name = "query_heads" if self.num_memory_heads > 1 else "heads"
        return self.memory_heads_dims + ([Dimension(name, each)] if each > 1 else [])

    def query(self, x: Tensor) -> Tensor:
        """[..., d_model] to [..., heads, d_kv]."""
        stddev = self.d_model.size**-0.5
        if self.fold_scaling:
            stddev *= self.key_dim.size**-0.5
        q = self._project(x, "q", self.query_heads_dims, stddev)
        return q if self.fold_scaling else q * self.key_dim.size**-0.5

    def key(self, x: Tensor) -> Tensor:
        """[..., d_model] to [..., memory heads, d_kv]."""
        name = "kv" if self.shared_kv else "k"
        return self._project(x, name, self.memory_heads_dims, self.d_model.size**-0.5)

    def value(self, x: Tensor) -> Tensor:
        """[..., d_model] to [..., memory heads, d_kv]."""
        name = "kv" if self.shared_kv else "v"
        return self._project(x, name, self.memory_heads_dims, self.d_model.size**-0.5)

    def output(self, y: Tensor, keep_heads: bool = False) -> Tensor:
        """[..., heads, d_kv] to [..., d_model], or to [..., heads, d_model] if heads are kept."""
        inner = [*self.query_heads_dims, self.key_dim]
        stddev = Shape(inner).size ** -0.5
        o = self._variable("o", inner, stddev, d_model_first=False)
        summed = [self.key_dim] if keep_heads else inner
        y = mtf.einsum([y, o], y.shape - summed + self.d_model)
        return y + self._bias("o", [self.d_model]) if self.use_bias else y

    def _project(self, x: Tensor, name: str, heads: list[Dimension], stddev: float) -> Tensor:
        inner = [*heads, self.key_dim]
        w = self._variable(name, inner, stddev, d_model_first=True)
        y = mtf.einsum([x, w], x.shape - self.d_model + inner)
        return y + self._bias(name, inner) if self.use_bias else y

    def _bias(self, name: str, dims: list[Dimension]) -> Tensor:
        stored = [mtf.combined_dimension(dims)] if self.combine_dims and len(dims) > 1 else dims
        name = f"{self._name(name)}_bias"
        bias = mtf.get_variable(self.mesh, name, Shape(stored), self.variable_dtype, zeros())
        return mtf.replace_dimensions(bias, stored, dims)

    def _variable(
        self, name: str, inner: list[Dimension], stddev: float, d_model_first: bool
    ) -> Tensor:
        stored = [mtf.combined_dimension(inner)] if self.combine_dims else inner
        outer = [self.d_model]
        shape = Shape(outer + stored if d_model_first else stored + outer)
        unit = unit_scaling_convention()
        initializer = self._initializer(name, 1.0 if unit else stddev, inner)
        w = mtf.get_variable(self.mesh, self._name(name), shape, self.variable_dtype, initializer)
        w = w * stddev if unit else w
        return mtf.replace_dimensions(w, stored, inner)

    def _initializer(self, name: str, stddev: float, inner: list[Dimension]) -> Initializer:
        """Of the variable `name`, whose dimensions are d_model and `inner`."""
        return random_normal(stddev)

    def _name(self, name: str) -> str:
        return name
