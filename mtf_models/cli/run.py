"""`mtf run`: old command lines of `t5_mesh_transformer`, whose flags it takes as they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from mtf_models.cli.arguments import not_negative, options_from, positive
from mtf_models.cli.start import start_tensorflow
from mtf_models.errors import ConfigError
from mtf_models.runtime.options import RunOptions

TPU_FLAGS = (
    "tpu",
    "tpu_job_name",
    "tpu_zone",
    "tpu_topology",
    "gcp_project",
    "model_parallelism",
    "logical_cores_per_chip",
    "fold_xy",
    "nofold_xy",
)
"""Flags that mean nothing without the TPUs of the original; `nofold_xy` is Abseil's "off"."""

MODES = ("train", "finetune", "eval", "predict", "score", "export_predict", "export_score")

_API_NUMBERS: dict[str, Callable[[str], Any]] = {
    "batch_size": positive,
    "input_sequence_length": positive,
    "target_sequence_length": positive,
    "train_steps": positive,
    "beam_size": positive,
    "temperature": float,
    "keep_top_k": int,
}
_API_TEXTS = {
    "eval_summary_dir": "where evaluations are written",
    "eval_split": f"the split to evaluate (default: {RunOptions.eval_split})",
    "input_file": "text file of inputs, one a line",
    "target_file": "text file of targets to score",
    "output_file": "what is written, without step or ending",
    "export_dir": "where to export to",
}
API_FLAGS = (
    "mode",
    "mixture_or_task",
    "pretrained_model_dir",
    "checkpoint_mode",
    "checkpoint_steps",
    *_API_NUMBERS,
    *_API_TEXTS,
)
"""Flags that say what to do in place of gin, with `use_model_api` only."""

_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    _add_config_arguments(parser)
    _add_api_arguments(parser)
    tpu = parser.add_argument_group("TPU flags, which are recognised and have no meaning here")
    for name in TPU_FLAGS:
        tpu.add_argument(f"--{name}", nargs="?", const="", metavar="...", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Does what the gin files or the flags say, and returns the exit status."""
    args.without_meaning = [name for name in TPU_FLAGS if hasattr(args, name)]
    options = options_from(args, RunOptions)
    check(options, [name for name in API_FLAGS if hasattr(args, name)])
    start_tensorflow()
    if options.use_model_api:
        from mtf_models.runtime.original import model_api as body
    else:
        from mtf_models.runtime.original import run as body
    body.run(options)
    return 0


def check(options: RunOptions, given: Sequence[str]) -> None:
    """Refuses combinations of flags that the original refuses, or would take no notice of.

    Args:
        options: of the command.
        given: those of `API_FLAGS` that are on the command line.

    Raises:
        ConfigError: if flags of `use_model_api` are given without it, it without `mode`, or the
            checkpoints asked for are not said.
    """
    if given and not options.use_model_api:
        flags = ", ".join(f"--{name}" for name in given)
        raise ConfigError(
            f"Without --use_model_api gin says what these flags say: {flags}. Add --use_model_api, "
            'or bind it: --gin_param="run.mode = \'eval\'", --gin_param="run.train_steps = 100", '
            "or a file such as --gin_file=eval.gin."
        )
    if options.use_model_api and not options.mode:
        raise ConfigError(f"--use_model_api needs --mode, one of {', '.join(MODES)}.")
    if (options.checkpoint_mode == "specific") != bool(options.checkpoint_steps):
        raise ConfigError(
            "--checkpoint_mode=specific and --checkpoint_steps=N,M belong together: give both or "
            "neither."
        )


def _add_config_arguments(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("run")
    run.add_argument(
        "--model_dir", metavar="DIR", help=f"the run folder (default: {RunOptions.model_dir})"
    )
    for name, what in {
        "gin_file": "gin file",
        "gin_param": "gin binding that overrides the files",
        "module_import": "Python module that registers tasks",
    }.items():
        run.add_argument(f"--{name}", action="append", metavar="...", help=f"{what} (repeatable)")
    for name, what in {
        "gin_location_prefix": "folders to look for gin files in",
        "additional_task_cache_dirs": "folders of cached tasks",
        "additional_deprecated_gin_references": "gin names to skip",
    }.items():
        run.add_argument(f"--{name}", action=_Listed, metavar="A,B", help=what)
    run.add_argument("--t5_tfds_data_dir", metavar="DIR", help="where datasets are kept")
    _add_switch(run, "skip_all_gin_unknowns", "skip every unknown gin name")


def _add_api_arguments(parser: argparse.ArgumentParser) -> None:
    api = parser.add_argument_group("with --use_model_api, instead of gin")
    _add_switch(api, "use_model_api", "let these flags say what to do")
    api.add_argument("--mode", choices=MODES, help="what to do")
    api.add_argument("--mixture_or_task", metavar="NAME", help="the task or mixture")
    api.add_argument("--pretrained_model_dir", metavar="DIR", help="what finetune begins with")
    api.add_argument("--checkpoint_mode", choices=["latest", "all", "specific"], help="which ones")
    api.add_argument(
        "--checkpoint_steps", action=_Listed, type=not_negative, metavar="N,M", help="the specific"
    )
    for name, kind in _API_NUMBERS.items():
        default = getattr(RunOptions, name)
        api.add_argument(f"--{name}", type=kind, metavar="N", help=f"default: {default}")
    for name, what in _API_TEXTS.items():
        api.add_argument(f"--{name}", metavar="...", help=what)


class _Listed(argparse.Action):
    """Commas between the items of a list, as Abseil reads them; given again, it goes on."""

    def __init__(self, *args: Any, type: Callable[[str], Any] = str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._kind = type

    def __call__(self, parser: Any, namespace: Any, values: Any, flag: Any = None) -> None:
        items = [item.strip() for item in values.split(",") if item.strip()]
        try:
            read = [self._kind(item) for item in items]
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), *read])


class _Switch(argparse.Action):
    """Abseil's truth values: --name, --noname, --name=false."""

    def __call__(self, parser: Any, namespace: Any, values: Any, flag: str = "") -> None:
        wanted = not flag.startswith(f"--no{self.dest}")
        if values is not None:
            if values.lower() not in _TRUTH:
                raise argparse.ArgumentError(self, f"{values!r} is neither true nor false")
            wanted = wanted == _TRUTH[values.lower()]
        setattr(namespace, self.dest, wanted)


def _add_switch(group: Any, name: str, what: str) -> None:
    group.add_argument(
        f"--{name}", f"--no{name}", dest=name, action=_Switch, nargs="?", metavar="BOOL", help=what
    )
