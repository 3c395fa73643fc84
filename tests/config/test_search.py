import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from mtf_models.config import parse
from mtf_models.config.search import find, mesh_tensorflow_folder, t5_folder
from mtf_models.errors import ConfigError


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "more" / "models").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_the_working_directory_comes_first_then_what_was_given_then_ours_then_t5s(here):
    more = str(here / "more")
    assert find("dataset.gin", [more]).path == f"{t5_folder()}/dataset.gin"
    ours = find("models/t5.1.1.small.gin", [more])
    assert ours.path.endswith("gin/models/t5.1.1.small.gin")
    assert not ours.path.startswith(t5_folder())
    (here / "more" / "models" / "t5.1.1.small.gin").write_text("# given")
    assert find("models/t5.1.1.small.gin", [more]).text == "# given"
    (here / "work" / "models").mkdir()
    (here / "work" / "models" / "t5.1.1.small.gin").write_text("# here")
    assert find("models/t5.1.1.small.gin", [more]).text == "# here"


def test_t5s_files_include_their_own_neighbours():
    config = parse(["models/bi_v1_3B.gin"])
    assert config.files[1:] == tuple(
        f"{t5_folder()}/models/{name}.gin" for name in ("bi_v1_3B", "bi_v1", "bi_bert_base")
    )


def test_t5s_files_include_their_own_neighbours_by_a_whole_path_too():
    file = Path(t5_folder(), "objectives", "span_2_15_u_u.gin")
    files = parse(["dataset.gin", str(file)]).files
    assert str(file.with_name("span.gin")) in files


def test_a_file_includes_what_lies_beside_it(here):
    (here / "more" / "a.gin").write_text("include 'b.gin'\nwidth = 1")
    (here / "more" / "b.gin").write_text("width = 2\nheight = %width")
    config = parse([str(here / "more" / "a.gin")], ["ToyDense.hidden = %height"])
    assert config.query("ToyDense.hidden") == 1


def test_a_missing_file_is_reported_with_every_place_and_near_names(here):
    with pytest.raises(ConfigError) as error:
        parse(["examples/g2p_tinny.gin"], search_paths=[str(here / "more")])
    message = str(error.value)
    for place in (here / "work", here / "more", t5_folder()):
        assert f"{place}/examples/g2p_tinny.gin" in message
    assert "gin/examples/g2p_tinny.gin" in message
    assert "did you mean examples/g2p_tiny.gin" in message


def test_near_names_are_found_beside_an_absolute_path(here):
    (here / "more" / "experiment.gin").write_text("")
    with pytest.raises(ConfigError, match=r"did you mean .*/more/experiment\.gin"):
        find(str(here / "more" / "experimnt.gin"))


def test_a_missing_include_is_reported_where_it_stands(here):
    (here / "work" / "a.gin").write_text("\ninclude 'nowhere.gin'")
    with pytest.raises(ConfigError, match=r"a\.gin:2: There is no gin file 'nowhere\.gin'"):
        parse(["a.gin"])


def test_files_that_include_each_other_are_refused(here):
    (here / "work" / "a.gin").write_text("include 'b.gin'")
    (here / "work" / "b.gin").write_text("include 'a.gin'")
    with pytest.raises(ConfigError, match=r"b\.gin:1: 'a\.gin' includes itself"):
        parse(["a.gin"])


def test_what_is_no_text_is_refused(here):
    (here / "work" / "a.gin").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"a\.gin cannot be read"):
        parse(["a.gin"])


def test_all_files_are_looked_for_before_complaining(here):
    with pytest.raises(ConfigError) as error:
        parse(["one_missing.gin", "two_missing.gin"])
    assert "one_missing" in str(error.value) and "two_missing" in str(error.value)


def test_addresses_are_read_through_tensorflows_file_systems():
    with tf.io.gfile.GFile("ram://folder/a.gin", "w") as file:
        file.write("ToyDense.hidden = 5")
    assert parse(["ram://folder/a.gin"]).query("ToyDense.hidden") == 5
    with pytest.raises(ConfigError, match=r"ram://folder/b\.gin cannot be read"):
        parse(["ram://folder/b.gin"])


def test_parsing_is_light_and_the_dead_package_is_not_imported():
    program = (
        "import sys; from mtf_models.config import parse, parse_text; "
        "parse(['models/t5.1.1.base.gin', 'dataset.gin']); "
        "parse_text('import mesh_tensorflow.optimize\\nfrom t5.models import mtf_model as m'); "
        "print([m for m in ('tensorflow', 't5', 'seqio', 'mesh_tensorflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_old_paths_lead_to_where_files_are_now():
    old = "mesh_tensorflow/transformer/gin"
    assert find(f"{old}/2x2_dp.gin").path.endswith("gin/layouts/2x2_dp.gin")
    assert find(f"{old}/models/bi_base.gin").path.endswith("gin/models/bi_base.gin")
    theirs = f"{mesh_tensorflow_folder()}/transparent_attention.gin"
    assert find(f"{old}/transparent_attention.gin").path == theirs
    assert find("transparent_attention.gin").path == theirs
