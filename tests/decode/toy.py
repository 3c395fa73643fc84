"""A table of next ids with a known answer, as a step that decoding can run."""

import numpy as np

import mtf_models.mesh as mtf
from mtf_models.decode.step import Step

START, EOS, A, B = range(4)
VOCAB = mtf.Dimension("vocab", 4)
FIRST = [0, 0, 0.6, 0.4]
AFTER_A = [0, 0.3, 0.4, 0.3]
END = [0, 1, 0, 0]


class Table(Step):
    """After nothing a or b; after b the end; whatever comes third is the end."""

    def __init__(self):
        self.positions = []

    def __call__(self, previous, position, caches):
        mesh = previous.mesh
        if hasattr(position.value, "numpy"):
            self.positions.append(int(position.numpy()))
        with np.errstate(divide="ignore"):
            table = np.log(np.array([FIRST, END, AFTER_A, END], np.float32))
            end = np.log(np.array(END, np.float32))
        last = mtf.Dimension("last", 4)
        found = mtf.gather(
            mtf.import_tf_tensor(mesh, table, mtf.Shape([last, VOCAB])), previous, last
        )
        # Through a cache: how many ids there are already.
        made = caches.get("made", mtf.zeros(mesh, previous.shape, "int32"))
        end = mtf.import_tf_tensor(mesh, end, [VOCAB])
        third = mtf.greater_equal(made, 2)
        return mtf.where(third, end, found, output_shape=found.shape), {"made": made + 1}
