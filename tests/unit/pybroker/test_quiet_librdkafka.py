"""Clients that print nothing of their own, unless somebody wants to read it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pybroker.quiet_librdkafka import without_lines

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1000}


@pytest.mark.parametrize(("more", "is_told"), [({}, False), ({"debug": "broker"}, True)])
def test_lines_are_printed_where_somebody_asks_for_them(
    more: dict[str, str], is_told: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = {**NOBODY, **more}
    producer = Producer({**properties, **without_lines(properties), "error_cb": lambda _: None})
    producer.produce("t", b"x")
    producer.poll(0.5)
    producer.purge()
    producer.flush(5)
    assert bool(capfd.readouterr().err) == is_told


def test_only_who_asks_for_nothing_has_a_logger() -> None:
    """To which librdkafka tells what is fatal, which it prints at log level 0, too."""
    assert "logger" in without_lines({})
    assert "logger" not in without_lines({"debug": "all"})
