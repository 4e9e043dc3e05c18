"""What all of Apache Kafka's console tools have: which broker, and by which properties."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from dataclasses import dataclass

from pybroker.cli.parser import OneLineParser


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a command of pybroker's; `stdin` where it asks for a secret."""

    name: str
    arguments: list[str]
    stdin: str | None = None


class CannotTranslate(Exception):
    """What a tool is asked for that pybroker has no command for."""


def tool_parser(tool: str) -> ArgumentParser:
    """A parser of what all tools take."""
    parser = OneLineParser(prog=tool, allow_abbrev=False)
    parser.add_argument("--bootstrap-server", "--bootstrap-servers", "--broker-list", dest="bootstrap")
    parser.add_argument("--zookeeper")
    parser.add_argument("--command-config", "--consumer.config", "--producer.config", dest="config")
    parser.add_argument("--force", action="store_true")
    return parser


def connection_words(options: object) -> list[str]:
    """What all tools take, as options of pybroker's commands."""
    if getattr(options, "zookeeper", None):
        print("there is no ZooKeeper: the broker on localhost:9092 is asked", file=sys.stderr)
    words = []
    if bootstrap := getattr(options, "bootstrap", None):
        words += ["--bootstrap-server", _addresses(bootstrap, options)]
    if config := getattr(options, "config", None):
        words += ["--command-config", config]
    return words


def _addresses(bootstrap: str, options: object) -> str:
    """Without the listeners' names; where these stand there, and nothing says how to log in, those of PLAINTEXT."""
    each = bootstrap.split(",")
    plain = [address for address in each if address.startswith("PLAINTEXT://")]
    chosen = plain if plain and not getattr(options, "config", None) else each
    return ",".join(address.rpartition("://")[2] for address in chosen)
