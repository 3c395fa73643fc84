"""The vocabulary of a masked language model: a layer and a bias of its own before the logits."""

from __future__ import annotations

import mtf_models.mesh as mtf
from mtf_models.configurable import configurable
from mtf_models.layers.activation import Activation
from mtf_models.layers.dense import dense
from mtf_models.layers.normalization import layer_norm
from mtf_models.mesh import Dimension, Mesh, Shape, Tensor, VariableDType, scopes
from mtf_models.mesh.initializers import zeros
from mtf_models.transformer.vocab import Vocab, VocabEmbedding


@configurable(module="mtf_models.transformer.vocab_masked_lm")
class MaskedLMVocabEmbedding(VocabEmbedding):
    """One table for ids and logits, which see a dense layer and a norm first, and have a bias.

    As BERT's head (Devlin et al. 2019, section 3.1). The variables are, beside the table,
    `<name>_transform/dense/kernel` and `bias`, the norm's in `<name>_transform`, and `<name>_bias`
    [vocab].

    Args:
        mesh: where they lie.
        vocab: the rows.
        output_dim: d_model.
        variable_dtype: dtypes of the variables.
        name: what their names begin with.
        scale_logits: whether the head's input is scaled by d_model^-½ too.
        activation: of the dense layer.
        epsilon: of the norm.
    """

    def __init__(
        self,
        mesh: Mesh,
        vocab: Vocab,
        output_dim: Dimension,
        variable_dtype: VariableDType,
        name: str,
        scale_logits: bool = False,
        activation: Activation = "gelu_exact",
        epsilon: float = 1e-12,
    ) -> None:
        super().__init__(mesh, vocab, output_dim, variable_dtype, name, scale_logits=scale_logits)
        self._variable_dtype = variable_dtype
        self._activation = activation
        self._epsilon = epsilon
        # Logits are computed where the scope of the stack is left.
        self._scope, self._stacked = scopes.full_name(f"{name}_transform"), scopes.stacked_dims()
        shape = Shape([vocab.dim])
        self._bias = mtf.get_variable(mesh, f"{name}_bias", shape, variable_dtype, zeros())

    def hidden_to_logits(self, hidden: Tensor, is_training: bool = False) -> Tensor:
        """[..., d_model] to [..., vocab]."""
        wide = Dimension("d_output", self.output_dim.size)
        with mtf.stacked_variables(self._stacked), scopes.entered(self._scope):
            x = dense(
                hidden, [wide], activation=self._activation, variable_dtype=self._variable_dtype
            )
            x = mtf.rename_dimension(x, wide.name, self.output_dim.name)
            x = layer_norm(x, self.output_dim, self._variable_dtype, self._epsilon)
        return super().hidden_to_logits(x, is_training) + self._bias
