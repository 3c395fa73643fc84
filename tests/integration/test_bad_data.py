"""Data that cannot be trained on, from the command line: refused before anything is written."""

import pytest
from commands import HERE, finish, mtf, start

GIVEN = (f"--gin_file={HERE / 'numbered.gin'}", "--module_import=odd_tasks", "--steps=2")

FILES = {
    "no example in it": (b"", ["pairs.tsv", "is empty"]),
    "empty lines alone": (b"\n\n", ["pairs.tsv"]),
    "no UTF-8": (b"a\tb\nc\t\xff\n", ["pairs.tsv:2: not UTF-8", "0xff"]),
    "too many fields": (b"a\tb\nc\td\te\n", ["pairs.tsv:2: expected 2 fields, found 3"]),
}


@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path, name):
    content, fragments = FILES[name]
    file, run = tmp_path / "pairs.tsv", tmp_path / "run"
    file.write_bytes(content)
    given = (f"--gin_file={HERE / 'numbered.gin'}", "--vocab=bytes", f"--train_file={file}")
    refused(mtf("train", *given, f"--model_dir={run}", "--steps=1"), run, fragments)


TASKS = {
    "odd_empty": ["'train' of odd_empty has no example"],
    "odd_aimless": ["odd_aimless has no targets", "it has inputs"],
    "odd_babel": ["odd_babel do not have the same vocabulary for inputs", "odd_letters: Byte"],
}


@pytest.mark.parametrize("name", TASKS)
def test_tasks(tmp_path, name):
    run = tmp_path / "run"
    words = (*GIVEN, f"--gin_param=MIXTURE_NAME = '{name}'", f"--model_dir={run}")
    refused(mtf("train", *words), run, TASKS[name])


def refused(outcome, run, fragments):
    assert outcome.status == 2, (outcome.status, outcome.out, outcome.err)
    assert "mtf: error: " in outcome.err
    for fragment in fragments:
        assert fragment in outcome.err, outcome.err
    assert "Traceback" not in outcome.err
    assert not run.exists()


def test_ids_beyond_the_vocabulary(tmp_path):
    run = tmp_path / "run"
    outcome = mtf("train", *GIVEN, "--gin_param=MIXTURE_NAME = 'odd_beyond'", f"--model_dir={run}")
    assert outcome.status == 1, outcome.err  # They are seen when their batch comes.
    assert "inputs has the id 9000" in outcome.err and "ids are 0 to 258" in outcome.err
    assert "encode with that one (`mtf tasks show`" in outcome.err
    assert not list(run.glob("model.ckpt-*"))


@pytest.mark.parametrize(
    ("policy", "status", "said"),
    [
        ("cut", 0, "inputs were cut to 8 tokens"),
        ("skip", 0, "examples of odd_long were longer than a row and left out"),
        ("refuse", 2, "of epoch 0 of odd_long has more than 8 inputs and more than 8 targets"),
    ],
)
def test_examples_that_are_too_long(tmp_path, policy, status, said):
    outcome = mtf(
        "train",
        *GIVEN,
        "--gin_param=MIXTURE_NAME = 'odd_long'",
        f"--gin_param=mesh_train_dataset_fn.long_examples = '{policy}'",
        f"--model_dir={tmp_path / 'run'}",
    )
    assert outcome.status == status, outcome.err
    assert said in (outcome.err if status else outcome.out)


@pytest.mark.slow
def test_a_module_that_takes_the_name_of_a_task(tmp_path):
    (tmp_path / "taken.py").write_text(
        "import seqio, odd_tasks\n"
        "long = seqio.TaskRegistry.get('odd_long')\n"
        "seqio.TaskRegistry.add_provider('kjv_web', long)\n"
    )
    words = ("train", *GIVEN, "--module_import=taken", f"--model_dir={tmp_path / 'run'}")
    outcome = finish(start(*words, cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{HERE}:{HERE.parents[2]}"))
    refused(outcome, tmp_path / "run", ["a task 'kjv_web'", "rename it"])
