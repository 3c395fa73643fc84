"""What a process is told of the others, by TF_CONFIG as TensorFlow's documentation writes it."""

import json

import pytest

from mtf_models.errors import ConfigError
from mtf_models.processes import Cluster
from mtf_models.processes.cluster import from_environment


def read(config):
    text = config if isinstance(config, str) else json.dumps(config)
    return from_environment({"TF_CONFIG": text})


def test_workers():
    workers = ["host1:1", "host2:2"]
    found = read({"cluster": {"worker": workers}, "task": {"type": "worker", "index": 1}})
    assert (found.addresses, found.index) == (("host1:1", "host2:2"), 1)
    assert read(found.tf_config()) == found


def test_the_chief_comes_first():
    cluster = {"worker": ["b:1", "c:1"], "chief": ["a:1"]}
    tasks = [("chief", 0), ("worker", 0), ("worker", "1")]
    found = [read({"cluster": cluster, "task": {"type": t, "index": i}}) for t, i in tasks]
    assert [f.index for f in found] == [0, 1, 2]
    assert {f.addresses for f in found} == {("a:1", "b:1", "c:1")}


@pytest.mark.parametrize(
    "config",
    ["", "  ", {}, {"cluster": {}}, {"task": {"type": "worker", "index": 0}}]
    + [{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}],
)
def test_one_process(config):
    assert read(config) is None
    assert from_environment({}) is None


WORKERS = {"worker": ["a:1", "b:1"]}
ZERO = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
    "config, said",
    [
        ("{'cluster'", "no JSON"),
        ("[1]", "no JSON object"),
        ({"cluster": WORKERS}, '"task" is missing'),
        ({"cluster": ["a:1"], "task": ZERO}, "no object of lists"),
        ({"cluster": {"worker": "a:1"}, "task": ZERO}, '"worker" is no list'),
        ({"cluster": {**WORKERS, "ps": ["c:1"]}, "task": ZERO}, "type ps, which have no part"),
        ({"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}}, "'evaluator'"),
        ({"cluster": WORKERS, "task": {"index": 0}}, "type of its task is None"),
        ({"cluster": WORKERS, "task": {"type": "worker"}}, "index of its task is None"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": -1}}, "-1, not a number from 0"),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}, "it has 2 of type worker"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": ZERO}, "a:1 is the address of 2"),
        ({"cluster": {"worker": ["a", "b:x", "c:70000"]}, "task": ZERO}, "'a' is no host:port; "),
    ],
)
def test_what_cannot_be_read_is_refused(config, said):
    with pytest.raises(ConfigError) as caught:
        read(config)
    assert said in str(caught.value)


def test_all_faults_at_once():
    with pytest.raises(ConfigError) as caught:
        Cluster(("a:1", "b", "a:1"), 3)
    for fault in ("'b' is no host:port", "a:1 is the address of 2", "index is 3", "0 to 2"):
        assert fault in str(caught.value)
