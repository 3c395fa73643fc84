"""Calls signatures of a SavedModel in a process that has TensorFlow and nothing of ours.

python bare_tensorflow.py FOLDER CALLS: CALLS is JSON, a list of [signature, arguments]. What they
return is printed as JSON. Operations that TensorFlow alone does not have could not be loaded.
"""

import json
import os
import socket
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
ABSENT = ("mtf_models", "gin", "seqio", "t5", "tensorflow_datasets", "sentencepiece")


class NotInstalled:
    """Finds modules before any other finder, and has none of these."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def offline(*args, **kwargs):
    raise OSError("there is no network")


sys.meta_path.insert(0, NotInstalled())
socket.socket.connect = offline

import tensorflow as tf  # noqa: E402


def tensors(arguments):
    dtypes = {"seed": tf.int64}
    return {n: tf.constant(x, dtypes.get(n, tf.string)) for n, x in arguments.items()}


def plain(value):
    texts = value.dtype == tf.string
    decode = lambda x: [*map(decode, x)] if isinstance(x, list) else x.decode()  # noqa: E731
    return decode(value.numpy().tolist()) if texts else value.numpy().tolist()


def devices(folder):
    """The devices that the graphs of the signatures name."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        graph = SavedModel.FromString(file.read()).meta_graphs[0].graph_def
    # Functions that save and restore run on the host.
    functions = [f for f in graph.library.function if "_traced_" not in f.signature.name]
    return sorted({node.device for f in functions for node in f.node_def})


if __name__ == "__main__":
    folder, calls = sys.argv[1:3]
    model = tf.saved_model.load(folder)
    returned = [model.signatures[name](**tensors(given)) for name, given in json.loads(calls)]
    found = [{name: plain(value) for name, value in values.items()} for values in returned]
    print(
        json.dumps(
            {
                "found": found,
                "signatures": sorted(model.signatures),
                "devices": devices(folder),
                "loaded": [name for name in ABSENT if name in sys.modules],
            }
        )
    )
