import argparse
import importlib
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest

from mtf_models import errors
from mtf_models.cli.arguments import options_from
from mtf_models.cli.main import COMMANDS, build_parsers, main, parse
from mtf_models.runtime import options

OPTIONS = {
    "train": options.TrainOptions,
    "eval": options.EvalOptions,
    "infer": options.InferOptions,
    "export": options.ExportOptions,
    "inspect": options.InspectOptions,
    "bench": options.BenchOptions,
}
BODIES = {
    "train": "training.train",
    "eval": "using.evaluate",
    "infer": "using.infer",
    "export": "using.export",
    "inspect": "folder.inspect",
    "bench": "benchmarks.bench",
}
REQUIRED = {
    "train": ["--model_dir=m"],
    "eval": ["--model_dir=m"],
    "infer": ["--model_dir=m", "--input=i", "--output=o"],
    "export": ["--model_dir=m", "--output=o"],
    "inspect": ["some/folder"],
    "bench": ["train"],
}


def refusal(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def body(monkeypatch):
    """Puts a function in the place of what a command does."""

    def replace(name, run):
        module = SimpleNamespace(run=run)
        package, _, own = f"mtf_models.runtime.{name}".rpartition(".")
        monkeypatch.setitem(sys.modules, f"{package}.{own}", module)
        monkeypatch.setattr(importlib.import_module(package), own, module, raising=False)

    return replace


def test_unknown_flags_are_all_named_with_the_nearest(capsys):
    message = refusal(capsys, "train", "--modle_dir=x", "--stpes", "3")
    assert "unknown flag --modle_dir; did you mean --model_dir" in message
    assert "unknown flag --stpes; did you mean --steps" in message
    assert "Traceback" not in message


def test_unknown_command_is_named_with_the_nearest(capsys):
    assert "'trian'; did you mean train?" in refusal(capsys, "trian", "--model_dir=x")


def test_no_command_is_a_usage_error(capsys):
    assert "COMMAND" in refusal(capsys)


def test_flags_are_not_abbreviated(capsys):
    assert "unknown flag --step; did you mean --steps" in refusal(
        capsys, "train", "--model_dir=x", "--step=3"
    )


def test_missing_flags_are_named(capsys):
    assert "--model_dir, --output" in refusal(capsys, "export", "--step=1")


@pytest.mark.parametrize(
    "words", [["--steps=0"], ["--steps=x"], ["--batch_size=-1"], ["--seed=.5"]]
)
def test_numbers_are_checked(capsys, words):
    assert "is not a whole number from" in refusal(capsys, "train", "--model_dir=x", *words)


def test_resume_and_overwrite_exclude_each_other(capsys):
    message = refusal(capsys, "train", "--model_dir=x", "--resume", "--overwrite")
    assert "not allowed with" in message


def test_both_spellings_of_a_flag():
    args = parse(["train", "--model-dir=a-b", "--strict-mesh", "--gin_param", "x = 'a-b'"])
    assert options_from(args, options.TrainOptions) == options.TrainOptions(
        model_dir="a-b", strict_mesh=True, gin_param=("x = 'a-b'",)
    )


def test_repeatable_flags_keep_their_order():
    args = parse(["bench", "train", "--gin_file=b", "--gin_file=a", "--steps=1_000"])
    made = options_from(args, options.BenchOptions)
    assert made == options.BenchOptions(benchmark="train", gin_file=("b", "a"), steps=1000)


@pytest.mark.parametrize("command", OPTIONS)
def test_each_argument_is_an_option_and_each_option_an_argument(command):
    _, parser = build_parsers(command)
    declared = {action.dest for action in parser._actions} - {"help", "debug"}
    assert declared == {field.name for field in fields(OPTIONS[command])}


@pytest.mark.parametrize("command", OPTIONS)
def test_a_command_hands_its_options_to_its_body(command, body):
    received = []
    body(BODIES[command], received.append)
    assert main([command, *REQUIRED[command], "--mesh=batch:2"]) == 0
    assert isinstance(received[0], OPTIONS[command])
    assert received[0].mesh == "batch:2"


def test_a_run_that_begins_with_another_lies_beside_it(capsys, body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    received = []
    body(BODIES["train"], received.append)
    (tmp_path / "runs" / "big").mkdir(parents=True)
    for path in ("runs/big", "runs/big/", "runs/big/model.ckpt-5"):
        assert main(["train", f"--init_from={path}", "--task=glue", "--steps=3"]) == 0
    assert {options.model_dir for options in received} == {str(tmp_path / "runs" / "big-glue")}
    assert main(["train", "--steps=3"]) == 2
    assert "--model_dir is required" in capsys.readouterr().err


def test_inspect_takes_a_path_or_none():
    given = parse(["inspect", "some/folder"])
    assert options_from(given, options.InspectOptions).path == "some/folder"
    given = parse(["inspect", "--gin_file=a.gin"])
    assert options_from(given, options.InspectOptions).path is None


def failing_with(error):
    def run(_):
        raise error

    return run


def failing_in_a_run(error):
    def run(_):
        with errors.failing_run():
            raise error

    return run


@pytest.mark.parametrize(
    ("run", "status", "message"),
    [
        (failing_with(errors.ConfigError("No file a.gin.")), 2, "No file a.gin."),
        (failing_in_a_run(errors.CheckpointError("Disk full.")), 1, "Disk full."),
        (
            failing_with(FileNotFoundError(2, "No such file or directory", "w.txt")),
            1,
            "No such file or directory: w.txt",
        ),
        (failing_with(KeyError("odd\nlines")), 1, "KeyError"),
        (failing_with(KeyboardInterrupt()), 130, "interrupted"),
    ],
)
def test_what_ends_a_command(capsys, body, run, status, message):
    body(BODIES["inspect"], run)
    assert main(["inspect", "x"]) == status
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown

    assert main(["inspect", "x", "--debug"]) == status
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    program = (
        "import sys; from mtf_models.cli.failure import report\n"
        "try:\n"
        "    print('x' * 1_000_000)\n"
        "except BrokenPipeError as error:\n"
        "    sys.exit(report(error))"
    )
    process = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" | true; exit ${PIPESTATUS[0]}', sys.executable, program],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    assert process.stderr == ""


def test_every_command_declares_arguments():
    for command in COMMANDS:
        _, parser = build_parsers(command)
        assert isinstance(parser, argparse.ArgumentParser)
        assert callable(parser.get_default("run"))
