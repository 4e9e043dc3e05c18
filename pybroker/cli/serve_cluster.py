"""`pybroker serve --brokers N`: a controller and brokers on loopback, for tests in any language (pybroker.testing)."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.option_values import key_value, positive
from pybroker.cli.parser import OneLineParser
from pybroker.testing.cluster import Cluster
from pybroker.testing.errors import BrokerError

if TYPE_CHECKING:
    from types import FrameType

_STDIN = 0
_AT_ONCE = 65_536
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Keys that each node has a value of its own for.
_OF_NODES = frozenset(
    {
        *("listeners", "advertised.listeners", "log.dir", "log.dirs", "metadata.log.dir", "node.id", "broker.id"),
        *("process.roles", "broker.rack", "controller.listener.names", "controller.quorum.bootstrap.servers"),
    }
)


class _Ended(Exception):
    """A signal ends the cluster."""


def command_line() -> OneLineParser:
    """Return the parser of `pybroker serve --brokers`. The broker's help has a sentence about each option."""
    parser = OneLineParser(prog="pybroker serve", add_help=False, allow_abbrev=False)
    parser.add_argument("--brokers", type=positive, required=True)
    parser.add_argument("--racks", type=lambda text: [each.strip() for each in text.split(",")], default=[])
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--override", type=_shared, action="append", default=[])
    for flag in ("--ephemeral", "--print-json", "--until-stdin-ends", "--control"):
        parser.add_argument(flag, action="store_true")
    return parser


def _shared(text: str) -> tuple[str, str]:
    """KEY=VALUE for all nodes."""
    key, value = key_value(text)
    if key in _OF_NODES:
        raise argparse.ArgumentTypeError(f"{key}: with --brokers each node has its own")
    return key, value


def main(arguments: Sequence[str]) -> int:
    """Run a cluster until a signal, or the end of standard input, ends it. Return the exit code."""
    options = command_line().parse_args(arguments)
    cluster = Cluster(options.brokers, dict(options.override), racks=options.racks, directory=options.directory)
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _on_signal)
    try:
        cluster.start()
        for broker in cluster.brokers:
            _print({**broker.announcement, "node_id": broker.node_id, "rack": broker.rack})
        _wait(cluster, options)
    except _Ended:
        pass
    except BrokerError as error:
        sys.stderr.write(f"pybroker serve: {error}\n")
        return 1
    finally:
        cluster.stop()
    return 0


def _on_signal(number: int, frame: FrameType | None) -> None:
    for each in _ENDING:  # the end is under way: a kept cluster shuts down cleanly
        signal.signal(each, signal.SIG_IGN)
    raise _Ended


def _print(line: object) -> None:
    with suppress(OSError):  # the reader has closed it
        print(json.dumps(line), flush=True)


def _wait(cluster: Cluster, options: argparse.Namespace) -> None:
    """Return at the end of standard input, if that ends the cluster; else never."""
    if not (options.control or options.until_stdin_ends):
        while True:
            signal.pause()
    commands = None
    if options.control:
        from pybroker.testing.cluster_commands import ClusterCommands  # most clusters take none

        commands = ClusterCommands(cluster)
    received = b""
    while more := os.read(_STDIN, _AT_ONCE):
        if commands is None:
            continue
        *lines, received = (received + more).split(b"\n")
        for line in lines:
            if line.strip():
                _print(commands.answer(line))
