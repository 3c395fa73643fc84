"""A served model answers as the model does, whoever else asks, and says why it refuses."""

import json
import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import seqio
from commands import finish, mtf, start
from fastapi.testclient import TestClient

import mtf_models
from mtf_models.errors import DataError
from mtf_models.runtime.folder.load import load_model
from mtf_models.serve.app import make_app
from mtf_models.serve.engine import Engine
from mtf_models.serve.guard import MAX_BYTES
from mtf_models.serve.schema import Generate

WORDS = ("n1", "n22", "n7 & n8", "x", "one", "n36")


@pytest.fixture(scope="module")
def model(trained):
    return load_model(trained[0])


@pytest.fixture(scope="module")
def client(model):
    engine = Engine(model, seqio.get_mixture_or_task("numbered"), 20, max_batch=4, max_tokens=8)
    with TestClient(make_app(engine, "numbered")) as client:
        yield client


def generate(client, inputs="n1", **asked):
    return client.post("/v1/generate", json={"inputs": inputs, **asked})


def texts(answer):
    assert answer.status_code == 200, answer.text
    return [output["text"] for output in answer.json()["outputs"]]


def decoded(model, inputs, **options):
    ids = [[*(byte + 3 for byte in text.encode()), 1] for text in inputs]
    features = {"inputs": [row + [0] * (8 - len(row)) for row in ids]}
    return model.decode(features, max_decode_length=8, **options)


def text_of(row):
    row = row.tolist()
    row = row[: row.index(1)] if 1 in row else row
    return bytes(i - 3 for i in row if i > 2).decode("utf-8", "ignore")


def test_it_answers_as_the_model_does(client, model):
    found = decoded(model, WORDS)
    for word, ids, score in zip(WORDS, found.ids.numpy(), found.scores.numpy(), strict=True):
        (output,) = generate(client, word).json()["outputs"]
        assert output["text"] == text_of(ids)
        assert output["score"] == pytest.approx(float(score), rel=1e-4)


def test_beams_and_draws(client, model):
    beams = decoded(model, ["n22"], beam_size=3, num_return=3, stop_early=False)
    answer = generate(client, "n22", beam_size=3, num_return=3)
    assert texts(answer) == [text_of(row) for row in beams.ids.numpy()[0]]
    drawn = decoded(model, ["n22"], temperature=1.0, num_return=2, seed=5)
    answer = generate(client, "n22", temperature=1.0, num_return=2, seed=5)
    assert texts(answer) == [text_of(row) for row in drawn.ids.numpy()[0]]


def test_a_request_is_answered_alike_in_any_company(client):
    alone = [texts(generate(client, w, temperature=1.0, seed=3)) for w in WORDS]
    with ThreadPoolExecutor(24) as pool:
        together = list(
            pool.map(lambda w: texts(generate(client, w, temperature=1.0, seed=3)), WORDS * 4)
        )
    assert together == alone * 4


@pytest.fixture(scope="module")
def long(client):
    """What is asked for a text of some length, and the text."""
    for seed in range(100):
        asked = {"inputs": "n22", "temperature": 1.0, "seed": seed}
        (text,) = texts(generate(client, **asked))
        if len(set(text)) == len(text) > 2:
            return asked, text
    raise AssertionError("a hundred draws are all short")


def test_limits_of_a_request(client, long):
    asked, whole = long
    answer = generate(client, **asked, max_tokens=2).json()["outputs"][0]
    assert answer["tokens"] == 2 and whole.startswith(answer["text"])
    assert texts(generate(client, **asked, stop=[whole[1:3], "~~"])) == [whole[:1]]


@pytest.mark.parametrize("way", [{}, {"beam_size": 3}, {"temperature": 1.0, "seed": 4}], ids=str)
def test_texts_begin_with_the_prefix(client, model, way):
    ids = [byte + 3 for byte in b"ab"]
    options = {"prefix": [ids], "max_steps": 3, **way}
    features = {"inputs": [[*(byte + 3 for byte in b"n22"), 1]]}
    found = model.decode(features, **options).ids.numpy()[0]
    answers = [generate(client, "n22", prefix="ab", max_tokens=3, **way) for _ in range(2)]
    assert [texts(answer) for answer in answers] == [[text_of(found)]] * 2
    (output,) = answers[0].json()["outputs"]
    assert output["text"].startswith("ab") and 1 <= output["tokens"] <= 3


def test_repetition_is_held_back(client, long):
    asked, _ = long
    for how in ({"no_repeat_ngram": 1}, {"repetition_penalty": 1e6}):
        (text,) = texts(generate(client, **asked, **how))
        assert len(set(text)) == len(text)


def test_a_beam_search_of_the_config_is_what_is_served(folder):
    with (folder / "operative_config.gin").open("a") as file:
        file.write("Bitransformer.decode.beam_size = 3\n")
    model = load_model(folder)
    engine = Engine(model, seqio.get_mixture_or_task("numbered"), 20, max_tokens=8)
    engine.warm_up()
    for asked in ({"stop": ["x"]}, {"stream": True}):
        with pytest.raises(DataError, match="beam_size=3.*leave out stream and stop"):
            engine.generation(Generate(inputs="n22", **asked))
        assert engine.generation(Generate(inputs="n22", temperature=0, **asked))
    beams = decoded(model, ["n22"], beam_size=3, num_return=2, stop_early=False)
    with TestClient(make_app(engine, "numbered")) as client:
        assert texts(generate(client, "n22", num_return=2)) == [
            text_of(row) for row in beams.ids.numpy()[0]
        ]


