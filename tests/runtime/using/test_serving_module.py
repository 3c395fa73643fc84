"""Signatures of every kind of model, against the model itself on ids that NumPy makes."""

import numpy as np
import pytest
import seqio
import tensorflow as tf

import mtf_models as mtf
from mtf_models.mesh import Mesh
from mtf_models.mesh.size import UnknownSizeError
from mtf_models.runtime.using.saved_model import plans_of
from mtf_models.runtime.using.serving_module import ServedText, ServingModule
from mtf_models.runtime.using.text_codec import codec_of

TINY = [
    *(f"{name} = {size}" for name, size in {"d_model": 32, "d_ff": 64, "num_heads": 4}.items()),
    "num_layers = 1",
    "d_kv = 8",
    "utils.run.vocabulary = (259, 259)",
    'utils.run.sequence_length = {"inputs": 12, "targets": 6}',
    'utils.get_variable_dtype.activation_dtype = "float32"',
]
KINDS = {
    "encoder-decoder": ("models/t5.1.1.small.gin", [], (1,)),
    "decoder-only": ("models/lm.small.gin", [], ()),
    "delimited": ("models/lm.small.gin", ['utils.run.model_type = "delimited_lm"'], (1,)),
    "experts": (
        "models/switch.base.8.gin",
        ['utils.run.batch_size = ("sequences_per_batch", 2)'],
        (1,),
    ),
}
TEXTS = ["a", "bcd", "", "0123456789abcdef", "xyz"]
LONGEST = 12
SLOW = ("encoder-decoder", "delimited")


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=pytest.mark.nightly if k in SLOW else ()) for k in KINDS],
)
def served(request):
    """A model, its ends of inputs, a function that makes a module of it, and how it decodes."""
    gin, params, end = KINDS[request.param]
    model = mtf.build_model([gin], gin_params=TINY + params, mesh=Mesh.unplaced(), seed=1)
    codec = codec_of(seqio.ByteVocabulary())
    texts = {"inputs": ServedText(codec, end, LONGEST), "targets": ServedText(codec, (1,), 6)}
    fixed = 2 if request.param == "experts" else None
    with model.config.active():
        asked = {"num_return": 2, "beam_size": 3, "top_k": 1}
        yield (
            model,
            end,
            lambda rows=fixed: ServingModule(model, texts, rows),
            plans_of(model, asked),
        )


def ids_of(texts, end, delimited=False):
    rows = np.zeros([len(texts), LONGEST], np.int32)
    for row, text in zip(rows, texts, strict=True):
        ids = [*(byte + 3 for byte in text.encode()), *end][:LONGEST]
        row[: len(ids)] = [*ids[:-1], 1] if delimited else ids
    return rows


def texts_of(ids):
    vocabulary = seqio.ByteVocabulary()
    return [vocabulary.decode(np.trim_zeros(row, "b").tolist()) for row in ids]


def test_it_decodes_as_the_model_does(served):
    model, end, make, plans = served
    module = make()
    inputs = ids_of(TEXTS, end, delimited=model.settings.model_type == "delimited_lm")
    chunks = [inputs] if module._fixed_rows is None else [inputs[:2], inputs[2:4], inputs[[4, 4]]]
    ways = {"greedy": {}, "beam": {"beam_size": 3, "num_return": 2, "stop_early": False}}
    for way, options in ways.items():
        found = module.predicting(plans[way])(tf.constant(TEXTS))
        expected = [model.decode({"inputs": x}, **options) for x in chunks]
        ids = np.concatenate([x.ids.numpy() for x in expected])[: len(TEXTS)]
        scores = np.concatenate([x.scores.numpy() for x in expected])[: len(TEXTS)]
        texts = [x.decode() for x in found["outputs"].numpy().reshape(-1)]
        assert texts == texts_of(ids.reshape([-1, ids.shape[-1]]))
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-4, atol=1e-5)
        assert found["trimmed"].numpy().tolist() == [0, 0, 0, 4 + len(end), 0]


def test_the_likeliest_id_alone_is_drawn_where_one_is_left(served):
    _, _, make, plans = served
    module = make()
    drawn = module.predicting(plans["sample"], seeded=True)
    found = drawn(tf.constant(TEXTS), tf.constant(7, tf.int64))["outputs"].numpy()
    greedy = module.predicting(plans["greedy"])(tf.constant(TEXTS))["outputs"].numpy()
    assert found.tolist() == np.stack([greedy, greedy], 1).tolist()


def test_it_scores_as_the_model_does(served):
    model, end, make, _ = served
    targets = ["1", "22", "", "éa", "123456789"]
    rows = np.zeros([5, 6], np.int32)
    for row, text in zip(rows, targets, strict=True):
        ids = [*(byte + 3 for byte in text.encode()), 1][:6]
        row[: len(ids)] = ids
    features = {"inputs": ids_of(TEXTS, end), "targets": rows}
    names = model.network.feature_names
    given = {"inputs": tf.constant(TEXTS), "targets": tf.constant(targets)}
    module = make()
    found = module.scoring()(*(given[name] for name in names))["scores"].numpy()
    chunks = [range(5)] if module._fixed_rows is None else [[0, 1], [2, 3], [4, 4]]
    expected = [model.score({n: features[n][[*c]] for n in names}).numpy() for c in chunks]
    np.testing.assert_allclose(found, np.concatenate(expected)[:5], rtol=1e-4)


@pytest.mark.parametrize("served", ["experts"], indirect=True)
def test_what_needs_fixed_sizes_says_so(served):
    _, _, make, plans = served
    with pytest.raises(UnknownSizeError, match="needs a fixed size"):
        make(None).predicting(plans["greedy"])


def test_control_of_repetition_is_for_the_ways_that_have_it():
    model = mtf.build_model(["models/lm.small.gin"], TINY, mesh=Mesh.unplaced())
    plans = plans_of(model, {"repetition_penalty": 1.5, "no_repeat_ngram": 2})
    found = {n: (p.options.repetition_penalty, p.options.no_repeat_ngram) for n, p in plans.items()}
    assert found == {"greedy": (1.5, 2), "beam": (1.0, 2), "sample": (1.5, 2)}


def test_each_way_has_the_options_that_are_its_own():
    model = mtf.build_model(["models/lm.small.gin"], TINY, mesh=Mesh.unplaced())
    beam = {"beam_size": 3, "alpha": 0.9, "num_return": 2}
    drawn = {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "num_return": 2}
    plans = plans_of(model, beam | drawn)
    found = {name: vars(plan.options) for name, plan in plans.items()}
    assert beam.items() <= found["beam"].items() and drawn.items() <= found["sample"].items()
    assert [found["greedy"][n] for n in ("beam_size", "temperature", "num_return")] == [1, 0.0, 1]
    plain = {name: vars(plan.options) for name, plan in plans_of(model, {}).items()}
    assert [plain["beam"][n] for n in ("beam_size", "alpha", "num_return")] == [4, 0.6, 1]
    assert plain["sample"]["temperature"] == 1.0
