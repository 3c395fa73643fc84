"""What a command is asked to do: one frozen class for each command. Free of TensorFlow.

None stands for "as the config or the run folder says".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """What every command that reads a config can be told.

    Attributes:
        gin_file: gin files, later ones overriding earlier ones.
        gin_param: single gin bindings, applied after the files.
        mesh: the mesh, such as "batch:2;model:4".
        layout: the layout rules, such as "batch:batch,d_ff:model".
        gin_location_prefix: folders in which gin files are looked for, after the working directory.
        module_import: modules to import before the gin files are read.
        strict: whether weights that no layout rule splits are an error.
    """

    gin_file: tuple[str, ...] = ()
    gin_param: tuple[str, ...] = ()
    mesh: str | None = None
    layout: str | None = None
    gin_location_prefix: tuple[str, ...] = ()
    module_import: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelOptions(ConfigOptions):
    """What every command on a run folder can be told.

    Attributes:
        model_dir: the run folder; where a model is used, also a checkpoint in it, or a folder of
            Hugging Face's.
        batch_size: sequences in a batch.
        data_dir: where prepared data are kept.
        allow_partial: whether variables may be in the model or in the checkpoint only.
    """

    model_dir: str
    batch_size: int | None = None
    data_dir: str | None = None
    allow_partial: bool = False


@dataclass(frozen=True, kw_only=True)
class TextTaskOptions:
    """What is said of a task that is made of files or of a dataset.

    Attributes:
        task: a task or mixture; or a file, or a dataset of TensorFlow Datasets.
        train_file: instead, files to train on, or globs.
        eval_file: files to evaluate on.
        columns: feature to column, as "inputs=question,targets=2".
        vocab: the vocabulary, or those of inputs and targets with a comma between.
        extra_ids: sentinels at the end of each vocabulary.
        metrics: with commas between.
        on_bad: "error" or "skip", for lines that do not fit.
    """

    task: str | None = None
    train_file: tuple[str, ...] = ()
    eval_file: tuple[str, ...] = ()
    columns: str | None = None
    vocab: str | None = None
    extra_ids: int | None = None
    metrics: str | None = None
    on_bad: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrainOptions(ModelOptions, TextTaskOptions):
    """What `mtf train` is asked to do.

    Attributes:
        model_dir: the run folder, made if it is not there.
        seed: of initial values, data order and dropout.
        pad_vocab: whether the vocabulary is padded until it divides over its mesh axis.
        steps: the step at which training ends; with `init_from` how many steps are made from there.
        init_from: a run folder, a checkpoint, or a folder of Hugging Face's, whose values the run
            begins with.
        init_step: which checkpoint of that folder; None for the latest.
        init_steps: "checkpoint" counts steps, the schedule's too, on from there; "zero" from 0.
        init_optimizer: "keep" takes the optimizer's slots from there too, "fresh" does not; None
            keeps them if they are there.
        resume: whether to go on with the run that is in the folder, under its own config.
        overwrite: whether to delete the run that is in the folder.
        strict_mesh: whether a mesh other than the recorded one is an error.
        eval_every: steps between evaluations; 0 for the one at the end alone.
        save_every: steps between checkpoints.
        keep: how many of the latest checkpoints are kept.
        keep_best: "task/metric", by which the best checkpoint is kept too.
    """

    pad_vocab: bool = False
    seed: int | None = None
    steps: int | None = None
    init_from: str | None = None
    init_step: int | None = None
    init_steps: str | None = None
    init_optimizer: str | None = None
    resume: bool = False
    overwrite: bool = False
    strict_mesh: bool = False
    eval_every: int | None = None
    save_every: int | None = None
    keep: int | None = None
    keep_best: str | None = None


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """What every action of `mtf tasks` can be told.

    Attributes:
        module_import: modules that register tasks.
        data_dir: where prepared data are kept.
    """

    module_import: tuple[str, ...] = ()
    data_dir: str | None = None


@dataclass(frozen=True, kw_only=True)
class ListTasksOptions(TasksOptions):
    """What `mtf tasks list` is asked to do.

    Attributes:
        text: what the name of a task, or what it reads, must have.
    """

    text: str = ""


@dataclass(frozen=True, kw_only=True)
class ShowTaskOptions(TasksOptions, TextTaskOptions):
    """What `mtf tasks show` is asked to do.

    Attributes:
        task: what to show.
        split: of the task.
        length: feature to the length of a row, as "inputs:128,targets:64", or one for all.
        num_examples: how many examples are measured.
        show: how many of them are printed.
        png: a picture of the histograms to write.
    """

    split: str = "train"
    length: str = "512"
    num_examples: int = 1000
    show: int = 2
    png: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrainVocabularyOptions(TasksOptions):
    """What `mtf tasks train-vocab` is asked to do.

    Attributes:
        task: whose texts it is trained on, or a file or dataset.
        output: the file to write.
        size: how many pieces it is to have.
        model_type: of SentencePiece.
        split: of the task.
        features: those whose texts are taken, with commas between; None for all.
        num_examples: at most so many examples; None for all.
    """

    task: str
    output: str
    size: int = 8000
    model_type: str = "unigram"
    split: str = "train"
    features: str | None = None
    num_examples: int | None = None


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ModelOptions):
    """What `mtf eval` is asked to do.

    Attributes:
        model_dir: the run folder.
        task: the task or mixture; None for the config's.
        step: the checkpoint; None for the latest.
        steps: several checkpoints, or "all" for all there are.
        follow: whether each checkpoint is evaluated as it comes, until the run's last one.
        output: the folder that metrics and predictions go to; None for the run folder.
        split: the split of the dataset.
        num_examples: at most so many examples of each task; None for all.
    """

    task: str | None = None
    step: int | None = None
    steps: tuple[int, ...] | str | None = None
    follow: bool = False
    output: str | None = None
    split: str | None = None
    num_examples: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExampleOptions(ModelOptions):
    """What every command on a trained model and examples of one's own can be told.

    Attributes:
        input: a file of examples; its ending says of what kind.
        task: instead, a task whose split is read.
        split: the split of that task.
        num_examples: at most so many examples of the split; None for all.
        step: the checkpoint; None for the latest.
    """

    input: str | None = None
    task: str | None = None
    split: str | None = None
    num_examples: int | None = None
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How a command decodes.

    Attributes:
        max_decode_length: at most so many tokens for each input.
        beam_size: see `Model.decode`, as for those that follow.
        alpha: of the length penalty.
        temperature: above 0, to draw.
        top_k: draw among so many.
        top_p: draw among those of this probability.
        num_return: sequences for each input.
        repetition_penalty: of tokens that are there already.
        no_repeat_ngram: no run of so many tokens comes twice.
    """

    max_decode_length: int | None = None
    beam_size: int | None = None
    alpha: float | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    num_return: int | None = None
    repetition_penalty: float | None = None
    no_repeat_ngram: int | None = None


