"""The flags of `t5_mesh_transformer`, as Abseil reads them."""

import sys
from types import SimpleNamespace

import pytest

import mtf_models.runtime.original
from mtf_models.cli.main import main
from mtf_models.runtime.options import RunOptions

# Every flag of the original, with a value that is not the default.
FLAGS = {
    "model_dir": ("d", "d"),
    "gin_file": ("a.gin", ("a.gin",)),
    "gin_param": ("x = [1, 2]", ("x = [1, 2]",)),
    "gin_location_prefix": ("p,q", ("p", "q")),
    "module_import": ("m", ("m",)),
    "t5_tfds_data_dir": ("t", "t"),
    "additional_task_cache_dirs": ("c", ("c",)),
    "additional_deprecated_gin_references": ("A,B", ("A", "B")),
    "skip_all_gin_unknowns": ("true", True),
    "batch_size": ("8", 8),
    "input_sequence_length": ("9", 9),
    "target_sequence_length": ("10", 10),
    "train_steps": ("11", 11),
    "mixture_or_task": ("glue", "glue"),
    "pretrained_model_dir": ("pre", "pre"),
    "checkpoint_mode": ("specific", "specific"),
    "checkpoint_steps": ("1,2", (1, 2)),
    "eval_summary_dir": ("s", "s"),
    "eval_split": ("test", "test"),
    "input_file": ("i", "i"),
    "target_file": ("g", "g"),
    "output_file": ("o", "o"),
    "export_dir": ("e", "e"),
    "beam_size": ("4", 4),
    "temperature": ("0.5", 0.5),
    "keep_top_k": ("-1", -1),
}
TPU = {
    "tpu": "grpc://x",
    "tpu_job_name": "j",
    "tpu_zone": "z",
    "tpu_topology": "2x2",
    "gcp_project": "p",
    "model_parallelism": "8",
    "logical_cores_per_chip": "2",
}


@pytest.fixture
def received(monkeypatch):
    """What the two bodies of the command are given."""
    options = []
    body = SimpleNamespace(run=options.append)
    for name in ("run", "model_api"):
        monkeypatch.setitem(sys.modules, f"mtf_models.runtime.original.{name}", body)
        monkeypatch.setattr(mtf_models.runtime.original, name, body, raising=False)
    return options


@pytest.mark.parametrize("equals", [True, False])
def test_all_flags_are_taken(received, equals):
    words = ["--use_model_api", "--mode=predict", "--fold_xy", "--nofold_xy"]
    for name, text in {**{n: text for n, (text, _) in FLAGS.items()}, **TPU}.items():
        words += [f"--{name}={text}"] if equals else [f"--{name}", text]
    assert main(["run", *words]) == 0
    given = {name: value for name, (_, value) in FLAGS.items()}
    assert received == [
        RunOptions(
            use_model_api=True,
            mode="predict",
            without_meaning=(*TPU, "fold_xy", "nofold_xy"),
            **given,
        )
    ]


def test_defaults_are_the_originals(received):
    assert main(["run"]) == 0
    assert received == [RunOptions()]
    assert received[0].model_dir == "/tmp/transformer_standalone"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--skip_all_gin_unknowns"], True),
        (["--skip_all_gin_unknowns", "--noskip_all_gin_unknowns"], False),
        (["--skip_all_gin_unknowns=False"], False),
        (["--noskip_all_gin_unknowns=f"], True),
    ],
)
def test_truth_values(received, words, wanted):
    assert main(["run", *words]) == 0
    assert received[0].skip_all_gin_unknowns is wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--skip_all_gin_unknowns=perhaps"], "'perhaps' is neither true nor false"),
        (["--checkpoint_steps=1,x"], "'x' is not a whole number from 0"),
        (["--use_model_api", "--mode=guess"], "invalid choice: 'guess'"),
        (["--train_steps=0"], "'0' is not a whole number from 1"),
    ],
)
def test_values_are_checked(capsys, words, message):
    with pytest.raises(SystemExit) as end:
        main(["run", *words])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_flags_of_the_api_are_refused_without_it(received, capsys):
    """All of them at once, those with their default value too."""
    config = {"model_dir", "gin_file", "gin_param", "gin_location_prefix", "module_import"}
    config |= {"t5_tfds_data_dir", "additional_task_cache_dirs", "skip_all_gin_unknowns"}
    config |= {"additional_deprecated_gin_references"}
    words = [f"--{name}={text}" for name, (text, _) in FLAGS.items() if name not in config]
    assert main(["run", "--model_dir=d", *words, "--mode=eval"]) == 2
    message = capsys.readouterr().err
    assert "--use_model_api" in message
    for name in {*FLAGS, "mode"} - config:
        assert f"--{name}" in message
    for name in config:
        assert f"--{name}," not in message
    assert main(["run", "--nouse_model_api", "--batch_size=1"]) == 2
    assert "these flags say: --batch_size." in capsys.readouterr().err
    assert received == []
