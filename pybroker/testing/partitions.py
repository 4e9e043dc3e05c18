"""Metadata v4: the brokers and partitions that a broker knows."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pybroker.testing.requests import Response, ask, string

_METADATA, _VERSION = 3, 4


@dataclass(frozen=True)
class Partition:
    """A partition: ids of its leader (-1 without one), its replicas, and those in sync."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


@dataclass(frozen=True)
class View:
    """A broker's view of its cluster: ids of all brokers, and the partitions of one topic (none if it is missing)."""

    brokers: frozenset[int]
    partitions: tuple[Partition, ...]


def view(address: tuple[str, int], topic: str | None = None) -> View:
    """Return what a broker knows, perhaps of a topic, which this does not create. Raises OSError without a response."""
    names = [] if topic is None else [string(topic)]
    body = struct.pack(">i", len(names)) + b"".join(names) + b"\0"  # the last: do not create it
    response = ask(address, _METADATA, _VERSION, body)
    response.number("i")  # the throttle time
    brokers = frozenset(response.each(lambda: _broker(response)))
    response.text()  # the cluster's id
    response.number("i")  # the controller
    topics = response.each(lambda: _topic(response))
    return View(brokers, topics[0] if topics else ())


def _broker(response: Response) -> int:
    node_id = response.number("i")
    response.text()
    response.number("i")
    response.text()
    return node_id


def _topic(response: Response) -> tuple[Partition, ...]:
    response.number("h")
    response.text()
    response.number("b")
    partitions = response.each(lambda: _partition(response))
    return tuple(sorted(partitions, key=lambda each: each.index))


def _partition(response: Response) -> Partition:
    response.number("h")
    return Partition(
        response.number("i"), response.number("i"), tuple(response.numbers()), frozenset(response.numbers())
    )
