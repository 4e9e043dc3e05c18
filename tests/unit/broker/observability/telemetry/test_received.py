"""Metrics that clients pushed: parsing, names, expiry and limits."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.observability.telemetry import received
from broker.observability.telemetry.otlp import DataPoint
from broker.observability.telemetry.received import (
    LOOKED_MS,
    MOST_OF_A_CLIENT,
    SHORTEST_MS,
    ReceivedMetrics,
    read_payload,
)
from protocol.error_codes import ErrorCode
from protocol.records.compression import Codec, compress
from tests.support.telemetry import counter, gauge, point, report

ABOUT = {"client_id": "me", "client_instance_id": "one"}
MAX_BYTES = 1 << 20
RATE = "org.apache.kafka.producer.record.send.rate"


def rate(value: float, name: str = RATE, **labels: str) -> DataPoint:
    return DataPoint(name, tuple(labels.items()), value, is_counter=False, is_delta=False)


def total(value: float, *, is_delta: bool = True) -> DataPoint:
    return DataPoint("org.apache.kafka.producer.record.send.total", (), value, is_counter=True, is_delta=is_delta)


class Receiver(ReceivedMetrics):
    """A receiver with a clock of the test."""

    def __init__(self) -> None:
        self.time_ms = 5_000_000
        super().__init__(lambda: self.time_ms)

    def push(self, *points: DataPoint, client: bytes = b"1", interval_ms: int = 1000) -> None:
        self.take(client, {**ABOUT, "client_instance_id": client.decode()}, interval_ms, points)

    def shown(self) -> dict[str, float]:
        """Return values by name, for series without labels of their own."""
        return {each.name: each.value for each in self.series()}


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


# -- payloads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_payload_is_read_with_any_compression(codec: Codec) -> None:
    data = report(gauge(RATE, point(1.5)), counter("b", point(2)))

    read = read_payload(compress(codec, data), codec, MAX_BYTES)

    assert isinstance(read, list)
    assert [each.value for each in read] == [1.5, 2]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"\xff" * 100, b"no report, and not compressed either"])
def test_malformed_payload_is_an_invalid_record(codec: Codec, data: bytes) -> None:
    """Compressed or not."""
    assert read_payload(compress(codec, data), codec, MAX_BYTES) is ErrorCode.INVALID_RECORD
    assert read_payload(data, codec, MAX_BYTES) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_bomb_is_too_large(codec: Codec) -> None:
    """64 MB of zeros in a few kilobytes; only as much as is allowed gets decompressed."""
    bomb = compress(codec, bytes(64 << 20))

    assert len(bomb) < 4 << 20
    assert read_payload(bomb, codec, MAX_BYTES) is ErrorCode.TELEMETRY_TOO_LARGE


def test_parser_pauses_between_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no more points than would be shown."""
    pauses: list[float] = []
    monkeypatch.setattr(received, "time", SimpleNamespace(sleep=pauses.append))  # other threads go on to sleep
    data = report(gauge("many", *(point(1, number=number) for number in range(3 * MOST_OF_A_CLIENT))))

    read = read_payload(data, Codec.NONE, MAX_BYTES)

    assert isinstance(read, list)
    assert len(read) == MOST_OF_A_CLIENT + 1
    assert len(pauses) == MOST_OF_A_CLIENT // 200


# -- series ------------------------------------------------------------------------------------------------------------


def test_names_and_labels_follow_prometheus(receiver: Receiver) -> None:
    """A prefix keeps clients from using names of the broker, and labels from naming another client."""
    receiver.push(
        rate(1, **{"node-id": "2", "client_id": "you", "__name__": "x", "9": "y"}),
        total(2),
        rate(3, name="kafka_log_log_size{}"),
    )

    sent, totals, made_up = receiver.series()
    own = (("client_id", "me"), ("client_instance_id", "1"))
    assert (sent.name, sent.origin) == ("kafka_client_producer_record_send_rate", RATE)
    assert sent.labels == (*own, ("node_id", "2"), ("of_9", "y"), ("of___name__", "x"))
    assert (totals.name, totals.labels, totals.is_counter) == ("kafka_client_producer_record_send_total", own, True)
    assert made_up.name == "kafka_client_kafka_log_log_size__"


def test_newest_value_is_shown_and_deltas_add_up(receiver: Receiver) -> None:
    """Cumulative counters are shown as they are."""
    receiver.push(rate(1), total(5))
    receiver.push(rate(2), total(7))
    assert receiver.shown() == {
        "kafka_client_producer_record_send_rate": 2,
        "kafka_client_producer_record_send_total": 12,
    }

    receiver.push(total(100, is_delta=False))
    assert receiver.shown()["kafka_client_producer_record_send_total"] == 100


def test_silent_client_expires(receiver: Receiver) -> None:
    """After three of its intervals, at least a minute."""
    receiver.push(rate(1), client=b"1", interval_ms=100)
    receiver.push(rate(1), client=b"2", interval_ms=SHORTEST_MS)
    receiver.time_ms += SHORTEST_MS - 1
    assert len(receiver.series()) == 2
    receiver.time_ms += LOOKED_MS
    assert [dict(each.labels)["client_instance_id"] for each in receiver.series()] == ["2"]
    receiver.time_ms += 2 * SHORTEST_MS
    assert receiver.series() == []


def test_series_that_is_no_longer_pushed_expires_alone(receiver: Receiver) -> None:
    """As for partitions that the client no longer reads."""
    receiver.push(rate(1, partition="0"), rate(1, partition="1"))
    receiver.time_ms += SHORTEST_MS - 1
    receiver.push(rate(1, partition="1"))
    receiver.time_ms += LOOKED_MS

    assert [dict(each.labels)["partition"] for each in receiver.series()] == ["1"]


def test_series_are_limited(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """For one client and in total. Omitted ones are counted, and expired ones make room."""
    monkeypatch.setattr(received, "MOST_OF_A_CLIENT", 3)
    monkeypatch.setattr(received, "MOST_SERIES", 4)
    receiver.push(*(rate(1, name=f"n{number}") for number in range(5)), client=b"1")
    assert (len(receiver.series()), receiver.left_out) == (3, 2)
    receiver.push(rate(1, name="a"), rate(1, name="b"), client=b"2")
    assert (len(receiver.series()), receiver.left_out) == (4, 3)

    receiver.time_ms += SHORTEST_MS + LOOKED_MS
    receiver.push(rate(1, name="a"), rate(1, name="b"), client=b"3")
    assert (len(receiver.series()), receiver.left_out) == (2, 3)


@pytest.mark.parametrize(
    "point",
    [
        rate(1, name=""),
        rate(1, name="n" * 501),
        rate(1, label="v" * 500),
        rate(1, **{f"l{number}": "v" for number in range(17)}),
    ],
)
def test_too_large_series_is_omitted(receiver: Receiver, point: DataPoint) -> None:
    receiver.push(point)

    assert (receiver.series(), receiver.left_out) == ([], 1)


def test_conflicting_values_are_omitted(receiver: Receiver) -> None:
    """Prometheus would reject both."""
    receiver.push(rate(1, name="a.b"), rate(2, name="a_b"))

    assert receiver.shown() == {"kafka_client_a_b": 1}
    assert receiver.left_out == 1
