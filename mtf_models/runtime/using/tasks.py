"""What `mtf tasks` prints: the tasks that there are, what is in one; and training a vocabulary."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mtf_models.data.without_examples import without_examples
from mtf_models.errors import ConfigError, DataError
from mtf_models.runtime import registry
from mtf_models.runtime.bindings.text_task import columns_of, described, text_task
from mtf_models.runtime.folder.prepare import import_modules
from mtf_models.runtime.options import (
    ListTasksOptions,
    ShowTaskOptions,
    TasksOptions,
    TrainVocabularyOptions,
)

_TEXT_WIDTH = 100
_IDS = 16


def list_tasks(options: ListTasksOptions) -> None:
    """Prints the tasks and mixtures: ours, those of imported modules, and t5's.

    Raises:
        ConfigError: if a module cannot be imported.
    """
    from mtf_models.data.listing import listed
    from mtf_models.data.t5_tasks import register_t5
    from mtf_models.data.tasks import names

    theirs = register_t5()
    known = names()
    _register(options)
    groups = {
        "mtf_models": known - theirs,
        ", ".join(options.module_import): names() - known,
        "t5": theirs,
    }
    total = 0
    for origin, members in groups.items():
        if found := listed(members, options.text):
            total += len(found)
            width = max(len(one.name) for one in found)
            print(f"{origin}, {len(found)}:")
            for one in found:
                print(f"  {one.name:<{width}}  {one.reads}  [{', '.join(one.features)}]")
    matching = f" with {options.text!r}" if options.text else ""
    print(
        f"{total} tasks and mixtures{matching}. A file, or a dataset of TensorFlow Datasets, can "
        "be given in the place of a name."
    )


def show_task(options: ShowTaskOptions) -> None:
    """Prints examples of a task after each stage, and how long they are.

    Raises:
        DataError: if there is no such task or split, or it has no example.
    """
    from mtf_models.data import stages
    from mtf_models.data.histogram import write_histograms
    from mtf_models.data.lengths import lengths_of

    _register(options)
    task = _one_task(_named(options), options.split)
    limits = _limits(options.length, list(task.output_features))
    print(f"{task.name}, split {options.split}: {_size(task, options.split)}")
    raw = stages.raw(task, options.split).take(options.show)
    _print_stage("raw", raw.as_numpy_iterator())
    before = stages.preprocessed(task, options.split, limits).take(options.show)
    _print_stage("preprocessed", before.as_numpy_iterator())
    dataset = stages.tokenised(task, options.split, limits).take(options.num_examples)
    examples = list(dataset.as_numpy_iterator())
    if not examples:
        raise without_examples(options.split, [task.name])
    # What is not required may not be there.
    limits = {name: limit for name, limit in limits.items() if name in examples[0]}
    shown = [{name: example[name] for name in limits} for example in examples[: options.show]]
    _print_stage("tokenised", iter(shown))
    found = {
        name: lengths_of(name, examples, task.output_features[name].vocabulary, limit)
        for name, limit in limits.items()
    }
    rows, filled = stages.packed_rows(examples, limits)
    _print_packed(rows, filled, len(examples))
    for name, lengths in found.items():
        _print_lengths(name, lengths, 1 - filled[name])
    if options.png is not None:
        write_histograms(found, options.png)
        print(f"\nDrew the histograms into {options.png}.")


def train_vocabulary(options: TrainVocabularyOptions) -> None:
    """Trains a SentencePiece vocabulary on the texts of a task and writes it.

    Raises:
        DataError: if there is no such task or feature, or too few texts.
    """
    from mtf_models.data import stages
    from mtf_models.data.tasks import get_task_or_mixture
    from mtf_models.data.vocabularies import training

    if not options.output.endswith(".model"):
        raise ConfigError(f"--output={options.output}: a SentencePiece model is named FILE.model.")
    _register(options)
    task = _one_task(get_task_or_mixture(options.task), options.split)
    chosen = options.features.split(",") if options.features else list(task.output_features)
    dataset = stages.preprocessed(task, options.split, {})
    texts = [name for name in chosen if getattr(_spec(dataset, name), "dtype", None) == "string"]
    if not texts or (options.features and len(texts) < len(chosen)):
        raise DataError(
            f"The task {task.name} has no texts called {' or '.join(chosen)} before it is "
            f"tokenised: it has {', '.join(dataset.element_spec)}."
        )
    examples = itertools.islice(dataset.as_numpy_iterator(), options.num_examples)
    lines = (example[name].decode("utf-8") for example in examples for name in texts)
    size = training.train_vocabulary(lines, options.output, options.size, options.model_type)
    print(
        f"Wrote {size:,} pieces to {options.output}, trained on {' and '.join(texts)} of "
        f"{task.name}. Use it with --vocab={options.output}."
    )


def _spec(dataset: Any, name: str) -> Any:
    return dataset.element_spec.get(name)


def _register(options: TasksOptions) -> None:
    registry.register()
    import_modules(options.module_import)
    if options.data_dir is not None:
        from mtf_models.data.prepared import use_data_dir

        use_data_dir(options.data_dir)


def _named(options: ShowTaskOptions) -> Any:
    """The task that is asked for, described by flags if it is of a file or a dataset."""
    from mtf_models.data.tasks import get_task_or_mixture

    says = (options.columns, options.vocab, options.extra_ids, options.on_bad)
    if all(said is None for said in says):
        return get_task_or_mixture(options.task)
    features = tuple(
        columns_of(options.columns) or get_task_or_mixture(options.task).output_features
    )
    values = described(options, features)
    return get_task_or_mixture(text_task(**values)) if values else None


def _one_task(task: Any, split: str) -> Any:
    """The task, once it is sure that it is one and has the split and its data."""
    from mtf_models.data.tasks import tasks_with_split

    found = tasks_with_split(task.name, split)
    if [one.name for one in found] != [task.name]:
        names = ", ".join(one.name for one in found)
        raise DataError(f"{task.name} is a mixture: take one of its tasks {names}.")
    return found[0]


def _limits(text: str, features: Collection[str]) -> dict[str, int]:
    """Feature to the length of a row."""
    if text.isdecimal() and int(text):
        return dict.fromkeys(features, int(text))
    pairs = dict(part.partition(":")[::2] for part in text.split(","))
    if set(pairs) != set(features) or not all(n.isdecimal() and int(n) for n in pairs.values()):
        example = ",".join(f"{name}:128" for name in features)
        raise ConfigError(f'--length={text}: write a number from 1, or "{example}".')
    return {name: int(pairs[name]) for name in features}


def _size(task: Any, split: str) -> str:
    count = task.num_input_examples(split)
    return "the number of examples is not known" if count is None else f"{count:,} examples"


def _print_stage(stage: str, examples: Iterator[Mapping[str, Any]]) -> None:
    for number, example in enumerate(examples, start=1):
        print(f"\n{stage} {number}")
        for name, value in example.items():
            print(f"  {name}: {_value(value)}")


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        return repr(text if len(text) <= _TEXT_WIDTH else text[: _TEXT_WIDTH - 1] + "…")
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_value(inner)}' for name, inner in value.items())}}}"
    array = np.asarray(value)
    if array.ndim == 0:
        return str(array.item())
    items = [_value(item) if isinstance(item, bytes) else str(item) for item in array[:_IDS]]
    more = f" … {len(array)} in all" if len(array) > _IDS else ""
    return f"[{' '.join(items)}{more}]"


def _print_packed(
    rows: Mapping[str, np.ndarray], filled: Mapping[str, float], examples: int
) -> None:
    count = len(next(iter(rows.values())))
    print(f"\npacked: {examples:,} examples in {count:,} rows, {examples / count:.1f} to a row")
    for name in filled:
        row = rows[f"{name}_segmentation"][0]
        sizes = np.bincount(row[row > 0])[1:] if row.any() else []
        print(f"  {name} of the first row: {_sizes(sizes)} ids, {(row == 0).sum()} of padding")


def _sizes(sizes: Sequence[int]) -> str:
    more = f" + {len(sizes) - _IDS} more" if len(sizes) > _IDS else ""
    return " + ".join(str(size) for size in sizes[:_IDS]) + more if len(sizes) else "no"


def _print_lengths(name: str, lengths: Any, padding: float) -> None:
    from mtf_models.data.histogram import histogram_text

    sizes = lengths.sizes
    print(
        f"\n{name}: {sizes.min()} to {sizes.max()} ids, mean {sizes.mean():.1f}, median "
        f"{lengths.quantile(0.5)}, 95 % up to {lengths.quantile(0.95)}\n"
        f"  cut to {lengths.limit}: {lengths.cut:.1%} of examples, {lengths.lost:.1%} of ids\n"
        f"  padding: {padding:.1%} packed, {lengths.padding:.1%} one example to a row\n"
        f"  unknown: {lengths.unknown_ids:,} ids ({lengths.unknown_ids / sizes.sum():.2%})"
        f"{_characters(lengths.unknown_characters)}"
    )
    if lengths.beyond:
        print(f"  beyond the vocabulary: {lengths.beyond:,} ids, which training refuses")
    print(histogram_text(lengths))


def _characters(found: Mapping[str, int]) -> str:
    if not found:
        return ""
    first = ", ".join(f"{c!r} {n}" for c, n in itertools.islice(found.items(), _IDS))
    more = f" and {len(found) - _IDS} more" if len(found) > _IDS else ""
    return f"; characters that the vocabulary lacks: {first}{more}"
