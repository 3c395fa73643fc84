import os
import platform
import subprocess
import sys

import pytest

from mtf_models import machine


@pytest.mark.parametrize(
    ("cpuinfo", "found"),
    [
        ("processor : 0\nflags : fpu avx512f avx512_bf16 amx_bf16\n", ("avx512_bf16", "amx_bf16")),
        ("processor\t: 0\nFeatures\t: fp asimd bf16 i8mm\n", ("bf16",)),
        ("processor : 0\nflags : fpu sse2 avx2\n", ()),
        ("", ()),
    ],
)
def test_bfloat16_instructions(tmp_path, cpuinfo, found):
    path = tmp_path / "cpuinfo"
    path.write_text(cpuinfo)
    assert machine.bfloat16_instructions(path) == found


def test_a_system_without_cpuinfo_tells_nothing(tmp_path):
    assert machine.bfloat16_instructions(tmp_path / "absent") == ()


def test_processors_and_memory():
    assert 1 <= machine.cpu_count() <= os.cpu_count()
    assert machine.memory_bytes() > 2**30


PROGRAM = """
import mtf_models as mtf
mesh = mtf.Mesh("")
x = mtf.ones(mesh, "a:512 b:512")
print(mtf.reduce_max(mtf.einsum([x, mtf.ones(mesh, "b:512 c:512")], "a:512 c:512")).numpy())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="is for x86 processors")
@pytest.mark.parametrize(("given", "is_used"), [(None, True), ("0", False)])
def test_tensorflow_is_asked_for_onednn_unless_it_is_refused(given, is_used):
    environment = {**os.environ, "ONEDNN_VERBOSE": "1"}
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    if given is not None:
        environment["TF_ENABLE_ONEDNN_OPTS"] = given
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert float(done.stdout.splitlines()[-1]) == 512
    assert ("512x512:512x512" in done.stdout) == is_used  # Else it only multiplies blocks.
