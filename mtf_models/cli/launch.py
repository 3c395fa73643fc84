"""`mtf launch`."""

from __future__ import annotations

import argparse
import os
import sys

from mtf_models.cli.arguments import not_negative, positive
from mtf_models.cli.several import TOGETHER
from mtf_models.errors import ConfigError
from mtf_models.processes.active import SILENCE_VARIABLE, START_VARIABLE
from mtf_models.processes.cluster import TF_CONFIG, Cluster, from_environment
from mtf_models.processes.launcher import free_addresses, launch
from mtf_models.processes.meeting import SILENCE_SECONDS, START_SECONDS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.usage = f"mtf launch [options] -- {{{','.join(TOGETHER)}}} ..."
    here = parser.add_argument_group("on this machine alone")
    here.add_argument("--processes", type=positive, metavar="N", help="how many to start")
    hosts = parser.add_argument_group(f"on several machines (or {TF_CONFIG} says it)")
    hosts.add_argument(
        "--addresses",
        metavar="HOST:PORT,...",
        help="of all processes, in the same order everywhere; the first one leads and reports",
    )
    hosts.add_argument(
        "--index", type=not_negative, metavar="I", help="which of them to start here, from 0"
    )
    waiting = parser.add_argument_group("waiting")
    waiting.add_argument(
        "--start_timeout",
        type=positive,
        metavar="SECONDS",
        help=f"how long processes wait for each other at the start (default: {START_SECONDS:g})",
    )
    waiting.add_argument(
        "--silence_timeout",
        type=positive,
        metavar="SECONDS",
        help="after how long without a sign of life a process is given up "
        f"(default: {SILENCE_SECONDS:g})",
    )


def run(args: argparse.Namespace) -> int:
    """Starts the processes, waits for them, and returns the exit status."""
    if not args.words:
        raise ConfigError(
            "There is nothing to launch: write the command after --, for example "
            "mtf launch --processes=2 -- train --gin_file=examples/g2p_tiny.gin --model_dir=runs/a."
        )
    environment = dict(os.environ)
    for variable, flag in (
        (START_VARIABLE, "start_timeout"),
        (SILENCE_VARIABLE, "silence_timeout"),
    ):
        if hasattr(args, flag):
            environment[variable] = str(getattr(args, flag))
    command = [sys.executable, "-m", "mtf_models.cli.main", *args.words]
    return launch(_clusters(args), command, environment)


def _clusters(args: argparse.Namespace) -> list[Cluster]:
    """Which processes to start here.

    Raises:
        ConfigError: if the flags do not say it, or say it twice.
    """
    given = [name for name in ("processes", "addresses", "index") if hasattr(args, name)]
    named = from_environment(os.environ)
    if given and named is not None:
        raise ConfigError(
            f"--{given[0]} is given, and {TF_CONFIG} speaks of {named.count} processes: drop the "
            f"flag, or unset {TF_CONFIG}."
        )
    if given == ["processes"]:
        addresses = free_addresses(args.processes)
        return [Cluster(addresses, index) for index in range(args.processes)]
    if given == ["addresses", "index"]:
        addresses = tuple(address.strip() for address in args.addresses.split(","))
        return [Cluster(addresses, args.index)]
    if named is not None:
        return [named]
    said = " and ".join(f"--{name}" for name in given) or f"neither flags nor {TF_CONFIG}"
    raise ConfigError(
        f"Which processes to start is not clear from {said}: give --processes=N for processes of "
        "this machine, or --addresses=HOST:PORT,... and --index=I on each machine."
    )
