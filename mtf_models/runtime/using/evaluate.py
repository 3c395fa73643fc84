"""`mtf eval`: one checkpoint, several, or each as it comes, evaluated on a task or mixture."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mtf_models import installation, processes
from mtf_models.checkpoint import SLOTS
from mtf_models.checkpoint.restore import restore
from mtf_models.errors import failing_run
from mtf_models.processes.agreement import check_same
from mtf_models.runtime.bindings.settings import total_steps
from mtf_models.runtime.folder import prepare
from mtf_models.runtime.folder.metrics import METRICS_FILE, MetricsWriter
from mtf_models.runtime.folder.model_folder import ModelFolder, model_folder
from mtf_models.runtime.folder.vocabulary_record import task_for_use
from mtf_models.runtime.model.model import Model
from mtf_models.runtime.options import EvalOptions
from mtf_models.runtime.using.evaluation import SPLIT, Evaluation, Plan, evaluate
from mtf_models.runtime.using.trained import load_for_use
from mtf_models.runtime.whole_file import check_takes_files, write_text, writing


def run(options: EvalOptions) -> None:
    """Evaluates, prints the metrics, and adds them and all predictions to the run folder.

    With `output` they go to that folder instead, which is made if need be.

    Raises:
        MtfError: if the folder, a checkpoint, the task or the split cannot be used.
    """
    folder = model_folder(options.model_dir)
    results = folder.results() if options.output is None else Path(options.output)
    check_takes_files(results)
    plan = None
    found: dict[int, dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        for model, step in _models(options, folder):
            if plan is None:
                same = {"config": model.config.text(), "step": str(step)}
                check_same(processes.current(), {**same, "versions": str(installation.versions())})
                plan = _plan(model, folder, options)
                plan.tasks()
                stack.enter_context(failing_run())
                stack.enter_context(model.config.active())
                with writing(results):
                    results.mkdir(parents=True, exist_ok=True)
                writer = stack.enter_context(contextlib.closing(MetricsWriter(results)))
            for one in evaluate(model, plan):
                print(f"step {step}  {one.text()}", flush=True)
                writer.write(step, one.rows(), "eval")
                found.setdefault(step, {}).update(one.rows())
                _write_samples(results / f"{plan.split}_eval", step, one)
            writer.flush()
            if options.follow and step >= _last_step(model):
                break
    if len(found) > 1:
        print("\n".join(results_table(found)))
    print(f"Predictions are in {results / f'{plan.split}_eval'}.")
    print(f"Added to {results / METRICS_FILE}.")


def results_table(found: Mapping[int, Mapping[str, float]]) -> list[str]:
    """Lines of a table with a row for each step and a column for each metric.

    Args:
        found: step to metric to value.
    """
    names = list(dict.fromkeys(name for row in found.values() for name in row))
    cells = [["step", *names]]
    for step, row in sorted(found.items()):
        cells.append([str(step), *(f"{row[n]:.4g}" if n in row else "" for n in names)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in cells]


def _models(options: EvalOptions, folder: ModelFolder) -> Iterator[tuple[Model, int]]:
    """The model at each of the checkpoints, which are restored into one after another."""
    model = None
    for step in _steps(options, folder):
        if model is None:
            model, step = load_for_use(replace(options, step=step))
        else:
            source, partial = folder.checkpoint(step), options.allow_partial
            restore(source, model.variables, allow_left_over=SLOTS, allow_partial=partial)
        yield model, step


def _steps(options: EvalOptions, folder: ModelFolder) -> Iterator[int | None]:
    if not options.follow:
        return iter([options.step]) if options.steps is None else folder.steps(options.steps)
    coming = folder.steps(None, watches=True)
    print(
        f"Waiting for checkpoints in {folder.path} until the run's last one; Ctrl-C ends it.",
        flush=True,
    )
    return coming


def _plan(model: Model, folder: ModelFolder, options: EvalOptions) -> Plan:
    asked = prepare.evaluated_by(model.config, options.task)
    return Plan(
        task_for_use(folder, model.config, asked.name),
        options.split or SPLIT,
        options.num_examples or asked.num_examples,
        options=asked.options,
    )


def _last_step(model: Model) -> int:
    with model.config.active():
        return total_steps(model.mesh, model.settings)


def _write_samples(folder: Path, step: int, found: Evaluation) -> None:
    """Writes all examples; of several processes the first one does."""
    if not processes.current().leads:
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lines: Sequence[str] = [json.dumps(s.row(), ensure_ascii=False) for s in found.samples]
    write_text(folder / f"{found.task}_{step}.jsonl", "".join(f"{line}\n" for line in lines))
