"""Files as a SeqIO source: every format and compression, every fault with its file and line."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
import seqio
import tensorflow as tf

from mtf_models.data.files.content import matching
from mtf_models.data.files.source import FileSource
from mtf_models.errors import DataError

FEATURES = ("inputs", "targets")
PAIRS = [("a", "b"), ("caf\u00e9", "\u65e5\u672c"), ("two words", "x")]
BAD = b"a\tb\nonly one field\nc\td\te\n\nf\tg\r\nlast\tline"


def examples(files, features=FEATURES, **options):
    source = FileSource({"train": files}, features, **options)
    dataset = source.get_dataset("train", shuffle=False)
    return [{n: v for n, v in e.items()} for e in dataset.as_numpy_iterator()]


def texts(files, **options):
    return [tuple(e[n].decode() for n in FEATURES) for e in examples(files, **options)]


def tsv(pairs):
    return "".join(f"{a}\t{b}\n" for a, b in pairs).encode()


def tf_record(path, rows, **options):
    def feature(value):
        if isinstance(value, list):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    with tf.io.TFRecordWriter(str(path), **options) as writer:
        for row in rows:
            features = tf.train.Features(feature={n: feature(v) for n, v in row.items()})
            writer.write(tf.train.Example(features=features).SerializeToString())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", tsv(PAIRS)),
        ("a.tsv", b"\xef\xbb\xbf" + tsv(PAIRS).rstrip(b"\n").replace(b"\n", b"\r\n")),
        ("a.tsv", b"inputs\ttargets\n" + tsv(PAIRS)),
        ("a.csv", 'a,b\r\ncaf\u00e9,\u65e5\u672c\r\n"two words",x'.encode()),
        ("a.csv", "targets,id,inputs\nb,1,a\n\u65e5\u672c,2,caf\u00e9\nx,3,two words\n".encode()),
        (
            "a.jsonl",
            "".join(
                json.dumps({"n": 1, "inputs": a, "targets": b}) + "\n" for a, b in PAIRS
            ).encode(),
        ),
    ],
)
@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_formats_and_compressions(tmp_path, name, content, suffix, compress):
    path = tmp_path / (name + suffix)
    path.write_bytes(compress(content))
    assert texts(str(path)) == PAIRS


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.tfrecord", {}),
        ("a.tfrecord-00000-of-00001", {}),
        ("a.tfrecord.gz", {"options": tf.io.TFRecordOptions("GZIP")}),
    ],
)
def test_tf_records(tmp_path, name, options):
    tf_record(tmp_path / name, [{"inputs": a, "targets": b} for a, b in PAIRS], **options)
    assert texts(str(tmp_path / name)) == PAIRS


def test_quoted_fields_of_csv_hold_commas_quotes_and_line_ends(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"one, two","say ""hi"""\n"two\nlines",b\nplain,"no end\n')
    with pytest.raises(DataError, match=r"a.csv:4: not CSV \(unexpected end of data\)"):
        texts(str(path))
    assert texts(str(path), on_bad="skip") == [("one, two", 'say "hi"'), ("two\nlines", "b")]


def test_paragraphs_of_plain_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("first\n\nsecond\tfield\nlast")
    found = [e["targets"] for e in examples(str(path), ["targets"])]
    assert found == [b"first", b"second\tfield", b"last"]


def test_columns_by_name_and_number(tmp_path):
    (tmp_path / "a.tsv").write_text("id\tquestion\tanswer\n1\tq\ta\n")
    path = str(tmp_path / "a.tsv")
    named = {"inputs": "question", "targets": "answer"}
    assert texts(path, columns=named) == [("q", "a")]
    assert texts(path, columns={"inputs": 2, "targets": 1})[1] == ("q", "1")
    with pytest.raises(DataError, match="names no column 'anser'; did you mean answer?"):
        texts(path, columns={"inputs": "question", "targets": "anser"})
    with pytest.raises(DataError, match="no column 4: its first line has 3"):
        texts(path, columns={"inputs": 1, "targets": 4})
    with pytest.raises(DataError, match="Columns are given for labels"):
        texts(path, columns={"labels": 1})


def test_lines_that_do_not_fit_are_listed_with_file_and_line(tmp_path):
    path = tmp_path / "file.tsv"
    path.write_bytes(BAD)
    with pytest.raises(DataError) as caught:
        texts(str(path))
    assert str(caught.value).splitlines()[1:4] == [
        f"  {path}:2: expected 2 fields, found 1: 'only one field'",
        f"  {path}:3: expected 2 fields, found 3: 'c\\td\\te'",
        f"  {path}:4: empty line",
    ]


def test_lines_that_do_not_fit_are_skipped_and_counted_by_reason(tmp_path, caplog):
    path = tmp_path / "file.tsv"
    path.write_bytes(BAD + b"\nx\ny\n\xff\tz\n")
    assert texts(str(path), on_bad="skip") == [("a", "b"), ("f", "g"), ("last", "line")]
    (message,) = caplog.messages
    assert message == (
        f"Skipped 6 of 9 lines of {path}: 3 × expected 2 fields, found 1; "
        "1 × expected 2 fields, found 3; 1 × empty line; 1 × not UTF-8."
    )


