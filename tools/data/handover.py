"""`pybroker cluster handover`: name new voters in a stopped node's metadata log, and give each of them the log.

It prints what it finds, what it will do, and what is left to do by hand. Exit codes: 0 if the handover is possible or
done, 1 if there are problems.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from config import BrokerConfig, ConfigError, load
from controller.handover import NewVoter, Outlook, hand_over, inspect_handover
from controller.metadata_log import MetadataLogDamaged
from pybroker.cli.exit_codes import end
from pybroker.cli.handover import ABOUT, add_options
from pybroker.cli.parser import OneLineParser
from runtime.ids import random_id
from storage.errors import StorageError

_SERVERS = "controller.quorum.bootstrap.servers"


class Line(NamedTuple):
    """A line of the output. `kind` is found, problem, will, done, then, or a line of a file: `property`."""

    kind: str
    text: str


def command_line() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = OneLineParser(prog="pybroker cluster handover", description=ABOUT)
    add_options(parser)
    return parser


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _found(config: BrokerConfig, outlook: Outlook) -> Iterator[Line]:
    topics = outlook.image.topics_by_name.values()
    partitions = sum(len(each.partitions) for each in topics)
    yield Line(
        "found",
        f"Node {config.node_id} of cluster {outlook.cluster_id} has {outlook.end_offset} records of metadata, leader"
        f" epoch {outlook.epoch}: {_count(len(topics), 'topic')}, {_count(partitions, 'partition')}.",
    )
    if outlook.is_named:
        yield Line("found", "The log names the new voters already: an interrupted handover is continued.")


def _work(config: BrokerConfig, voters: Sequence[NewVoter], outlook: Outlook, kind: str) -> Iterator[Line]:
    source = config.metadata_log_dir.rstrip("/")
    names = ", ".join(str(each.node_id) for each in voters)
    yield Line(kind, f"The metadata log in {source} names {names} as its voters.")
    for each in voters:
        if each.directory == source:
            continue
        how = "gets the rest" if each.node_id in outlook.kept else "gets a copy"
        yield Line(kind, f"{each.directory}, the directory of node {each.node_id}, {how} of the log.")
    if config.node_id not in [each.node_id for each in voters]:
        yield Line(
            kind, f"Node {config.node_id} is no voter any more. It keeps its directories, and cannot lead again."
        )


def _next_steps(config: BrokerConfig, voters: Sequence[NewVoter], outlook: Outlook, listener: str) -> Iterator[Line]:
    servers = ",".join(f"{each.host}:{each.port}" for each in voters)
    brokers = outlook.image.brokers
    for each in voters:
        is_broker = each.node_id in brokers
        yield Line("then", f"Node {each.node_id} has {each.directory} on {each.host}, and these properties:")
        yield Line("property", f"process.roles={'broker,controller' if is_broker else 'controller'}")
        yield Line("property", f"node.id={each.node_id}")
        yield Line("property", f"{_SERVERS}={servers}")
        yield Line("property", f"controller.listener.names={listener}")
        if not is_broker:
            yield Line("property", f"listeners={listener}://:{each.port}")
            yield Line("property", f"advertised.listeners={listener}://{each.host}:{each.port}")
            yield Line("property", f"log.dirs={each.directory}")
    remain = sorted(brokers.keys() - {each.node_id for each in voters})
    if remain:
        names = ", ".join(map(str, remain))
        yield Line("then", f"Brokers ({names}) have these properties, and no controller.quorum.voters:")
        yield Line("property", "process.roles=broker")
        yield Line("property", f"{_SERVERS}={servers}")
        yield Line("property", f"controller.listener.names={listener}")
    yield Line(
        "then", "Start the controllers first, then the brokers. No file may name the former controller any more."
    )


def _lines(config: BrokerConfig, options: Namespace, now_ms: int) -> Iterator[Line]:
    voters = [NewVoter(*each) for each in options.voter]
    listener = next(iter(config.get_list("controller.listener.names")), "CONTROLLER")
    outlook = inspect_handover(config, voters, now_ms)
    yield from _found(config, outlook)
    if outlook.problems:
        yield from (Line("problem", f"{each}.") for each in outlook.problems)
        return
    if options.execute:
        hand_over(config, voters, listener, new_id=random_id, now_ms=now_ms)
        yield from _work(config, voters, outlook, "done")
    else:
        yield from _work(config, voters, outlook, "will")
        yield Line("found", "Nothing is changed: that is done with --execute.")
    yield from _next_steps(config, voters, outlook, listener)


def _show(line: Line, as_json: bool) -> None:
    if as_json:
        print(json.dumps(line._asdict()))
    else:
        lead = {"problem": "Problem: ", "will": "Will do: ", "done": "Done: ", "property": "    "}.get(line.kind, "")
        print(lead + line.text)


def _of_voter(path: str) -> BrokerConfig:
    """Load a configuration, of Apache Kafka's controllers too, which names all of them for brokers to find."""
    return load(path, environ=os.environ, overrides={_SERVERS: ""})


def main(argv: Sequence[str] | None = None) -> int:
    """Print the checks and steps, do them with --execute, and return the exit code."""
    options = command_line().parse_args(argv)
    has_problem = False
    try:
        for line in _lines(_of_voter(options.config), options, time.time_ns() // 1_000_000):
            _show(line, options.json)
            has_problem = has_problem or line.kind == "problem"
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 1
    except (StorageError, MetadataLogDamaged) as error:
        print(f"pybroker cluster handover: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"pybroker cluster handover: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 1
    except UnicodeDecodeError as error:
        print(f"pybroker cluster handover: {options.config}: {error}", file=sys.stderr)
        return 1
    return 1 if has_problem else 0


if __name__ == "__main__":
    end(main)
