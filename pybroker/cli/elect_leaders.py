"""`pybroker elect-leaders`: let preferred replicas lead again, or replicas that are not in sync (KIP-460)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.client.assignments import parse_partitions, read_plan
from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.option_values import natural

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker elect-leaders --all-topic-partitions
  pybroker elect-leaders --topic orders --partition 0 --election-type unclean    (records may be lost)"""
_TYPES = ("preferred", "unclean")
_ELECTED, _NOT_NEEDED = "elected", "leads already"


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker elect-leaders", "Elect leaders of partitions.", _EXAMPLES)
    parser.add_argument("--election-type", type=str.lower, choices=_TYPES, default="preferred", help="(preferred)")
    parser.add_argument("--topic", metavar="TOPIC")
    parser.add_argument("--partition", type=natural, metavar="N", help="of the topic; without it all of them")
    parser.add_argument("--all-topic-partitions", action="store_true", help="all partitions of the cluster")
    parser.add_argument("--path-to-json-file", type=Path, metavar="FILE", help="the partitions, in Kafka's JSON")
    parser.add_client_options()
    parser.set_defaults(run=_elect)
    return parser


def _elect(session: Session, options: argparse.Namespace) -> None:
    if (options.topic is not None) + options.all_topic_partitions + (options.path_to_json_file is not None) != 1:
        raise UsageError("one of --topic, --all-topic-partitions and --path-to-json-file")
    places = None if options.topic is None else {options.topic: _partitions(session, options.topic, options.partition)}
    if options.path_to_json_file is not None:
        places = parse_partitions(read_plan(options.path_to_json_file))
    with session.administration() as client:
        answer = client.ask(
            "elect_leaders", _TYPES.index(options.election_type), topic_partitions=places, raise_errors=False
        )
    client.check(answer)
    rows = [
        {"topic": topic.topic, "partition": each.partition_id, "result": _result(each.error_code)}
        for topic in sorted(answer.replica_election_results, key=lambda each: each.topic)
        for each in sorted(topic.partition_result, key=lambda each: each.partition_id)
    ]
    if rows or options.json:
        show(rows, as_json=options.json)
    else:
        print("All partitions have that leader already.")
    wrong = [row for row in rows if row["result"] not in (_ELECTED, _NOT_NEEDED)]
    if wrong:
        raise CommandError(f"{len(wrong)} of {len(rows)} elections failed: {wrong[0]['result']}")


def _partitions(session: Session, topic: str, partition: int | None) -> list[int]:
    """Return the partitions to ask for. Raises CommandError if there is none."""
    from pybroker.cli.topics import describe

    (described,) = describe(session, [topic])
    found = [each.id for each in described.partitions]
    if partition is not None and partition not in found:
        raise CommandError(f"topic {topic} has no partition {partition}")
    return found if partition is None else [partition]


def _result(code: int) -> str:
    """Return the result of an election in words."""
    from confluent_kafka import KafkaError

    if code in (KafkaError.NO_ERROR, KafkaError.ELECTION_NOT_NEEDED):
        return _NOT_NEEDED if code else _ELECTED
    return KafkaError(code).str().removeprefix("Broker: ")
