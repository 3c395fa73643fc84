import os

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
