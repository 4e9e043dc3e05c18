"""`pybroker transactions`: list and describe transactions, find hanging ones and abort them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.option_values import natural, positive

if TYPE_CHECKING:
    from pybroker.cli.client.administration import Administration
    from pybroker.cli.client.session import Place, Session

_EXAMPLES = """\
examples:
  pybroker transactions list --state ongoing
  pybroker transactions describe billing-1
  pybroker transactions find-hanging --topic orders
  pybroker transactions abort --topic orders --partition 0 --start-offset 4711"""

_STATES = ("empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort", "dead")
_MAX_TIMEOUT_MINUTES = 15  # Kafka's transaction.max.timeout.ms
_GRACE_MS = 5 * 60_000  # as kafka-transactions: the coordinator checks for expired transactions periodically


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker transactions", "Transactions of a cluster.", _EXAMPLES)
    listed = parser.add_action("list", _list, "list transactional ids and their states")
    listed.add_argument("--state", choices=_STATES, action="append", help="only these states; can be repeated")
    listed.add_argument("--producer-id", type=natural, action="append", metavar="ID", help="only of these producers")
    described = parser.add_action("describe", _describe, "show producers, times and partitions of transactions")
    described.add_argument("names", nargs="*", metavar="ID")
    described.add_argument("--transactional-id", action="append", default=[], metavar="ID", help="the same")
    found = parser.add_action(
        "find-hanging",
        _find_hanging,
        "find open transactions of partitions that no coordinator knows, and that never end",
    )
    found.add_argument("--topic", action="append", help="only in these topics; can be repeated")
    found.add_argument("--partition", type=natural, metavar="N")
    found.add_argument(
        "--max-transaction-timeout",
        type=positive,
        default=_MAX_TIMEOUT_MINUTES,
        metavar="MINUTES",
        help=f"the cluster's longest timeout: newer transactions are ignored ({_MAX_TIMEOUT_MINUTES})",
    )
    aborted = parser.add_action("abort", _abort, "abort a hanging transaction in a partition")
    aborted.add_argument("--topic", required=True)
    aborted.add_argument("--partition", type=natural, required=True, metavar="N")
    aborted.add_argument(
        "--start-offset", type=natural, required=True, metavar="N", help="the first offset of the transaction"
    )
    return parser


def _list(session: Session, options: argparse.Namespace) -> None:
    with session.administration() as client:
        found = listings(client, options.producer_id, options.state)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": coordinator,
            "producer_id": each.producer_id,
            "state": _word(each.state),
        }
        for coordinator, each in found
    ]
    show(sorted(rows, key=lambda row: str(row["transactional_id"])), as_json=options.json)


def listings(
    client: Administration, producer_ids: Sequence[int] | None = None, states: Sequence[str] | None = None
) -> list[tuple[int, Any]]:
    """Return the transactions of all coordinators, each with its coordinator's id."""
    from kafka.admin import TransactionState

    wanted = [TransactionState[state.upper()].value for state in states or ()]
    found = client.ask("list_transactions", producer_id_filters=producer_ids, state_filters=wanted)
    return [(coordinator, each) for coordinator, of_one in found.items() for each in of_one]


def _describe(session: Session, options: argparse.Namespace) -> None:
    names = list(dict.fromkeys([*options.names, *options.transactional_id]))
    if not names or "" in names:
        raise UsageError("which transactional id?")
    with session.administration() as client:
        found = {name: description(client, name) for name in names}
    rows = [
        {
            "transactional_id": name,
            "coordinator": each.coordinator_id,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "state": _word(each.state),
            "timeout_ms": each.transaction_timeout_ms,
            "start_time": each.transaction_start_time_ms if each.transaction_start_time_ms >= 0 else None,
            "partitions": [f"{place.topic}-{place.partition}" for place in sorted(each.topic_partitions)],
        }
        for name, each in found.items()
    ]
    show(rows, as_json=options.json)


def description(client: Administration, name: str) -> Any:
    return client.ask("describe_transactions", [name], about=name)[name]


def _find_hanging(session: Session, options: argparse.Namespace) -> None:
    if options.partition is not None and len(options.topic or ()) != 1:
        raise UsageError("--partition is one of a single --topic")
    oldest_ms = time.time() * 1000 - options.max_transaction_timeout * 60_000 - _GRACE_MS
    with session.administration() as client:
        places = _places(session, options.topic, options.partition)
        open_since_long = {
            place: [each for each in producers if each.last_timestamp < oldest_ms]
            for place, producers in _open_transactions(client, places).items()
        }
        known = _partitions_by_producer(client, open_since_long)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "start_offset": each.current_transaction_start_offset,
            "last_timestamp": each.last_timestamp,
        }
        for (topic, partition), producers in sorted(open_since_long.items())
        for each in producers
        if (topic, partition) not in known.get(each.producer_id, ())
    ]
    show(rows, as_json=options.json)


def _places(session: Session, topics: Sequence[str] | None, partition: int | None) -> list[Place]:
    from pybroker.cli.topics import describe, describe_all

    found = describe(session, topics) if topics else describe_all(session)
    places = [(topic.name, each.id) for topic in found for each in topic.partitions]
    if partition is None:
        return places
    wanted = (found[0].name, partition)
    if wanted not in places:
        raise CommandError(f"{wanted[0]}: there is no partition {partition}")
    return [wanted]


def _open_transactions(client: Administration, places: Sequence[Place]) -> dict[Place, list[Any]]:
    """Return the producers with an open transaction, by partition."""
    from kafka import TopicPartition

    about = ", ".join(f"{topic}-{partition}" for topic, partition in places) if len(places) == 1 else ""
    found = client.ask("describe_producers", [TopicPartition(*place) for place in places], about=about)
    return {
        (place.topic, place.partition): [
            each for each in state.active_producers if each.current_transaction_start_offset >= 0
        ]
        for place, state in found.items()
    }


def _partitions_by_producer(
    client: Administration, producers: Mapping[Place, Sequence[Any]]
) -> dict[int, frozenset[Place]]:
    """Return the transactions of these producers that the coordinators know."""
    ids = sorted({each.producer_id for of_place in producers.values() for each in of_place})
    if not ids:
        return {}
    return {
        listing.producer_id: frozenset(
            (place.topic, place.partition) for place in description(client, listing.transactional_id).topic_partitions
        )
        for _, listing in listings(client, ids)
    }


def _abort(session: Session, options: argparse.Namespace) -> None:
    from kafka import TopicPartition
    from kafka.admin import AbortTransactionSpec

    place = (options.topic, options.partition)
    name = f"{options.topic}-{options.partition}"
    with session.administration() as client:
        of_place = _open_transactions(client, [place])[place]
        found = [each for each in of_place if each.current_transaction_start_offset == options.start_offset]
        if not found:
            raise CommandError(f"{name}: no open transaction begins at offset {options.start_offset}")
        (producer,) = found
        # the epoch of the coordinator's partition: a coordinator that has moved meanwhile wins
        epoch = max(producer.coordinator_epoch, 0)
        wanted = (TopicPartition(*place), producer.producer_id, producer.producer_epoch, epoch)
        client.ask("abort_transaction", AbortTransactionSpec(*wanted), about=name)
    if options.json:
        row = {"topic": place[0], "partition": place[1], "start_offset": options.start_offset, "aborted": True}
        show([{**row, "producer_id": producer.producer_id}], as_json=True)
    else:
        print(f"aborted the transaction of producer {producer.producer_id} in {name}")


def _word(state: Any) -> str:
    return str(state.name).lower()
