"""Every class of vocabulary, as embedding and as head."""

import mtf_models as mtf
from layer_cases.case import B, Case, L, M, X, integers
from mtf_models.transformer.vocab import Vocab, VocabEmbedding
from mtf_models.transformer.vocab_adaptive import AdaptiveVocabEmbedding
from mtf_models.transformer.vocab_adaptive_softmax import AdaptiveSoftmaxVocabEmbedding
from mtf_models.transformer.vocab_factorized import FactorizedVocabEmbedding
from mtf_models.transformer.vocab_masked_lm import MaskedLMVocabEmbedding
from mtf_models.transformer.vocab_mixtape import Mixtape
from mtf_models.transformer.vocab_mixture import MixtureOfSoftmaxes

VOCAB = Vocab(mtf.Dimension("vocab", 16), classes=16, real=16)
CLUSTERS = [{"token_count": 8, "embedding_size": 8}, {"token_count": 8, "embedding_size": 4}]
# A head and a narrower tail, which half of the positions learn.
HEAD_AND_TAIL = [CLUSTERS[0], {**CLUSTERS[1], "length_projection_factor": 0.5}]


def vocabulary(cls, **kwargs):
    """The embeddings of ids, and the logits of `x`."""

    def function(x, ids):
        dtype = mtf.VariableDType(activation=x.dtype)
        made = cls(x.mesh, VOCAB, M, dtype, "embedding", **kwargs)
        return [made.ids_to_embedding(ids), made.hidden_to_logits(x)]

    return Case(cls, function, {"x": X, "ids": integers(16, B, L)})


CASES = [
    vocabulary(VocabEmbedding),
    vocabulary(FactorizedVocabEmbedding, inner_dimension_size=4),
    vocabulary(AdaptiveVocabEmbedding, clusters=CLUSTERS),
    vocabulary(AdaptiveSoftmaxVocabEmbedding, clusters=HEAD_AND_TAIL),
    vocabulary(MixtureOfSoftmaxes, num_softmaxes=2),
    vocabulary(MaskedLMVocabEmbedding),
    vocabulary(Mixtape, gate_embedding_size=4, frequent_token_fraction=0.5),
]
