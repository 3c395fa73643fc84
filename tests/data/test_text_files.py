"""Text files as users have them: of Windows, without a last line feed, in another encoding."""

import pytest

from mtf_models.data.text_files import lines
from mtf_models.errors import DataError


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"", []),
        (b"caf\xc3\xa9\n", ["caf\u00e9"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"one\x0bline\n", ["one\x0bline"]),
    ],
)
def test_lines(tmp_path, content, expected):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    assert lines(path) == expected


def test_lines_that_are_not_utf_8_are_listed(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"good\ncaf\xe9\ngood\n\xff\n")
    with pytest.raises(DataError, match="line 2 has the byte 0xe9, line 4 has the byte 0xff"):
        lines(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="none.txt cannot be read: No such file"):
        lines(tmp_path / "none.txt")
