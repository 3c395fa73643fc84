"""`mtf run` with the gin files of t5, on what the original wrote in a run of its own.

`cli_run_tiny` holds the folder of that run, and what it made of `inputs.txt` and `targets.txt`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from commands import hashes, mtf, rows

from mtf_models import load_model

FIXTURE = Path(__file__).parent / "cli_run_tiny"
TASK = (
    "--module_import=hundred_task",
    '--gin_param=get_vocabulary.mixture_or_task_name = "hundred"',
)
EVALUATED = ('--gin_param=MIXTURE_NAME = "hundred"', "--gin_param=run.dataset_split = 'validation'")


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FIXTURE, tmp_path / "model")


def old(folder, *words):
    """The command on the original's config of the folder."""
    return mtf("run", f"--model_dir={folder}", f"--gin_file={folder / 'config.gin'}", *TASK, *words)


def read(path):
    return path.read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def recorded():
    return np.load(FIXTURE / "io.npz")


def test_scores_of_strings_are_the_originals(folder, tmp_path):
    outcome = old(
        folder,
        "--tpu=",
        "--tpu_topology=v3-8",
        "--gin_file=score_from_file.gin",
        f"--gin_param=inputs_filename = '{folder / 'inputs.txt'}'",
        f"--gin_param=targets_filename = '{folder / 'targets.txt'}'",
        f"--gin_param=scores_filename = '{tmp_path / 'found'}'",
    )
    assert outcome.status == 0, outcome.err
    assert "Flags without meaning here, as they are for TPUs: --tpu, --tpu_topology." in outcome.err
    assert "Computing in float32" in outcome.err
    written = {file.suffix: read(file) for file in tmp_path.glob("found.*")}
    assert written.keys() == {".scores", ".targets", ".lengths"}
    for ending in (".targets", ".lengths"):
        assert written[ending] == read(FIXTURE / f"scores{ending}")
    scores, right = written[".scores"], read(FIXTURE / "scores.scores")
    np.testing.assert_allclose(np.array(scores, float), np.array(right, float), 1e-5)
    assert read(folder / "commands" / "command")


# Three texts: the last batch of two has one row too many, which is in no file.
EACH_BATCH = pytest.mark.parametrize("batch", [4, 2])
BATCHES_OF = "--gin_param=run.batch_size = ('sequences_per_batch', {})"


@EACH_BATCH
def test_inference_is_the_originals(folder, tmp_path, batch):
    outcome = old(
        folder,
        "--gin_file=infer.gin",
        BATCHES_OF.format(batch),
        f"--gin_param=input_filename = '{folder / 'inputs.txt'}'",
        f"--gin_param=output_filename = '{tmp_path / 'outputs.txt'}'",
    )
    assert outcome.status == 0, outcome.err
    assert read(tmp_path / "outputs.txt-3") == read(FIXTURE / "outputs.txt-3")


def test_perplexity_is_the_originals(folder, recorded):
    words = (*EVALUATED, "--gin_param=run.perplexity_eval_steps = 1")
    outcome = old(folder, "--gin_file=perplexity_eval.gin", *words)
    assert outcome.status == 0, outcome.err
    assert (
        "step 3  hundred validation, 4 examples: loss 1.572  neg_log_perplexity -2.857"
        in outcome.out
    )
    (row,) = rows(folder / "eval_hundred_validation_0")
    assert row.pop("step") == recorded["perplexity_eval/global_step"] == 3
    right = {name: float(recorded[f"perplexity_eval/{name}"]) for name in row}
    assert row == pytest.approx(right, rel=1e-5)
    assert len(right) == 7


def test_perplexity_says_what_it_did_not_read(folder):
    short = "--gin_param=run.sequence_length = {'inputs': 4, 'targets': 8}"
    words = (*EVALUATED, short, "--gin_param=run.batch_size = 2")
    steps = "--gin_param=run.perplexity_eval_steps = 1"
    outcome = old(folder, "--gin_file=perplexity_eval.gin", *words, steps)
    assert outcome.status == 0, outcome.err
    assert "hundred validation, 2 examples of more: loss" in outcome.out
    # Inputs have 12, 8, 3 and 2 ids, targets 8, 10, 2 and 2.
    assert "2 of 2 inputs were cut to 4 tokens" in outcome.err
    assert "1 of 2 targets were cut to 8 tokens" in outcome.err


