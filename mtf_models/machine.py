"""What this machine's processor is and has, found out without TensorFlow."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""x86 with vector and with matrix instructions, Arm."""

ONEDNN_VARIABLE = "TF_ENABLE_ONEDNN_OPTS"
"""TensorFlow reads it when it is loaded."""


def ask_for_onednn() -> None:
    """Has TensorFlow use oneDNN on every x86 processor, unless the environment says otherwise.

    By itself it does where there are instructions for narrow numbers only. Where there are none
    its own products of matrices are slower too: a training step of T5 1.1 small took 1.4 times as
    long without oneDNN on a processor with AVX2.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        os.environ.setdefault(ONEDNN_VARIABLE, "1")


def cpu_count() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """The main memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def bfloat16_instructions(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """The instruction sets for bfloat16 that the processor has.

    Args:
        cpuinfo: the file in which Linux describes the processors.

    Returns:
        Their names as Linux has them; empty if it has none or the system does not tell.
    """
    if not cpuinfo.exists():
        return ()
    for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            flags = value.split()
            return tuple(flag for flag in _BFLOAT16_FLAGS if flag in flags)
    return ()
