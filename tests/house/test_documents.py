"""What the documents tell a reader to type is typed here, or by the continuous integration."""

import re
import shlex
import subprocess
import sys

import pytest

from mtf_models.cli.main import parse

BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SHELLS = {"bash", "console", "sh", "shell"}
MTF = ("mtf",)
FREE = (("cat",), ("cd",), ("echo",), ("export",), ("git", "clone"), ("head",), ("printf",))
FREE += (("python3", "-m", "venv"), ("source",), ("tensorboard",))


def blocks(repository, languages):
    documents = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    for document in sorted(documents):
        for match in BLOCK.finditer(document.read_text("utf-8")):
            if match[2] in languages:
                yield f"{document.name}: {match[3].strip()[:60]}", match[2], match[3]


def commands(repository):
    """The commands of all documents, each a list of words."""
    for _, language, text in blocks(repository, SHELLS):
        lines = text.replace("\\\n", " ").splitlines()
        if language == "console":
            lines = [line.strip()[2:] for line in lines if line.strip().startswith("$ ")]
        for line in lines:
            for command in re.split(r"&&|\|", line):
                words = shlex.split(command, comments=True)
                if words:
                    yield words


def test_the_documents_hold_commands(repository):
    assert ["pytest"] in list(commands(repository))
    assert any(words[0] == "mtf" for words in commands(repository))


def test_mtf_commands_parse(repository):
    for words in commands(repository):
        if words[0] == "mtf":
            try:
                parse([word for word in words[1:] if word not in (">", "&")])
            except SystemExit as end:
                assert end.code == 0, words


def test_other_commands_are_run_by_the_continuous_integration(repository):
    run = [
        shlex.split(line.strip(), comments=True)
        for line in (repository / ".ci" / "run").read_text("utf-8").splitlines()
        if not line.lstrip().startswith("#")
    ]
    run_by_ci = [words[: len(command)] for command in commands(repository) for words in run]
    unknown = [
        command
        for command in commands(repository)
        if not any(command[: len(free)] == [*free] for free in (MTF, *FREE))
        and command not in run_by_ci
    ]
    assert unknown == []


@pytest.mark.slow
def test_python_blocks_run(repository, tmp_path):
    texts = [text for name, _, text in blocks(repository, {"python"}) if "README" in name]
    program = "\n".join(texts)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)


def test_python_blocks_compile(repository):
    for name, _, text in blocks(repository, {"python"}):
        compile(text, name, "exec")
