"""docs/language.md: its examples run, and it leaves nothing out."""

import re

import pytest

from mtf_models import mesh as language
from mtf_models.mesh import glossary


@pytest.fixture(scope="module")
def guide(repository):
    return (repository / "docs" / "language.md").read_text("utf-8")


def test_the_examples_run(guide):
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, block[:60], "exec"), names)
    assert len(blocks) > 8


def test_every_public_name_is_in_it(guide):
    assert [name for name in language.__all__ if f"`{name}`" not in guide] == []


def test_the_glossary_is_whole(guide):
    for name, meaning in glossary.DIMENSIONS.items():
        assert f"| `{name}` | {meaning} |" in guide
    for name, meaning in glossary.AXES.items():
        assert f"`{name}` ({meaning})" in guide
