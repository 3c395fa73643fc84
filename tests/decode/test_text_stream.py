"""Text that comes an id at a time is told as soon as it is certain, and never taken back."""

import itertools

import pytest

from mtf_models.decode.text_stream import TextStream


def letters(ids):
    return bytes(ids).decode("utf-8", "replace")


def told(text, stop=()):
    stream = TextStream(letters, stop)
    pieces = []
    for byte in text.encode():
        pieces.append(stream.add(byte))
        if stream.stopped:
            break
    return [*pieces, stream.rest()], stream


def test_pieces_are_the_text():
    pieces, stream = told("abc")
    assert pieces == ["a", "b", "c", ""] and stream.text == "abc" and not stream.stopped


def test_a_character_comes_whole():
    pieces, _ = told("aé€😀")
    assert "".join(pieces) == "aé€😀"
    assert pieces == ["a", "", "é", "", "", "€", "", "", "", "😀", ""]


def test_a_stop_string_ends_the_text_and_is_no_part_of_it():
    pieces, stream = told("ab STOP cd", ["STOP"])
    assert "".join(pieces) == "ab " == stream.text and stream.stopped
    assert len(stream.ids) == len("ab STOP")


def test_what_may_begin_a_stop_string_is_held_back_and_told_later():
    assert told("xSTy", ["STOP"])[0] == ["x", "", "", "STy", ""]
    assert told("xST", ["STOP"])[0] == ["x", "", "", "ST"]


@pytest.mark.parametrize("stop", [["aba"], ["b", "ca"], ["aab", "abb"], ["c"]])
def test_every_short_text(stop):
    for word in map("".join, itertools.product("abc", repeat=5)):
        pieces, stream = told(word, stop)
        places = [word.find(s) for s in stop if s in word]
        # The first to be complete ends it, and the text ends where the first of those there begins.
        assert stream.stopped == bool(places)
        read = letters(stream.ids)
        right = min((read.find(s) for s in stop if s in read), default=len(read))
        assert "".join(pieces) == stream.text == read[:right]
