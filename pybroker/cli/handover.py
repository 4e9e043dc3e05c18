"""`pybroker cluster handover`: other controllers take over from the only one. The work is in tools/data/handover.py."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from pybroker.engine_process import command

ABOUT = "check, and with --execute do, a handover of the metadata log to other controllers, while all are stopped"


class VoterOption(NamedTuple):
    """A value of --voter."""

    node_id: int
    host: str
    port: int
    directory: str


def voter(text: str) -> VoterOption:
    """Parse ID@HOST:PORT=DIRECTORY. Raises ArgumentTypeError."""
    address, _, directory = text.partition("=")
    number, _, endpoint = address.partition("@")
    host, _, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (number.isdecimal() and host and port.isdecimal() and 0 < int(port) < 1 << 16 and directory.startswith("/")):
        raise argparse.ArgumentTypeError(f"{text} is not ID@HOST:PORT=DIRECTORY, with an absolute directory")
    return VoterOption(int(number), host, int(port), directory.rstrip("/"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the action."""
    parser.add_argument("config", metavar="CONFIG", help="the properties of the present voter, which is stopped")
    parser.add_argument(
        "--voter",
        type=voter,
        action="append",
        required=True,
        metavar="ID@HOST:PORT=DIRECTORY",
        help="a voter from then on, the address of its controller listener, and a directory on this machine that is new"
        " or the voter's own; can be repeated",
    )
    parser.add_argument("--execute", action="store_true", help="do it; without this, nothing is changed")
    parser.add_argument("--json", action="store_true", help="print one object a line")


def main(arguments: Sequence[str]) -> int:
    """Run the action in a process of the engine, and return its exit code."""
    return subprocess.call(command("tools.data.handover", arguments))
