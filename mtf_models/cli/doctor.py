"""`mtf doctor`: is everything here that the package needs, and is it what it claims to be?"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass, field
from importlib import metadata

from mtf_models import gin_files, installation, machine
from mtf_models.cli.start import start_tensorflow

SHOWN_FILES = 3


@dataclass
class Findings:
    """What was found.

    Attributes:
        versions: library to version; None where it is not installed.
        machine: property to what this machine has.
        folders: purpose to path.
        faults: what is wrong, each with what to do.
    """

    versions: dict[str, str | None] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Examines, prints the findings, and returns 0 if nothing is wrong, else 1."""
    findings = examine()
    if hasattr(args, "json"):
        print(json.dumps(asdict(findings), indent=2))
    else:
        print(report(findings))
    return 1 if findings.faults else 0


def examine() -> Findings:
    """Looks at libraries, files, folders and devices."""
    findings = Findings(versions=installation.versions())
    findings.faults += installation.unmet_requirements()
    findings.faults += overlaps(findings.versions)
    _examine_gin(findings)
    _examine_machine(findings)
    _examine_data(findings)
    return findings


def report(findings: Findings) -> str:
    """The findings as text, the faults last."""
    sections = {
        "Versions": {name: found or "not installed" for name, found in findings.versions.items()},
        "Machine": findings.machine,
        "Folders": findings.folders,
    }
    width = max(len(name) for section in sections.values() for name in section)
    lines = []
    for title, section in sections.items():
        lines += [title, *(f"  {name:<{width}}  {found}" for name, found in section.items())]
    if not findings.faults:
        return "\n".join([*lines, "All is well."])
    numbered = [f"  {i}. {fault}" for i, fault in enumerate(findings.faults, 1)]
    return "\n".join([*lines, "Faults", *numbered])


def overlaps(versions: dict[str, str | None]) -> list[str]:
    """A fault for each release whose installed files are not its own, and how to mend it.

    Args:
        versions: library to version; None where it is not installed.
    """
    faults = []
    for name in installation.OVERLAPPED:
        if versions[name] is None:
            continue
        changed = installation.changed_files(metadata.distribution(name))
        if changed:
            shown = ", ".join(changed[:SHOWN_FILES])
            more = len(changed) - SHOWN_FILES
            faults.append(
                f"{len(changed)} files of {name} {versions[name]} are not as released, as happens "
                f"when a nightly build is laid over them: {shown}"
                + (f" and {more} more" if more > 0 else "")
                + f". Run: {installation.mending_command([name])}"
            )
    return faults


def _examine_gin(findings: Findings) -> None:
    findings.folders["gin files"] = str(gin_files.folder())
    findings.folders["gin files of t5"] = str(installation.t5_gin_folder() or "none")
    wrong = installation.gin_origin()
    if wrong is not None:
        findings.faults.append(
            f"`import gin` leads to {wrong}, not to gin-config: remove or rename that module, or "
            f"run: {installation.mending_command(['gin-config'])}"
        )


def _onednn() -> str:
    """Whether TensorFlow multiplies by oneDNN, as far as the environment says."""
    value = os.environ.get(machine.ONEDNN_VARIABLE)
    if value is None:
        return "as TensorFlow decides"
    return f"{'off' if value in ('0', 'false') else 'on'} ({machine.ONEDNN_VARIABLE}={value})"


def _examine_machine(findings: Findings) -> None:
    findings.machine["processors"] = str(machine.cpu_count())
    findings.machine["memory"] = f"{machine.memory_bytes() / 2**30:.1f} GiB"
    instructions = ", ".join(machine.bfloat16_instructions())
    findings.machine["bfloat16"] = instructions or "no instructions for it"
    findings.machine["oneDNN"] = _onednn()
    try:
        start_tensorflow()
        import tensorflow as tf
    except Exception as error:
        findings.faults.append(f"tensorflow cannot be imported: {type(error).__name__}: {error}")
        return
    findings.machine["devices"] = ", ".join(
        device.name.removeprefix("/physical_device:")
        for device in tf.config.list_physical_devices()
    )


def _examine_data(findings: Findings) -> None:
    try:
        from mtf_models.data import prepared
    except Exception as error:
        findings.faults.append(f"seqio cannot be imported: {type(error).__name__}: {error}")
        return
    findings.folders["prepared data"] = str(prepared.data_dir())
