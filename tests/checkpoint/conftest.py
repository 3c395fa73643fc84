"""A few small variables, and what is expected of them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import mtf_models.mesh as mtf

LAYOUT = "d_ff:model,vocab:model,batch:batch"
SHAPES = {
    "shared/embedding": "vocab:16 d_model:6",
    "encoder/wi/kernel": "d_model:6 d_ff:8",
    "encoder/wi/kernel_slot_vr": "d_model:6",
    "encoder/scale": "d_model:6",
    "temperature": "",
}


@pytest.fixture
def make_variables():
    """Makes variables on a mesh; their initial values depend on the seed."""

    def make(mesh="", seed=0, shapes=SHAPES, dtype=tf.float32):
        store = mtf.VariableStore(mtf.Mesh(mesh, layout=LAYOUT), seed=seed)
        with store.eager():
            for name, shape in shapes.items():
                mtf.get_variable(store.mesh, name, shape, dtype, initializer=_numbers)
        return store.variables

    return make


def _numbers(sizes, seed):
    return tf.random.stateless_normal(sizes, seed)


@pytest.fixture
def hashes():
    """The content of every file of a folder, by path."""

    def of(folder):
        files = {str(f.relative_to(folder)): f for f in Path(folder).rglob("*") if f.is_file()}
        return {path: hashlib.sha256(f.read_bytes()).hexdigest() for path, f in files.items()}

    return of


@pytest.fixture
def values():
    """The values of variables, by name."""

    def of(variables):
        return {name: np.array(variable.numpy()) for name, variable in variables.items()}

    return of
