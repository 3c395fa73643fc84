"""Parameters of the models that ship, counted from their configs alone."""

import pytest

import mtf_models as mtf

# Of the released checkpoints.
COUNTS = {
    "t5.1.0.small": 60_506_624,
    "t5.1.0.base": 222_903_552,
    "t5.1.0.3B": 2_851_598_336,
    "t5.1.1.small": 76_961_152,
    "t5.1.1.base": 247_577_856,
    "gpt2.small": 124_439_808,
    "bert.base": 109_514_298,
    "mt5.small": 300_176_768,
    # mT5's, with 6,272 more rows in two tables and 14 more biases of 32 buckets and 6 heads.
    "umt5.small": 300_176_768 + 2 * 6272 * 512 + 14 * 32 * 6,
}


# Of the released checkpoints, with their vocabularies.
OTHER_VOCABULARIES = {
    "llama3.8b": (128_256, 8_030_261_248),
    "gemma2.2b": (256_000, 2_614_341_888),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHER_VOCABULARIES)
def test_counts_with_other_vocabularies(name):
    ids, parameters = OTHER_VOCABULARIES[name]
    model = mtf.build_model([f"models/{name}.gin"], [f"utils.run.vocabulary = ({ids}, {ids})"])
    assert model.parameters == parameters


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    model = mtf.build_model([f"models/{name}.gin"])
    assert model.parameters == COUNTS[name]
    assert not any(variable._held is not None for variable in model.variables.values())
