"""librdkafka clients without log output, unless it is requested."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pybroker.quiet_librdkafka import without_lines

NOBODY = {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 1000}


@pytest.mark.parametrize(("more", "is_logged"), [({}, False), ({"debug": "broker"}, True)])
def test_requested_log_lines_are_printed(
    more: dict[str, str], is_logged: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = {**NOBODY, **more}
    producer = Producer({**properties, **without_lines(properties), "error_cb": lambda _: None})
    producer.produce("t", b"x")
    producer.poll(0.5)
    producer.purge()
    producer.flush(5)
    assert bool(capfd.readouterr().err) == is_logged


def test_quiet_clients_get_a_logger() -> None:
    """librdkafka would print fatal errors even at log level 0."""
    assert "logger" in without_lines({})
    assert "logger" not in without_lines({"debug": "all"})
