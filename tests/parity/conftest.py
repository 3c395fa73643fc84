"""What the original computed, one folder of fixtures for each model."""

from pathlib import Path

import numpy as np
import pytest

import mtf_models as mtf
from mtf_models.checkpoint import Reader, locate
from mtf_models.config import parse
from mtf_models.runtime.folder.load import restored_model
from mtf_models.runtime.registry import register

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = sorted(
    file.parent.name for file in FIXTURES.glob("*/io.npz") if "eval/logits" in np.load(file)
)
# Of the others the default suite compiles the evaluation.
IN_FULL = ("lm_tiny", "t5_1_0_tiny", "t5_1_1_tiny")
# Of the others with what is slow: the loss in training, the gradients and a decode.
SLOW = ("-train]", "test_every_gradient", "test_decoding.py")
# What a score is made of besides the logits, which the losses tell, differs in these alone.
SCORED_APART = ("aligned_bert_tiny", "ensemble", "student_teacher", "vocab_mixture_of_softmaxes")
# Nothing in these is decoded in a way of its own.
DECODED_AS_USUAL = ("legacy_norm_names", "named_adapter_layers", "recompute_grads")
NIGHTLY = (
    "test_training.py",
    "test_packed_rows",
    "test_norms_of_gradients_of_packed_rows",
    "test_beams",
    "test_rescoring_gives_the_log_probabilities_and_the_scores",
)


class Recorded:
    """The arrays of one folder; the original's outputs have a leading dimension of 1."""

    def __init__(self, name):
        self.folder = FIXTURES / name
        self._arrays = np.load(self.folder / "io.npz")
        self.is_lm = "plain/inputs" not in self._arrays.files
        self.decodes = "decode/inputs" in self._arrays.files
        self.has_experts = any("moe_combine" in name for name in self._arrays.files)

    def __getitem__(self, key):
        return self._arrays[key]

    def loss_parts(self, mode):
        """What the loss of the plain batch is the sum of."""
        recorded = [float(x) for x in self.group(f"{mode}/loss_part/").values()]
        if self.folder.name != "student_teacher":
            return recorded
        # What is recorded there is the teacher's. The config distils by half.
        loss, logits = float(self[f"{mode}/loss"]), self[f"{mode}/logits"][0].astype(np.float64)
        targets = self["plain/targets"]
        log_z = np.log(np.sum(np.exp(logits), axis=-1))
        entropy = log_z - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        entropy += (1e-4 if mode == "train" else 0.0) * log_z**2
        hard = 0.5 * np.mean(entropy * (targets > 0))
        return [hard, loss - hard]

    def group(self, prefix):
        """What is recorded below a prefix, by the rest of its name."""
        names = [name for name in self._arrays.files if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._arrays[name] for name in names}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leaves what takes longest to compile to slow and nightly tests, for all but three folders."""
    for item in items:
        name = item.callspec.params.get("recorded") if hasattr(item, "callspec") else None
        if name not in CASES or name in IN_FULL:
            continue
        nightly = (*NIGHTLY, "test_decoding.py") if name in DECODED_AS_USUAL else NIGHTLY
        nightly += () if name in SCORED_APART else ("test_score_is_the_likelihood",)
        if any(part in item.nodeid for part in nightly):
            item.add_marker(pytest.mark.nightly)
        elif any(part in item.nodeid for part in SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", params=CASES)
def recorded(request):
    """What the original computed with one model."""
    return Recorded(request.param)


@pytest.fixture(scope="session")
def load(recorded):
    """Loads the checkpoint that everything was computed from."""
    checkpoint = locate(recorded.folder, 0)
    if recorded.folder.name == "aligned_bert_tiny":  # its operative config does not say so
        register()
        config = parse([str(recorded.folder / "config.gin")])
        return lambda: restored_model(Reader(checkpoint), config, mtf.Mesh())[0]
    if recorded.folder.name == "encdec_span_bias":  # which has to know how many ids there are
        register()
        sizes = [f"make_bitransformer.{side}_vocab_size = 60" for side in ("input", "output")]
        config = parse([str(recorded.folder / "operative_config.gin")], sizes)
        return lambda: restored_model(Reader(checkpoint), config, mtf.Mesh())[0]
    if recorded.folder.name == "conv_layers":  # whose convolution sees the next position
        register()
        params = ['Conv1DLayer.padding = "same"']
        config = parse([str(recorded.folder / "operative_config.gin")], params)
        return lambda: restored_model(Reader(checkpoint), config, mtf.Mesh())[0]
    return lambda: mtf.load_model(recorded.folder, step=0)


@pytest.fixture(scope="session")
def model(load):
    """The model with the weights of that checkpoint; not to be trained."""
    return load()


@pytest.fixture(scope="session")
def relative():
    """The largest difference, relative to the largest expected value."""

    def difference(found, right):
        return float(np.max(np.abs(np.asarray(found) - right)) / np.max(np.abs(right)))

    return difference
