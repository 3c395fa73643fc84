"""Every gin file of the t5 package and of Mesh TensorFlow, unmodified, and what it describes.

docs/gin_files.md has a line for each; sizes of models are those of T5's papers and file names.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import mtf_models as mtf
from mtf_models.config import parse
from mtf_models.config.search import mesh_tensorflow_folder, t5_folder

DOCUMENT = Path(__file__).parents[2] / "docs" / "gin_files.md"
VOCABULARY, BUCKETS, POSITIONS = 32128, 32, 512
FOLDERS = {"t5": Path(t5_folder()), "mesh_tensorflow": Path(mesh_tensorflow_folder())}
FILES = sorted(
    f"{package}/{path.relative_to(folder)}"
    for package, folder in FOLDERS.items()
    for path in folder.rglob("*.gin")
)


class Sizes(NamedTuple):
    """What the number of parameters follows from."""

    d_model: int
    layers: int
    d_ff: int
    heads: int
    d_kv: int = 64
    towers: str = "two"
    gated: bool = False
    learned_positions: bool = False
    narrow: tuple[int, int] | None = None
    talking: bool = False
    transparent: tuple[int, int] | None = None

    def parameters(self, layers=None):
        """Counts them, with as many blocks as the file says or as are given."""
        block = [(self.heads, self.d_ff)]
        if self.narrow:  # 4 groups of narrow layers, then 10 of wide ones
            block = 4 * [self.narrow] + 10 * block
        blocks = block * (layers or self.layers)
        encoder = sum(self._attention(h) + self._dense(f) + 2 * self.d_model for h, f in blocks)
        cross = sum(self._attention(heads) + self.d_model for heads, _ in blocks)
        if self.transparent:
            encoder_modules, decoder_modules = self.transparent
            cross += len(blocks) * (encoder_modules + 1) * decoder_modules
        bias = 0 if self.learned_positions else BUCKETS * sum({heads for heads, _ in block})
        tower = encoder + self.d_model + bias
        total = {"one": tower, "shared": tower + cross, "two": 2 * tower + cross}[self.towers]
        tables = (2 if self.gated else 1) * VOCABULARY  # the gated models are those of T5 1.1
        return total + (tables + (POSITIONS if self.learned_positions else 0)) * self.d_model

    def _attention(self, heads):
        mixing = 2 * heads * heads if self.talking else 0
        return 4 * self.d_model * heads * self.d_kv + mixing

    def _dense(self, d_ff):
        return (3 if self.gated else 2) * self.d_model * d_ff


BASE = Sizes(768, 12, 3072, 12)
LARGE = Sizes(1024, 24, 4096, 16)
DEFAULT = Sizes(1024, 6, 4096, 8, 128, learned_positions=True)
T5_1_0 = {
    "small": Sizes(512, 6, 2048, 8),
    "base": BASE,
    "large": LARGE,
    "3B": Sizes(1024, 24, 16384, 32, 128),
    "11B": Sizes(1024, 24, 65536, 128, 128),
}
MODELS = {
    **{f"t5/models/t5.1.0.{size}.gin": sizes for size, sizes in T5_1_0.items()},
    "t5/models/t5.1.1.tiny.gin": Sizes(32, 2, 64, 2, gated=True),
    "t5/models/t5.1.1.small.gin": Sizes(512, 8, 1024, 6, gated=True),
    "t5/models/t5.1.1.base.gin": Sizes(768, 12, 2048, 12, gated=True),
    "t5/models/t5.1.1.large.gin": Sizes(1024, 24, 2816, 16, gated=True),
    "t5/models/t5.1.1.xl.gin": Sizes(2048, 24, 5120, 32, gated=True),
    "t5/models/t5.1.1.xxl.gin": Sizes(4096, 24, 10240, 64, gated=True),
    "t5/models/t5.1.th.base.gin": Sizes(768, 12, 2048, 24, 32, gated=True, talking=True),
    "t5/models/t5.1.th.large.gin": Sizes(1024, 24, 2816, 32, 32, gated=True, talking=True),
    "t5/models/t5.1.n4w10.base.gin": Sizes(768, 1, 2048, 12, gated=True, narrow=(6, 1024)),
    "t5/models/t5.1.n4w10.large.gin": Sizes(1024, 1, 5120, 32, gated=True, narrow=(16, 2560)),
    # Without what the other two include, these are the defaults.
    "t5/models/t5.1.n4w10.xl.gin": DEFAULT._replace(
        d_model=2048, d_ff=10240, heads=64, narrow=(32, 5120)
    ),
    "t5/models/bi_bert_base.gin": BASE._replace(learned_positions=True),
    "t5/models/bi_bert_large.gin": LARGE._replace(learned_positions=True),
    "t5/models/bi_v1.gin": BASE,
    "t5/models/bi_v1_small.gin": T5_1_0["small"],
    "t5/models/bi_v1_large.gin": LARGE,
    "t5/models/bi_v1_3B.gin": T5_1_0["3B"],
    "t5/models/bi_v1_11B.gin": T5_1_0["11B"],
    "t5/models/bi_v1_l6.gin": BASE._replace(layers=6),
    "t5/models/bi_v1_2x.gin": LARGE._replace(layers=16),
    "t5/models/bi_v1_4x.gin": LARGE._replace(layers=32),
    "t5/models/bi_v1_shared.gin": BASE._replace(towers="shared"),
    "t5/models/lm_v1.gin": BASE._replace(towers="one"),
    "t5/models/lm_v1_ifa.gin": BASE._replace(towers="one"),
    "mesh_tensorflow/defaults.gin": DEFAULT,
    "mesh_tensorflow/transparent_attention.gin": DEFAULT._replace(transparent=(6, 6)),
}
WIDE = DEFAULT._replace(d_ff=8192, heads=16)
EXPERTS = 1024 * 32 + 2 * 32 * 1024 * 4096  # a gate and 32 experts
MORE = 3 * (EXPERTS - 2 * 1024 * 8192)  # what they have more than every other dense layer
FORMER = {
    "aiayn_base": Sizes(512, 6, 2048, 8, learned_positions=True).parameters(),
    "aiayn_large": Sizes(1024, 6, 4096, 16, learned_positions=True).parameters(),
    "bi_base": DEFAULT.parameters(),
    "bi_w1": WIDE.parameters(),
    "bi_l12": DEFAULT.parameters(layers=12),
    "bi_l12_w1": WIDE.parameters(layers=12),
    "bi_l12_w2": DEFAULT._replace(d_ff=16384, heads=32).parameters(layers=12),
    "bi_l12_w3": DEFAULT._replace(d_ff=32768, heads=64).parameters(layers=12),
    "bi_moe": WIDE.parameters() + 2 * MORE,
    "lm_base": DEFAULT._replace(towers="one").parameters(),
    "lm_w1": WIDE._replace(towers="one").parameters(),
    "lm_moe": WIDE._replace(towers="one").parameters() + MORE,
    "tiny": Sizes(128, 2, 512, 4, 32, learned_positions=True).parameters(),
}
"""Models that only earlier versions of Mesh TensorFlow had files for; they are here."""

# Files that use the macro MIXTURE_NAME stand after the one that defines it.
AFTER_DATASET = ("eval", "infer_from_task", "perplexity_eval", "score_eval", "score_from_task")


def located(file):
    """The path of a file, and the files that it is commonly given after."""
    package, _, name = file.partition("/")
    before = ["models/t5.1.1.small.gin"] if file not in MODELS else []
    if name.removesuffix(".gin") in AFTER_DATASET:
        before.append(str(FOLDERS["t5"] / "dataset.gin"))
    return [*before, str(FOLDERS[package] / name)]


def documented():
    """File to the number of parameters and to what of it has no effect, as the document says."""
    row = r"^\| `(\S+\.gin)` \|\s*([\d,]*)\s*\|\s*(.*?)\s*\|$"
    lines = re.findall(row, DOCUMENT.read_text("utf-8"), re.M)
    return {file: (count.replace(",", ""), ignored) for file, count, ignored in lines}


@pytest.fixture(autouse=True)
def registered(zoo):
    return zoo


def test_the_document_has_every_file():
    originals = {name for name in documented() if name.startswith(("t5/", "mesh_tensorflow/"))}
    assert originals == set(FILES)
    assert {name for name, (count, _) in documented().items() if count} == set(MODELS)
    for name in MODELS:
        assert int(documented()[name][0]) == MODELS[name].parameters(), name


@pytest.mark.parametrize("file", FILES)
def test_a_file_parses_and_what_has_no_effect_is_told_once(file):
    notices = parse(located(file)).notices
    told = [text.partition(": ")[2] for text in notices if text.startswith("recognised")]
    assert told == ([documented()[file][1].replace("`", "")] if documented()[file][1] else [])


@pytest.mark.slow
@pytest.mark.parametrize("file", MODELS)
def test_the_model_of_a_file_with_one_block(file):
    # One of the files binds the number of blocks directly, without the macro.
    params = ["num_layers = 1", "make_layer_stack.num_layers = 1"]
    right = MODELS[file].parameters(layers=1)
    if file == "mesh_tensorflow/transparent_attention.gin":  # which says how many layers there are
        params, right = [], MODELS[file].parameters()
    params.append("get_variable_dtype.activation_dtype = 'bfloat16'")
    assert mtf.build_model(located(file), params).parameters == right


def test_stacks_that_share_a_scope_have_all_their_variables_in_every_block():
    file = "t5/models/bi_v1_shared.gin"
    model = mtf.build_model(located(file), ["num_layers = 6", "d_model = 64", "d_ff = 128"])
    of_blocks = [
        {
            name.replace(f"block_{i:03d}", "")
            for name in model.variables
            if f"block_{i:03d}/" in name
        }
        for i in range(6)
    ]
    assert any("EncDecAttention" in name or "enc_dec_attention" in name for name in of_blocks[0])
    assert all(names == of_blocks[1] for names in of_blocks[1:])


@pytest.mark.nightly
@pytest.mark.parametrize("file", MODELS)
def test_the_model_of_a_file(file):
    assert mtf.build_model(located(file)).parameters == MODELS[file].parameters()


def test_the_largest_narrow_and_wide_model_is_here_as_it_was_meant():
    model = mtf.build_model(["models/t5.1.n4w10.xl.gin"])
    meant = Sizes(2048, 1, 10240, 64, gated=True, narrow=(32, 5120))
    assert model.parameters == meant.parameters()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.nightly) if "_l12" in n else n for n in FORMER]
)
def test_the_models_that_were_dropped(name):
    assert mtf.build_model([f"models/{name}.gin"]).parameters == FORMER[name]


def test_adapters():
    files = ["models/t5.1.0.small.gin", *located("t5/task_adapter.gin")[1:]]
    model = mtf.build_model(files, ["task_adapter/DenseReluDense.hidden_size = 32"])
    adapters = 2 * 6 * (2 * 512 * 32 + 512)
    assert model.parameters == T5_1_0["small"].parameters() + adapters
    kernel = model.variables["encoder/block_000/task_adapter/DenseReluDense/wi/kernel"]
    assert kernel.shape.to_integer_list == [512, 32]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("cnn_dailymail_v002", 512),
        ("default", 512),
        ("en_mix", 114),
        ("glue_v002_proportional", 84),
        ("squad_v010_allanswers", 97),
        ("super_glue_v102_proportional", 62),
        ("wmt15_enfr_v003", 512),
        ("wmt16_enro_v003", 512),
        ("wmt_t2t_ende_v003", 512),
        ("wsc_dpr_simple_proportional", 512),
    ],
)
def test_sequence_lengths(name, targets):
    config = parse(["dataset.gin", f"sequence_lengths/{name}.gin"])
    assert config.query("run.sequence_length") == {"inputs": 512, "targets": targets}


def span_targets(mean):
    """How long targets are where 15 % noise in spans leaves the most that fits 512 inputs."""
    tokens = 512
    while tokens - (noise := round(tokens * 0.15)) + (spans := round(noise / mean)) < 512:
        tokens, found = tokens + 1, noise + spans + 1  # each side has a sentinel a span, and an end
    return found


@pytest.mark.parametrize(
    ("name", "density", "targets"),
    [
        ("all_permute", 1.0, None),
        ("iid_10_u_u", 0.10, 103),
        ("iid_15_d_d", 0.15, 104),
        ("iid_15_m_f", 0.15, None),
        ("iid_15_r10s90_f", 0.15, None),
        ("iid_15_u_u", 0.15, 192),
        ("iid_25_u_u", 0.25, 256),
        ("iid_50_u_u", 0.5, 512),
        ("prefix_lm", 0.5, None),
        ("span_2_15_u_u", 0.15, span_targets(2)),
        ("span_3_15_u_u", 0.15, 114),  # Raffel et al. 2020, appendix B
        ("span_5_15_u_u", 0.15, span_targets(5)),
        ("span_10_15_u_u", 0.15, span_targets(10)),
    ],
)
def test_objectives(name, density, targets):
    config = parse(["dataset.gin", "models/bi_v1_small.gin", f"objectives/{name}.gin"])
    assert config.query("denoise.noise_density") == density
    lengths = {"inputs": 512, "targets": targets} if targets else None
    assert config.query("run.sequence_length") == lengths
    functions = [f.__name__ for f in config.query("unsupervised.preprocessors")]
    assert (functions[0], functions[-1]) == ("select_random_chunk", "denoise")


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("learning_rate_schedules/constant_0_001", "constant_learning_rate.learning_rate", 0.001),
        (
            "learning_rate_schedules/rsqrt_no_ramp_down",
            "learning_rate_schedule_noam.linear_decay_fraction",
            0.0,
        ),
        ("eval", "run.batch_size", ("tokens_per_replica", 32768)),
        ("score_from_task", "run.dataset_split", "test"),
        ("beam_search", "get_variable_dtype.activation_dtype", "bfloat16"),
    ],
)
def test_other_files_bind_what_they_say(file, key, value):
    config = parse(["dataset.gin", f"{file}.gin"])
    assert config.query(key) == value


def test_the_mesh_of_many_hosts():
    config = parse(["8x8_dp_r4.gin"])
    assert config.query("run.mesh_shape") == "outer:4,inner:32"
    # The axes are known, so that rules for them are no misspelling on another mesh.
    rules = config.query("run.layout_rules")
    assert mtf.build_model(["models/t5.1.1.tiny.gin"], mesh=mtf.Mesh("", layout=rules)).mesh


@pytest.mark.slow
def test_nothing_is_imported_that_is_not_needed():
    code = (
        "import sys\n"
        "from mtf_models.config import parse\n"
        "from mtf_models.runtime.registry import register\n"
        "register()\n"
        "parse(['dataset.gin', 'models/bi_v1_small.gin', 'sequence_lengths/en_mix.gin',\n"
        "    'learning_rate_schedules/constant_0_001.gin', 'eval.gin', 'beam_search.gin'])\n"
        "parse(['models/lm_v1_ifa.gin', 'infer.gin', 'sample_decode.gin'])\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(found & {'t5', 'seqio', 'mesh_tensorflow', 'tensorflow_datasets'}))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
