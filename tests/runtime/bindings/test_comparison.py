"""What gin may say of a comparison."""

import pytest

from mtf_models.errors import ConfigError
from mtf_models.runtime.bindings.comparison import Comparison, folder_name

TWO = {"a": [], "b": ["d_ff = 8"]}


def test_folder_names_are_plain():
    assert [folder_name(n) for n in ("dense", "8 experts", "lr=1e-3, wide")] == [
        "dense",
        "8_experts",
        "lr_1e_3_wide",
    ]


@pytest.mark.parametrize(
    ("variants", "seeds", "words"),
    [
        ({}, [0], "two named lists or more"),
        ({"a": []}, [0], "two named lists or more"),
        ({"a": [], "b": "d_ff = 8"}, [0], "not a list of bindings"),
        ({"a": [], "b": [3]}, [0], "not a list of bindings"),
        ({"a b": [], "a_b": []}, [0], "different letters"),
        ({"a": [], "-": []}, [0], "different letters"),
        (TWO, [], "different whole numbers"),
        (TWO, [1, 1], "different whole numbers"),
        (TWO, [-1], "different whole numbers"),
        (TWO, 3, "different whole numbers"),
        (TWO, [True], "different whole numbers"),
    ],
)
def test_faults(variants, seeds, words):
    with pytest.raises(ConfigError, match=words):
        Comparison(variants, seeds)


def test_all_faults_come_at_once():
    with pytest.raises(ConfigError, match="two named lists.*different whole numbers"):
        Comparison({}, [])