def test_a_split_that_is_scored_says_what_was_cut(folder, tmp_path):
    scores = f"--gin_param=scores_filename = '{tmp_path / 'found'}'"
    short = "--gin_param=run.sequence_length = {'inputs': 4, 'targets': 8}"
    outcome = old(folder, "--gin_file=score_from_task.gin", *EVALUATED, scores, short)
    assert outcome.status == 0, outcome.err
    assert "1 of 4 targets were cut to 8 tokens" in outcome.err


def test_evaluation_writes_the_originals_files(folder, tmp_path, recorded):
    words = (*EVALUATED, "--gin_param=run.batch_size = 4", "--gin_param=eval_checkpoint_step = 3")
    outcome = old(folder, "--gin_file=eval.gin", "--gin_file=greedy_decode.gin", *words)
    assert outcome.status == 0, outcome.err
    assert "step 3  hundred, 4 examples: exactly 0" in outcome.out
    found = folder / "validation_eval"
    given = {
        name: [" ".join(map(str, row[row > 0])) for row in recorded[f"plain/{name}"]]
        for name in ("inputs", "targets")
    }
    assert read(found / "hundred_inputs") == given["inputs"]
    assert read(found / "hundred_targets") == given["targets"]
    assert [line.split()[0] for line in read(found / "hundred_3_predictions")] == [
        str(row[0].argmax()) for row in recorded["eval/logits"][0]
    ]
    assert rows(found) == [{"step": 3, "hundred/exactly": 0.0}]

    words = (*words, f"--gin_param=run.eval_summary_dir = '{tmp_path / 'scored'}'")
    outcome = old(folder, "--gin_file=score_eval.gin", *words)
    assert outcome.status == 0, outcome.err
    scores = [float(line) for line in read(tmp_path / "scored" / "hundred_3_predictions")]
    # The evaluation's loss is the mean over all 40 positions.
    assert -sum(scores) / 40 == pytest.approx(float(recorded["eval/loss"]), rel=1e-5)
    assert rows(tmp_path / "scored")[0]["hundred/mean_score"] == pytest.approx(sum(scores) / 4)


def test_scores_of_a_task(folder, tmp_path, recorded):
    outcome = old(
        folder,
        "--gin_file=score_from_task.gin",
        *EVALUATED,
        f"--gin_param=scores_filename = '{tmp_path / 'found'}'",
    )
    assert outcome.status == 0, outcome.err
    total = sum(float(line) for line in read(tmp_path / "found.scores"))
    assert -total / 40 == pytest.approx(float(recorded["eval/loss"]), rel=1e-5)
    assert read(tmp_path / "found.lengths") == ["8", "10", "2", "2"]


def test_scores_in_records(folder, tmp_path):
    outcome = old(
        folder,
        "--gin_file=score_from_file.gin",
        "--gin_param=score_from_strings.score_postprocess_fn = @save_scores_to_tfrecords",
        f"--gin_param=save_scores_to_tfrecords.scores_filename = '{tmp_path / 'found'}'",
        "--gin_param=save_scores_to_tfrecords.shard_idx = 2",
        f"--gin_param=inputs_filename = '{folder / 'inputs.txt'}'",
        f"--gin_param=targets_filename = '{folder / 'targets.txt'}'",
    )
    assert outcome.status == 0, outcome.err
    records = list(tf.data.TFRecordDataset(str(tmp_path / "found_2.tfrecord")).as_numpy_iterator())
    features = [tf.train.Example.FromString(record).features.feature for record in records]
    found = {n: [f[n].bytes_list.value[0].decode() for f in features] for n in ("input", "target")}
    assert found["target"] == read(FIXTURE / "scores.targets")
    assert found["input"] == [f"{line} 1" for line in read(FIXTURE / "inputs.txt")]
    scores = [feature["score"].float_list.value[0] for feature in features]
    np.testing.assert_allclose(scores, np.array(read(FIXTURE / "scores.scores"), float), 1e-5)


