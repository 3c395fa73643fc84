"""Conversions to and from Hugging Face's format, and transformers as their judge."""

import importlib.util
import subprocess
import sys

import pytest
from commands import mtf

ABSENT = [name for name in ("torch", "transformers") if not importlib.util.find_spec(name)]
needs_transformers = pytest.mark.skipif(bool(ABSENT), reason=f"not installed: {', '.join(ABSENT)}")


def run_peer(script, *words):
    """Runs a script that imports torch in a process of its own: TensorFlow is in this one."""
    words = [sys.executable, script, *words]
    process = subprocess.run(words, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]


def convert(source, output, *words):
    """Converts a folder, which must succeed."""
    outcome = mtf("convert", source, *words, f"--output={output}")
    assert outcome.status == 0, outcome.err
    return outcome