@dataclass(frozen=True, kw_only=True)
class InferOptions(DecodingOptions, ExampleOptions):
    """What `mtf infer` is asked to do.

    Attributes:
        output: the JSON lines file to write.
        interactive: whether inputs are typed instead, a line each.
        seed: of what is drawn.
        prefix: a text that each prediction of an encoder-decoder begins with.
        stop: texts that end a prediction, and are no part of it.
    """

    output: str | None = None
    interactive: bool = False
    seed: int | None = None
    prefix: str | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExportOptions(DecodingOptions, ModelOptions):
    """What `mtf export` is asked to do.

    Attributes:
        output: the folder to write.
        task: the task whose vocabularies encode and decode; None for the config's.
        step: the checkpoint; None for the latest.
    """

    output: str
    task: str | None = None
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ExampleOptions):
    """What `mtf score` is asked to do.

    Attributes:
        output: the JSON lines file to write; None for the standard output.
    """

    output: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ModelOptions):
    """What `mtf serve` is asked to do.

    Attributes:
        task: whose vocabularies are used; None for the config's.
        step: the checkpoint; None for the latest.
        host: the address to listen at.
        port: the port there; 0 for any that is free.
        max_batch: at most so many requests are computed together.
        max_queue: at most so many requests wait.
        max_tokens: at most so many tokens are decoded for a request; None for as many as the
            model's targets have.
    """

    task: str | None = None
    step: int | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    max_batch: int = 8
    max_queue: int = 256
    max_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class BenchOptions(ConfigOptions):
    """What `mtf bench` is asked to do.

    Attributes:
        benchmark: the name of what is measured.
        pad_vocab: whether the vocabulary is padded until it divides over its mesh axis.
        batch_size: sequences in a batch.
        seed: of initial values and dropout.
        steps: how many steps are timed.
        json: a file to write the measurements to; None for none.
        peers: whether transformers trains beside, where it is installed.
    """

    benchmark: str
    pad_vocab: bool = False
    batch_size: int | None = None
    seed: int | None = None
    steps: int | None = None
    json: str | None = None
    peers: bool = True


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ModelOptions):
    """What `mtf compare` is asked to do.

    Attributes:
        model_dir: the folder of the comparison, with the run folders in it.
        steps: the step at which each run ends.
    """

    steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class InspectOptions(ConfigOptions):
    """What `mtf inspect` is asked to do.

    Attributes:
        path: a run folder, the prefix of a checkpoint, or a folder of Hugging Face's; None for a
            config.
        step: the checkpoint of the folder; None for the latest.
        pad_vocab: whether the vocabulary is padded until it divides over its mesh axis.
    """

    path: str | None = None
    step: int | None = None
    pad_vocab: bool = False


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """What `mtf convert` is asked to do.

    Attributes:
        source: run folders, checkpoints, or models of another format.
        output: the folder to write, which must not hold a model.
        to: the format to write, a name in `mtf_models.runtime.conversion.convert.FORMATS`.
        step: which checkpoint of a folder; None for the latest.
        average: whether to write the mean of the sources.
        average_last_n: of how many of the latest checkpoints of the one source to write the mean.
        ensemble: whether to write the sources as the members of an ensemble.
        autoensemble: how many members, all equal to the one source, an ensemble is to have.
        extract_first: whether to write the first member of the ensemble that is the source.
        global_step: the step of what is written; None for the latest of the sources.
        dtype: of the weights that are written; None for that of the sources.
        keep_slots: whether optimizer slots are written too.
    """

    source: tuple[str, ...]
    output: str
    to: str = "mesh_tf"
    step: int | None = None
    average: bool = False
    average_last_n: int | None = None
    ensemble: bool = False
    autoensemble: int | None = None
    extract_first: bool = False
    global_step: int | None = None
    dtype: str | None = None
    keep_slots: bool = False


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What `mtf run` is asked to do: the flags of the original's `t5_mesh_transformer`.

    Attributes:
        model_dir: the run folder.
        gin_file: gin files, later ones overriding earlier ones.
        gin_param: single gin bindings, applied after the files.
        gin_location_prefix: folders in which gin files are looked for.
        module_import: modules that register tasks.
        t5_tfds_data_dir: where TensorFlow datasets are kept.
        additional_task_cache_dirs: where cached tasks are looked for.
        additional_deprecated_gin_references: gin names that are skipped.
        skip_all_gin_unknowns: whether unknown gin names are skipped.
        use_model_api: whether `mode` and the flags after it say what to do, else gin.
        mode: "train", "finetune", "eval", "predict" or "score".
        batch_size: sequences in a batch, with `use_model_api`.
        input_sequence_length: length of inputs, likewise.
        target_sequence_length: length of targets, likewise.
        train_steps: the step at which training ends; with "finetune" how many steps.
        mixture_or_task: the task or mixture; None for the original's default, and to read lines
            of a file by that of the config.
        pretrained_model_dir: what "finetune" begins with.
        checkpoint_mode: "latest", "all" or "specific".
        checkpoint_steps: which ones, if specific.
        eval_summary_dir: where evaluations are written.
        eval_split: the split to evaluate.
        input_file: of inputs.
        target_file: of targets to score.
        output_file: to write.
        beam_size: of "predict".
        temperature: of "predict".
        keep_top_k: of "predict".
        export_dir: where to export to.
        without_meaning: the flags for TPUs that were given.
    """

    model_dir: str = "/tmp/transformer_standalone"
    gin_file: tuple[str, ...] = ()
    gin_param: tuple[str, ...] = ()
    gin_location_prefix: tuple[str, ...] = ()
    module_import: tuple[str, ...] = ()
    t5_tfds_data_dir: str | None = None
    additional_task_cache_dirs: tuple[str, ...] = ()
    additional_deprecated_gin_references: tuple[str, ...] = ()
    skip_all_gin_unknowns: bool = False
    use_model_api: bool = False
    mode: str | None = None
    batch_size: int = 1
    input_sequence_length: int = 512
    target_sequence_length: int = 512
    train_steps: int = 1000
    mixture_or_task: str | None = None
    pretrained_model_dir: str = ""
    checkpoint_mode: str = "latest"
    checkpoint_steps: tuple[int, ...] = ()
    eval_summary_dir: str = ""
    eval_split: str = "validation"
    input_file: str = ""
    target_file: str = ""
    output_file: str = ""
    beam_size: int = 1
    temperature: float = 0.0
    keep_top_k: int = -1
    export_dir: str = ""
    without_meaning: tuple[str, ...] = ()