def test_prompts_of_a_task_are_continued_by_a_decoder_alone(folder, tmp_path):
    given = (
        "--gin_file=infer_from_task.gin",
        f"--gin_param=output_filename = '{tmp_path / 'decoded'}'",
        "--gin_param=num_priming_tokens = 2",
        *EVALUATED[:1],
    )
    refused = old(folder, *given)
    assert refused.status == 1
    assert "this model is no decoder-only one" in refused.err
    lm = Path(__file__).parents[1] / "fixtures" / "lm_tiny"
    copy = shutil.copytree(lm, tmp_path / "lm")
    words = (f"--model_dir={copy}", f"--gin_file={lm / 'config.gin'}", *TASK)
    outcome = mtf("run", *words, *given, "--gin_param=infer_checkpoint_step = 0")
    assert outcome.status == 0, outcome.err
    recorded = np.load(FIXTURE / "io.npz")["plain/targets"]
    # The last two targets are an id and the end, which no prompt has.
    prompts = ["66 10", "2 17", "20", "8"]
    assert [" ".join(map(str, row[row > 1][:2])) for row in recorded] == prompts
    assert read(tmp_path / "decoded" / "hundred_inputs") == prompts
    found = read(tmp_path / "decoded" / "hundred_0_outputs")
    assert [line.split()[0] for line in found] == [line.split()[0] for line in prompts]


def test_what_follows_prompts_is_scored_by_a_decoder_alone(tmp_path):
    """As likely as prompt and target together, given how likely the prompt is."""
    lm = Path(__file__).parents[1] / "fixtures" / "lm_tiny"
    copy = shutil.copytree(lm, tmp_path / "lm")
    texts = {"inputs": ["66 10", "2 17 5"], "targets": ["7 8 9", "20"]}
    params = []
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        params.append(f"--gin_param={name}_filename = '{tmp_path / name}'")
    outcome = mtf(
        "run",
        f"--model_dir={copy}",
        f"--gin_file={lm / 'config.gin'}",
        *TASK,
        "--gin_file=score_from_file.gin",
        *params,
        f"--gin_param=scores_filename = '{tmp_path / 'found'}'",
        "--gin_param=run.eval_checkpoint_step = 0",
    )
    assert outcome.status == 0, outcome.err
    prompts = np.array([[66, 10, 0, 0, 0, 0], [2, 17, 5, 0, 0, 0]])
    whole = np.array([[66, 10, 7, 8, 9, 1], [2, 17, 5, 20, 1, 0]])
    model = load_model(lm, step=0)
    right = model.score({"targets": whole}).numpy() - model.score({"targets": prompts}).numpy()
    np.testing.assert_allclose(np.array(read(tmp_path / "found.scores"), float), right, 1e-4)
    assert read(tmp_path / "found.lengths") == ["4", "2"]
    assert read(tmp_path / "found.targets") == ["7 8 9 1", "20 1"]


