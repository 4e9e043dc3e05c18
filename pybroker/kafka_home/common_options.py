"""Options that all of Apache Kafka's console tools have: the broker, and the client's properties."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass

from pybroker.cli.client.options import NO_CONTROLLERS
from pybroker.cli.parser import OneLineParser


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a pybroker command.

    `stdin` is its input, if it reads a secret. `question`: it runs only if the user answers y. `failure` is the tool's
    exit code if the command fails; a wrong command line always has 1, and so have the broker's errors with the codes
    `wrong_line_errors`.
    """

    name: str
    arguments: list[str]
    stdin: str | None = None
    question: str = ""
    failure: int = 1
    wrong_line_errors: tuple[int, ...] = ()


class CannotTranslate(Exception):
    """No pybroker command does what the command line asks for."""


class BadCommandLine(CannotTranslate):
    """Kafka's tool refuses the command line too."""


#: The version that the tools print: that of the Apache Kafka whose options they have.
KAFKA_VERSION = "4.4.0"
VERSION_LINE = f"{KAFKA_VERSION} (pybroker)"
"""What --version prints."""


def tool_parser(tool: str, *, older_names: Sequence[str] = ("--broker-list",)) -> ArgumentParser:
    """Return a parser with the options of all tools. `older_names` are those of --bootstrap-server."""
    parser = OneLineParser(prog=tool, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=VERSION_LINE)
    parser.add_argument("--bootstrap-server", "--bootstrap-servers", *older_names, dest="bootstrap")
    parser.add_argument("--bootstrap-controller")
    parser.add_argument("--zookeeper")
    parser.add_argument("--command-config", "--consumer.config", "--producer.config", dest="config")
    parser.add_argument("--force", action="store_true")
    return parser


def connection_words(options: object) -> list[str]:
    """Return the options of all tools as options of pybroker's commands. Raises CannotTranslate."""
    if getattr(options, "bootstrap_controller", None) is not None:
        raise CannotTranslate(NO_CONTROLLERS)
    if getattr(options, "zookeeper", None):
        print("ZooKeeper is not supported: using the broker on localhost:9092", file=sys.stderr)
    words = []
    if bootstrap := getattr(options, "bootstrap", None):
        words += ["--bootstrap-server", _addresses(bootstrap, options)]
    if config := getattr(options, "config", None):
        words += ["--command-config", config]
    return words


def _addresses(bootstrap: str, options: object) -> str:
    """Return the addresses without listener names. With names but no login properties, take those named PLAINTEXT."""
    each = bootstrap.split(",")
    plain = [address for address in each if address.startswith("PLAINTEXT://")]
    chosen = plain if plain and not getattr(options, "config", None) else each
    return ",".join(address.rpartition("://")[2] for address in chosen)
