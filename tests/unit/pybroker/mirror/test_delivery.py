"""The producer of a copy: what it does while a quota throttles it, and when it has failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message, ThrottleEvent

from pybroker.cli.client.session import Session
from pybroker.mirror.delivery import DROPPED, Delivery
from tests.support.ports import HOST, free_port

HERE = ("orders", 0)


class Reports:
    """The errors of a producer that finds no broker."""

    def __init__(self) -> None:
        self.errors: list[KafkaError | None] = []
        address = {"bootstrap.servers": f"{HOST}:{free_port()}", "log_level": 0, "error_cb": lambda _: None}
        target = cast("Session", SimpleNamespace(properties=address))
        self.delivery = Delivery(target, lambda error, _: self.errors.append(error))


@pytest.fixture
def reports() -> Iterator[Reports]:
    reports = Reports()
    yield reports
    reports.delivery.drain()


def test_throttled_producer_is_not_stalled(reports: Reports) -> None:
    """A quota may hold up a request for minutes."""
    reports.delivery._on_throttle(ThrottleEvent("broker", 1, 200.0))
    assert reports.delivery.moved_s > time.monotonic() + 100


def test_broken_producer_accepts_nothing_until_it_is_renewed(reports: Reports) -> None:
    """It drops and reports the records that it has not sent: the next producer may not send them."""
    delivery = reports.delivery
    assert delivery.offer(HERE, b"k", b"v", -1, [])
    delivery._delivered(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), cast("Message", None))
    assert not delivery.offer(HERE, b"k", b"w", -1, [])
    delivery.drain()
    delivery.renew()
    _, dropped = reports.errors
    assert dropped is not None
    assert dropped.code() in DROPPED
    assert delivery.offer(HERE, b"k", b"w", -1, [])
