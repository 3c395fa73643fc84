"""What the page on benchmarks shows is what the benchmarks wrote."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("train", "train_float32", "decode", "moe", "data", "startup")


def figures(name):
    return json.loads((DOCS / "benchmarks" / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_the_files(name):
    page = (DOCS / "benchmarks.md").read_text("utf-8").replace(",", "")
    found = figures(name)
    assert found["date"] in page
    keys = ("step_ms", "tokens_per_second", "layer_ms", "seconds")
    rows = [found, *found.get("runs", []), *(found.get("peers") or {}).values()]
    shown = [row[key] for row in rows for key in keys if key in row]
    assert shown
    assert [x for x in shown if not re.search(rf"\b{re.escape(f'{x}')}\b", page)] == []


def test_the_picture_is_drawn_from_the_files(tmp_path):
    drawn = tmp_path / "drawn.svg"
    subprocess.run([sys.executable, DOCS / "benchmarks" / "draw.py", drawn], check=True)
    for picture in (drawn, DOCS / "benchmarks" / "benchmarks.svg"):
        text = picture.read_text("utf-8")
        for row in (figures("train"), *figures("train")["peers"].values()):
            assert f"{row['tokens_per_second']:,}" in text
