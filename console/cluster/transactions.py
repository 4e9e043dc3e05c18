"""Transactions of the coordinators, and the producers of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.cluster.client import Client
from pybroker.cli.client.session import Place
from pybroker.cli.transactions import listings


@dataclass(frozen=True, slots=True)
class TransactionLine:
    """A transactional id."""

    name: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ProducerLine:
    """An idempotent producer of a partition; `open_since` is the first offset of its transaction."""

    topic: str
    partition: int
    id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    open_since: int | None


def transactions(client: Client) -> list[TransactionLine]:
    """Return all transactions, sorted by transactional id."""
    with client.session() as session, session.administration() as administration:
        found = listings(administration)
    lines = [
        TransactionLine(each.transactional_id, coordinator, each.producer_id, str(each.state.name).lower())
        for coordinator, each in found
    ]
    return sorted(lines, key=lambda line: line.name)


def producers(client: Client, places: Sequence[Place]) -> list[ProducerLine]:
    """Return the producers of partitions, sorted by partition and id."""
    from kafka import TopicPartition

    with client.session() as session, session.administration() as administration:
        found = administration.ask("describe_producers", [TopicPartition(*place) for place in places])
    lines = [
        ProducerLine(
            place.topic,
            place.partition,
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_transaction_start_offset if each.current_transaction_start_offset >= 0 else None,
        )
        for place, state in found.items()
        for each in state.active_producers
    ]
    return sorted(lines, key=lambda line: (line.topic, line.partition, line.id))
