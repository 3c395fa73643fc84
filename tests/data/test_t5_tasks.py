"""The tasks that t5 registers, from their dataset to a training batch, on random examples."""

import pytest

from fake_datasets import prepare
from mtf_models.data.sources import training_batches
from mtf_models.data.tasks import get_task_or_mixture
from mtf_models.data.tfds_datasets import datasets_of, require

ALWAYS = ("glue_stsb_v002", "cnn_dailymail_v002", "wmt16_enro_v003", "super_glue_copa_v102")
OTHERS = (
    "glue_ax_v002",
    "glue_cola_v002",
    "glue_mnli_v002",
    "glue_mnli_matched_v002",
    "glue_mnli_mismatched_v002",
    "glue_mrpc_v002",
    "glue_qnli_v002",
    "glue_qqp_v002",
    "glue_rte_v002",
    "glue_sst2_v002",
    "glue_wnli_v002",
    "super_glue_axb_v102",
    "super_glue_axg_v102",
    "super_glue_boolq_v102",
    "super_glue_cb_v102",
    "super_glue_rte_v102",
    "super_glue_wic_v102",
    "super_glue_multirc_v102",
    "squad_v010_allanswers",
    "squad_v010_context_free",
    "wmt14_ende_v003",
    "wmt19_ende_v003",
    "wmt_t2t_ende_v003",
    "c4_v220_span_corruption",
    "c4_v220_full_lm",
)
LENGTH = 64


def batch_of(name, folder):
    task = get_task_or_mixture(name)
    for dataset, _ in datasets_of(task):
        prepare(dataset, folder)
    require([task])
    split = next(iter(task.splits))
    lengths = dict.fromkeys(task.output_features, LENGTH)
    with training_batches(name, lengths, 2, seed=0, split=split) as stream:
        return task, next(stream)


def check(name, folder):
    task, batch = batch_of(name, folder)
    for feature in task.output_features:
        ids = batch[feature]
        assert ids.shape == (2, LENGTH)
        assert 1 in ids and 0 <= ids.min() and ids.max() < 32100
        assert (batch[f"{feature}_segmentation"][ids > 0] > 0).all()


@pytest.mark.parametrize("name", ALWAYS)
def test_a_training_batch(name, data_dir):
    check(name, data_dir)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_a_training_batch_of_the_others(name, data_dir):
    check(name, data_dir)