def test_of_several_files_the_bad_and_the_empty_ones_are_named(tmp_path, caplog):
    for name, content in (("a", b"a\tb\nc\td\n"), ("b", b"e\tf\nx\n"), ("c", b""), ("d", b"")):
        (tmp_path / f"{name}.tsv").write_bytes(content)
    assert len(texts(str(tmp_path / "*.tsv"), on_bad="skip")) == 3
    bad, *empty = (str(tmp_path / f"{name}.tsv") for name in "bcd")
    assert caplog.messages == [
        f"Skipped 1 of 2 lines of {bad}: 1 × expected 2 fields, found 1.",
        f"{', '.join(empty)}: no line there; the other files are read.",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"", "a.tsv is empty: it has no line."),
        ("a.tsv", b"inputs\ttargets\n", "a.tsv is empty: it has no line."),
        ("a.tsv", b"a\tb\n\xe9\tc\n", "a.tsv:2: not UTF-8: it has the byte 0xe9"),
        ("a.jsonl", b'{"inputs": "a"}\n', "a.jsonl:1: no 'targets': it has inputs"),
        ("a.jsonl", b"nothing\n", "a.jsonl:1: not JSON"),
        ("a.jsonl", b'{"inputs": "a", "targets": null}', "a text under 'targets': found None"),
        ("a.jsonl", b'{"inputs": [9], "targets": "a"}', "ids of inputs beyond the vocabulary of 9"),
        ("a.jsonl", b'{"inputs": [-1], "targets": "a"}', "token ids that are none"),
        (
            "a.jsonl",
            b'{"inputs": [3], "targets": "a"}\n{"inputs": "a", "targets": "a"}\n',
            "a.jsonl:2: inputs are text: those of rows before are ids",
        ),
        ("a.txt", b"a\n", "a.txt is plain text, which has one field a line"),
        ("a.tsv.gz", b"a\tb\n", "a.tsv.gz is not a whole .gz file"),
        ("a.tsv.gz", gzip.compress(b"a\tb\n", mtime=0)[:-9], "a.tsv.gz is not a whole .gz file"),
        ("a.tfrecord", b"no record at all, but longer than a header", "record 1 is damaged"),
        ("a.tfrecord.bz2", b"", "TFRecord files are plain or .gz, not .bz2"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        texts(str(path), sizes={"inputs": 9})
    assert message in str(caught.value)


def test_a_file_of_which_no_line_fits(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("x\ny\n")
    with pytest.raises(DataError, match="is empty: it has no line but 2 that do not fit"):
        texts(str(path), on_bad="skip")


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="none.tsv cannot be read: No such file"):
        texts(str(tmp_path / "none.tsv"))
    with pytest.raises(DataError, match=r"No file matches .*/\*.tsv"):
        texts(str(tmp_path / "*.tsv"))
    with pytest.raises(DataError, match="no split 'dev'; there are train"):
        FileSource({"train": "a.tsv"}, FEATURES).get_dataset("dev")


def test_globs_name_files_in_order(tmp_path):
    for name in ("part-2.tsv", "part-10.tsv", "part-1.tsv", "other.tsv"):
        (tmp_path / name).write_text(f"{name}\t{name}\n")
    found = matching(str(tmp_path / "part-*.tsv"))
    assert [f.rpartition("/")[2] for f in found] == ["part-1.tsv", "part-10.tsv", "part-2.tsv"]
    assert [a for a, _ in texts(str(tmp_path / "part-*.tsv"))] == [
        "part-1.tsv",
        "part-10.tsv",
        "part-2.tsv",
    ]


def test_token_ids_are_taken_as_they_are(tmp_path):
    rows = [{"inputs": [5, 6, 1], "targets": [7, 1]}, {"inputs": [8], "targets": [1]}]
    tf_record(tmp_path / "a.tfrecord", rows)
    found = examples(str(tmp_path / "a.tfrecord"))
    # The end of sequence is left to the task, which appends one to every example.
    assert [e["inputs"].tolist() for e in found] == [[5, 6], [8]]
    assert [e["targets"].tolist() for e in found] == [[7], []]
    assert found[0]["inputs"].dtype == np.int32


def test_shuffled_rows_depend_on_the_seed_and_shards_share_them_out(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{i}\t{i}\n" for i in range(1000)))
    source = FileSource({"train": str(path)}, FEATURES)

    def order(seed, shard=None):
        dataset = source.get_dataset("train", shuffle=True, seed=seed, shard_info=shard)
        return [int(e["inputs"]) for e in dataset.as_numpy_iterator()]

    assert source.num_input_examples("train") == 1000
    first = order(3)
    assert first == order(3) != order(4)
    assert sorted(first) == list(range(1000))
    # Shuffled as a whole: a buffer could not move the last rows to the front.
    assert max(first[:20]) > 800 and min(first[:20]) < 200
    shards = [order(3, seqio.ShardInfo(k, 3)) for k in range(3)]
    assert [shard for shard in shards] == [first[k::3] for k in range(3)]
