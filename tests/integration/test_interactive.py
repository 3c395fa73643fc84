"""`mtf infer --interactive`: through a pipe, and at a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import threading
import time

import pytest
from commands import HERE, REPOSITORY, mtf

LINES = ("n1", "n22", "", "n1", "n7 & n8")
DRAW = ("--temperature=1.0", "--seed=3")
ENDLESS = ("--gin_param=sample_autoregressive.never_end = True", "--max_decode_length=20000")


@pytest.fixture
def piped(trained, monkeypatch):
    """Runs the command with lines in a pipe."""

    def piped(content, *words):
        read, write = os.pipe()
        content = content if isinstance(content, bytes) else content.encode()
        # A pipe that is full waits for its reader.
        threading.Thread(target=_write_all, args=[write, content]).start()
        with os.fdopen(read) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            return mtf("infer", f"--model_dir={trained[0]}", "--interactive", *words)

    return piped


def _write_all(descriptor, content):
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(content)


@pytest.fixture
def of_file(trained, tmp_path):
    """What `mtf infer` makes of a file with the lines."""

    def of_file(*words):
        given, made = tmp_path / "in.txt", tmp_path / "out.jsonl"
        given.write_text("".join(f"{line}\n" for line in LINES))
        made.unlink(missing_ok=True)
        files = (f"--input={given}", f"--output={made}")
        assert mtf("infer", f"--model_dir={trained[0]}", *files, *words).status == 0
        return [json.loads(line) for line in made.read_text("utf-8").split("\n")[:-1]]

    return of_file


@pytest.mark.parametrize("words", [(), DRAW, ("--beam_size=2",)], ids=str)
def test_a_line_is_answered_as_in_a_file(piped, of_file, words):
    outcome = piped("".join(f"{line}\r\n" for line in LINES), *words)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == "".join(f"{row['prediction']}\n" for row in of_file(*words))


def test_options_are_set_between_lines(piped, of_file):
    talk = [":set beam_size 2", ":set num_return 2", LINES[0], ":set num_return", LINES[0], ":set"]
    outcome = piped("\n".join(talk))
    (row, *_) = of_file("--beam_size=2", "--num_return=2")
    both = [f"{s:.4f}\t{p}" for s, p in zip(row["scores"], row["predictions"], strict=True)]
    assert outcome.out.split("\n") == [*both, row["prediction"], ""]
    assert outcome.err.endswith("beam_size 2\n")


def test_several_sequences_are_drawn(piped, of_file):
    rows = of_file(*DRAW, "--num_return=2")
    outcome = piped(LINES[1], *DRAW, "--num_return=2")
    assert [line.split("\t")[1] for line in outcome.out.splitlines()] == rows[1]["predictions"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (":set temprature 1", "There is no option temprature; did you mean temperature"),
        (":set temperature much", "invalid float value: 'much'"),
        (":set temperature -1", "temperature=-1.0 is not a number from 0"),
        (":set beam_size 0", "'0' is not a whole number from 1"),
        (":set num_return 2", "would all be the same"),
        (":quti", "There is no command :quti; did you mean quit"),
        (b"n1\xff", "A line is not UTF-8: byte 0xff at 2"),
    ],
)
def test_a_line_that_does_not_fit_ends_a_pipe(piped, line, error):
    line = line if isinstance(line, bytes) else line.encode()
    outcome = piped(b"n1\n" + line + b"\nn1\n")
    assert outcome.status == 2 and error in outcome.err
    assert len(outcome.out.splitlines()) == 1


def test_commands_end_help_and_are_escaped(piped):
    assert piped(":quit\nn1\n").out == ""
    helped = piped(":help")
    assert helped.out == "" and ":set NAME VALUE" in helped.err
    assert piped("::help").out == piped("\n".join([":set seed", "::help"])).out


def test_a_long_line_is_cut_and_said(piped):
    outcome = piped("a" * 100_000)
    assert outcome.status == 0 and "has 100001 tokens and was cut to 8" in outcome.err


def test_flags_of_files_are_refused(piped, tmp_path):
    outcome = piped("", f"--input={tmp_path}/in.txt", f"--output={tmp_path}/out.jsonl")
    assert outcome.status == 2 and "leave out --input, --output" in outcome.err


class Terminal:
    """A terminal with the command in it."""

    def __init__(self, *words):
        self.side, own = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, HERE / "typed.py", *words],
            stdin=own,
            stdout=own,
            stderr=own,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{REPOSITORY}", "TERM": "dumb"},
        )
        os.close(own)

    def type(self, text):
        os.write(self.side, text.encode())

    def until(self, text, seconds=300):
        """What is shown up to a text."""
        shown, end = "", time.monotonic() + seconds
        while text not in shown:
            assert select.select([self.side], [], [], end - time.monotonic())[0], shown
            shown += os.read(self.side, 1).decode("utf-8", "replace")
        return shown


@pytest.mark.slow
def test_at_a_terminal(trained, of_file):
    model = f"--model_dir={trained[0]}"
    here = Terminal("infer", model, "--module_import=numbered_task", "--interactive", *ENDLESS)
    assert f"Step 20 of {trained[0]}" in here.until("> ")
    here.type(":set beam_size no\n")
    assert "mtf: error: " in here.until("\n> ")
    here.type("n1\n")
    here.until("n1\r\n")
    os.read(here.side, 1)  # The answer begins long before its end, which is not waited for.
    here.type("\x03")
    here.until("\n> ")
    time.sleep(1)  # Python misses a signal between showing a prompt and waiting for a key.
    here.type("\x03")
    here.until("\n> ")
    here.type("\x04")
    assert here.process.wait(timeout=600) == 0
