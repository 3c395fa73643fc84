import pytest

from mtf_models.config.statements import Binding, Import, Include, Macro, Origin, Reference, read
from mtf_models.errors import ConfigError

TEXT = """\
# A comment.
import one.two as three
from one import two
include 'other.gin'

size = 3
encoder/layers.Dense.hidden = [@decoder/Dense, %size, 'a'
                               'b', {'k': (@make(), -1.5)}]
Attention:
  heads = 2  # In a group.
"""


def test_every_kind_of_statement_is_read_with_its_line():
    def at(line):
        return Origin("file.gin", line)

    value = [
        Reference("decoder/Dense", False),
        Macro("size"),
        "ab",
        {"k": (Reference("make", True), -1.5)},
    ]
    assert list(read(TEXT, "file.gin")) == [
        Import("one.two", at(2)),
        Import("one.two", at(3)),
        Include("other.gin", at(4)),
        Binding("", "size", "", 3, at(6)),
        Binding("encoder", "layers.Dense", "hidden", value, at(7)),
        Binding("", "Attention", "heads", 2, at(10)),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a.b = 1\na.c = [1,\n", "f.gin:"),
        ("a.b = 1\na.c = \n", "f.gin:2"),
        ("a.b = 1 2\n", "f.gin:1"),
        ("a.b = 'open\n", "f.gin:1"),
        ("\n'a' = 1\n", "f.gin:2"),
        ("a.b = nonsense\n", "f.gin:1"),
        ("a:\n  b = 1\n c = 1\n", "f.gin:3"),
    ],
)
def test_what_is_no_gin_is_refused_with_its_place(text, where):
    with pytest.raises(ConfigError) as error:
        list(read(text, "f.gin"))
    assert where in str(error.value)


def test_references_and_macros_are_written_as_they_are_read():
    assert repr(Reference("a/b.C", True)) == "@a/b.C()"
    assert repr(Reference("a/b.C", False).renamed("x.C")) == "@a/x.C"
    assert repr(Macro("a/b")) == "%a/b"