INFER = ("--gin_file=infer.gin", "--gin_param=output_filename = 'unwritten'")
REFUSED = {
    "a mode that there is not": (["--gin_param=run.mode = 'evaluate'"], "no mode; did you mean"),
    "an export of such texts": (
        ["--gin_param=run.mode = 'export'"],
        "cannot be encoded inside a SavedModel",
    ),
    "no file of inputs": (
        [*INFER, "--gin_param=input_filename = 'nope'"],
        "no file of inputs nope",
    ),
    "no folder for outputs": (
        [
            *INFER[:1],
            f"--gin_param=input_filename = '{FIXTURE / 'inputs.txt'}'",
            "--gin_param=output_filename = '/proc/none/found'",
        ],
        "/proc/none cannot be written",
    ),
    "no folder for scores": (
        [
            "--gin_file=score_from_file.gin",
            f"--gin_param=targets_filename = '{FIXTURE / 'scores.targets'}'",
            f"--gin_param=inputs_filename = '{FIXTURE / 'inputs.txt'}'",
            "--gin_param=scores_filename = '/proc/none/found'",
        ],
        "/proc/none cannot be written",
    ),
    "no file of targets": (
        ["--gin_file=score_from_file.gin", "--gin_param=targets_filename = 'nope'"],
        "nope cannot be read",
    ),
    "more inputs than targets": (
        [
            "--gin_file=score_from_file.gin",
            f"--gin_param=targets_filename = '{FIXTURE / 'scores.lengths'}'",
            f"--gin_param=inputs_filename = '{FIXTURE / 'checkpoint'}'",
        ],
        "There are 2 inputs for 3 targets",
    ),
    "a step that is not there": (
        [
            *INFER,
            f"--gin_param=input_filename = '{FIXTURE / 'inputs.txt'}'",
            "--gin_param=infer_checkpoint_step = 7",
        ],
        "no checkpoint of step 7; there are steps 3",
    ),
    "steps that are none": (
        [
            *INFER,
            f"--gin_param=input_filename = '{FIXTURE / 'inputs.txt'}'",
            "--gin_param=infer_checkpoint_step = 'al'",
        ],
        "run.eval_checkpoint_step is 'al'",
    ),
    "no task": (["--gin_param=run.mode = 'eval'"], "Mode eval needs a task"),
    "a mode without the API": (["--mode=eval"], "Add --use_model_api"),
    "the API without a mode": (["--use_model_api"], "--use_model_api needs --mode"),
    "an unknown gin name": (["--gin_param=Nothing.here = 1"], "no configurable 'Nothing'"),
    "an unknown flag": (["--gin_fiel=x"], "did you mean --gin_file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(folder, name):
    words, message = REFUSED[name]
    before = hashes(folder)
    outcome = old(folder, *words)
    assert outcome.status == 2
    assert message in outcome.err
    assert outcome.out == ""
    assert hashes(folder) == before


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("Nothing", "--skip_all_gin_unknowns"),
        ("Nobody", "--additional_deprecated_gin_references=x,Nobody"),
    ],
)
def test_unknown_names_can_be_skipped(folder, name, flag):
    words = (f"--gin_param={name}.here = 1", "--gin_param=run.mode = 'none'")
    outcome = old(folder, *words, flag)
    assert "run.mode is 'none'" in outcome.err
    assert f"without effect here: {name}" in outcome.err
    assert f"no configurable '{name}'" in old(folder, *words, "--noskip_all_gin_unknowns").err


def test_the_model_api(folder, tmp_path, recorded):
    flags = (
        "--use_model_api",
        "--mixture_or_task=hundred",
        "--input_sequence_length=12",
        "--target_sequence_length=10",
        "--batch_size=4",
    )
    words = (f"--input_file={folder / 'inputs.txt'}", f"--target_file={folder / 'targets.txt'}")
    outcome = old(folder, *flags, *words, "--mode=score", f"--output_file={tmp_path / 'found'}")
    assert outcome.status == 0, outcome.err
    found = np.array(read(tmp_path / "found.scores"), float)
    np.testing.assert_allclose(found, np.array(read(FIXTURE / "scores.scores"), float), 1e-5)
    outcome = old(folder, *flags, "--mode=predict", "--checkpoint_mode=specific")
    assert "--checkpoint_steps=N,M belong together" in outcome.err
    outcome = old(folder, *flags, "--mode=export_predict")
    assert "cannot be encoded inside a SavedModel" in outcome.err
    assert not (folder / "export").exists()
    assert json.loads(read(folder / "checkpoint")[0].partition(": ")[2]) == "model.ckpt-3"


@pytest.mark.parametrize("task", [["--mixture_or_task=hundred"], []])
def test_predictions_of_the_model_api(folder, tmp_path, task):
    outcome = old(
        folder,
        "--use_model_api",
        "--mode=predict",
        *task,
        "--input_sequence_length=12",
        "--target_sequence_length=10",
        f"--input_file={folder / 'inputs.txt'}",
        f"--output_file={tmp_path / 'decoded'}",
        "--beam_size=4",
        "--temperature=0",
    )
    assert outcome.status == 0, outcome.err
    assert read(tmp_path / "decoded-3") == read(FIXTURE / "outputs.txt-3")