def test_limits_of_requests_on_a_mesh(trained, long):
    asked, whole = long
    model = load_model(trained[0], mesh=mtf_models.Mesh("batch:2", layout="batch:batch"))
    engine = Engine(model, seqio.get_mixture_or_task("numbered"), 20, max_batch=4, max_tokens=8)
    jobs = [engine.generation(Generate(**asked, max_tokens=most)) for most in (1, 2, None)]
    for job in jobs:
        engine.queue.put(job)
    engine.start()
    engine.stop()
    found = [job.answer.result().outputs[0].text for job in jobs]
    assert found == [whole[:1], whole[:2], whole]


def test_stop_strings_are_refused_on_a_mesh(trained):
    model = load_model(trained[0], mesh=mtf_models.Mesh("batch:2", layout="batch:batch"))
    engine = Engine(model, seqio.get_mixture_or_task("numbered"), 20)
    with pytest.raises(DataError, match="leave out stop"):
        engine.generation(Generate(inputs="n1", stop=["x"]))


def test_a_stream_is_the_text(client, long):
    asked, text = long
    answer = generate(client, **asked, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [dict(re.findall(r"^(\w+): (.*)$", b, re.M)) for b in answer.text.split("\n\n") if b]
    pieces = [json.loads(e["data"])["text"] for e in events if e["event"] == "text"]
    done = json.loads(events[-1]["data"])
    assert events[-1]["event"] == "done" and len(pieces) > 1
    assert "".join(pieces) == done["outputs"][0]["text"] == text


def test_scores(client, model):
    asked = {"inputs": "n1", "targets": "one"}
    ids = {n: [[*(b + 3 for b in text.encode()), 1]] for n, text in asked.items()}
    answer = client.post("/v1/score", json=asked).json()
    assert answer["log_probability"] == pytest.approx(float(model.score(ids).numpy()[0]), rel=1e-4)
    assert answer["tokens"] == 4


@pytest.mark.parametrize(
    ("path", "asked", "words"),
    [
        ("generate", {}, "inputs"),
        ("generate", {"inputs": ""}, "at least 1"),
        ("generate", {"inputs": "  \n"}, "match pattern"),
        ("generate", {"inputs": "a" * 100}, "101 tokens"),
        ("generate", {"inputs": "a" * 100_000}, "at most 20000"),
        ("generate", {"inputs": "a", "max_tokens": 9}, "at most 8"),
        ("generate", {"inputs": "a", "prefix": "a" * 9}, "prefix has 9 tokens"),
        ("generate", {"inputs": "a", "beam": 4}, "beam"),
        ("generate", {"inputs": "a", "beam_size": 2, "temperature": 1.0}, "no temperature"),
        ("generate", {"inputs": "a", "num_return": 2}, "would all be the same"),
        ("generate", {"inputs": "a", "beam_size": 2, "stream": True}, "leave out stream"),
        ("score", {"inputs": "a"}, "targets"),
        ("score", {"targets": "a"}, "give them too"),
    ],
)
def test_refusals_say_why(client, path, asked, words):
    answer = client.post(f"/v1/{path}", json=asked)
    assert answer.status_code == 422 and words in answer.text


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 422), (b"\xff\xfe", 422), (b"[]", 422), (b"x" * (MAX_BYTES + 1), 413)],
)
def test_bodies_that_are_no_request(client, body, status):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/generate", content=body, headers=headers)
    assert answer.status_code == status and answer.json()["detail"]


def test_what_can_be_read_about_it(client):
    found = client.get("/health").json()
    assert (found["step"], found["max_tokens"], found["waiting"]) == (20, 8, 0)
    assert "/v1/generate" in client.get("/openapi.json").json()["paths"]
    assert 'mtf_requests_total{path="/health",status="200"}' in client.get("/metrics").text
    assert "<textarea" in client.get("/").text


def test_a_full_queue_is_said(model):
    engine = Engine(model, seqio.get_mixture_or_task("numbered"), 20, max_queue=1, max_tokens=8)
    engine.queue.close()
    with TestClient(make_app(engine, "numbered")) as client:
        answer = generate(client)
        assert answer.status_code == 503 and answer.headers["Retry-After"]


@pytest.fixture(scope="module")
def server(trained):
    process = start(
        "serve", f"--model_dir={trained[0]}", "--module_import=numbered_task", "--port=0"
    )
    line = process.stdout.readline()
    address = re.search(r"http://\S+/", line)
    assert address, (line, process.stderr.read())
    yield process, address[0]
    process.kill()


def test_a_hundred_at_a_time(server):
    with httpx.Client(base_url=server[1], timeout=300, limits=httpx.Limits()) as client:
        alone = {word: texts(generate(client, word)) for word in WORDS}
        with ThreadPoolExecutor(100) as pool:
            asked = [WORDS[i % len(WORDS)] for i in range(100)]
            answers = list(pool.map(lambda word: texts(generate(client, word)), asked))
    assert answers == [alone[word] for word in asked]


def test_a_port_in_use(server, trained):
    port = httpx.URL(server[1]).port
    given = (f"--model_dir={trained[0]}", "--module_import=numbered_task")
    outcome = mtf("serve", *given, f"--port={port}")
    assert outcome.status == 2 and f"port {port}" in outcome.err and "--port" in outcome.err
    assert mtf("serve", *given, "--port=99999").status == 2


@pytest.mark.slow
def test_a_signal_ends_it(server):
    assert httpx.get(f"{server[1]}health", timeout=60).is_success  # It serves by now.
    server[0].send_signal(signal.SIGINT)
    outcome = finish(server[0])
    assert outcome.status == 0 and "Stopped." in outcome.out and "Traceback" not in outcome.err
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((httpx.URL(server[1]).host, httpx.URL(server[1]).port))
