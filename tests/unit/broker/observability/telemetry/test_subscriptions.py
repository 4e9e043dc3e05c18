"""Client metrics subscriptions: matching, intervals, and expiry of clients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.observability.telemetry.subscriptions import MOST_INSTANCES, SHORTEST_MEMORY_MS, ClientMetrics
from metadata.decision import Refused
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from tests.support.controllers import ControllerHarness

CLIENT = b"\x01" * 16


class Metrics:
    """Subscriptions of a controller without a disk, with a clock of the test."""

    def __init__(self) -> None:
        self.harness = ControllerHarness()
        self.now_ms = 1_000_000
        self.metrics = ClientMetrics(self.harness.config, self.harness.metadata, lambda: self.now_ms)

    def alter(self, name: str, **settings: str | None) -> None:
        changes = {key.replace("_", "."): value for key, value in settings.items()}
        self.harness.controller.alter_config(ResourceType.CLIENT_METRICS, name, changes).result()

    def ask(self, instance_id: bytes = CLIENT, **about: Any) -> tuple[int, tuple[str, ...]]:
        instance = self.metrics.ask(instance_id, connection(**about), "me")
        return instance.interval_ms, instance.metrics


def connection(**about: Any) -> Any:
    fields = {
        "is_closed": False,
        "client_host": "192.0.2.7",
        "client_port": 40_000,
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.3.1",
    }
    return SimpleNamespace(**{**fields, **about})


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("", True),
        ("client_id=me", True),
        ("client_id=m", False),
        ("client_id=m.*,client_source_port=4[0-9]+", True),
        ("client_id=m.*,client_source_port=5[0-9]+", False),
        ("client_software_name=apache-kafka-java, client_software_version=4\\..*", True),
        ("client_source_address=192\\.0\\.2\\.7", True),
        ("client_instance_id=AQEBAQEBAQEBAQEBAQEBAQ", True),
        ("client_id=you,client_id=me", True),
    ],
)
def test_clients_are_matched(metrics: Metrics, match: str, matches: bool):
    metrics.alter("s", metrics="a.", match=match, interval_ms="500")
    assert metrics.ask() == ((500, ("a.",)) if matches else (300_000, ()))


def test_matching_takes_linear_time(metrics: Metrics):
    """A backtracking engine would block the loop for ever with this pattern."""
    metrics.alter("s", metrics="a.", match="client_software_name=(n+)+$", interval_ms="500")

    assert metrics.ask(b"\x02" * 16, client_software_name="n" * 1000 + "!") == (300_000, ())
    assert metrics.ask(b"\x03" * 16, client_software_name="n" * 1000) == (500, ("a.",))


def test_pattern_that_only_java_accepts_matches_no_client(metrics: Metrics):
    """A Kafka broker may have left it in the metadata."""
    metrics.alter("s", metrics="a.", match="client_id=me,client_software_name=(?=apache).*", interval_ms="500")
    assert metrics.ask() == (300_000, ())


def test_subscriptions_are_merged(metrics: Metrics):
    """All their metrics at the shortest interval. A subscription to all metrics includes the others."""
    metrics.alter("s1", metrics="a.,b.", interval_ms="7000")
    metrics.alter("s2", metrics="b.,c.", interval_ms="5000")
    assert metrics.ask() == (5000, ("a.", "b.", "c."))
    metrics.alter("s3", metrics="*")
    assert metrics.ask() == (5000, ("*",))


def test_a_client_waits_for_its_interval(metrics: Metrics):
    metrics.ask()
    metrics.now_ms += 299_999
    with pytest.raises(Refused) as refused:
        metrics.ask()
    assert refused.value.error_code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    metrics.now_ms += 1
    metrics.ask()


def test_silent_client_expires(metrics: Metrics):
    metrics.alter("s", metrics="a.", interval_ms="3600000")
    metrics.ask()
    metrics.now_ms += max(SHORTEST_MEMORY_MS, 3 * 300_000) + 1
    metrics.ask()


def test_disconnected_client_expires(metrics: Metrics):
    gone = connection(is_closed=True)
    metrics.metrics.ask(CLIENT, gone, "me")
    metrics.ask()


def test_known_clients_are_limited(metrics: Metrics):
    """The one that was silent longest is dropped."""
    for number in range(1, MOST_INSTANCES + 2):
        metrics.metrics.ask(number.to_bytes(16, "big"), connection(), None)
    assert not metrics.metrics.is_known((1).to_bytes(16, "big"))
    assert metrics.metrics.is_known((2).to_bytes(16, "big"))


def test_client_names_are_shortened_in_labels(metrics: Metrics):
    """Subscriptions match their full names."""
    metrics.alter("s", metrics="a.", match=f"client_id={'n' * 5000}")
    instance = metrics.metrics.ask(CLIENT, connection(), "n" * 5000)

    assert instance.metrics == ("a.",)
    assert instance.about == {
        "client_id": "n" * 100,
        "client_instance_id": "AQEBAQEBAQEBAQEBAQEBAQ",
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.3.1",
    }


def test_active_clients_are_counted(metrics: Metrics):
    """Without those that disconnected or were silent for long."""
    metrics.ask()
    metrics.metrics.ask(b"\x02" * 16, connection(is_closed=True), "gone")
    assert metrics.metrics.instance_count == 1
    metrics.now_ms += 3 * 300_000 + 1
    assert metrics.metrics.instance_count == 0


def test_responses_to_pushes_are_counted(metrics: Metrics):
    """Those rejected at once, and those found malformed later. Without an endpoint nothing is kept."""
    instance = metrics.metrics.ask(CLIENT, connection(), "me")

    def push(subscription_id: int = instance.subscription_id) -> Any:
        fields: dict[str, Any] = {"terminating": False, "compression_type": 0, "size_bytes": 1}
        return metrics.metrics.push(CLIENT, connection(), "me", subscription_id=subscription_id, **fields)

    assert metrics.metrics.take(push(), []) is ErrorCode.NONE
    metrics.now_ms += 300_000
    with pytest.raises(Refused):
        push(instance.subscription_id + 1)
    metrics.now_ms += 300_000
    assert metrics.metrics.take(push(), ErrorCode.INVALID_RECORD) is ErrorCode.INVALID_RECORD
    assert metrics.metrics.pushes == {
        ErrorCode.NONE: 1,
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID: 1,
        ErrorCode.INVALID_RECORD: 1,
    }
    assert metrics.metrics.received is None
