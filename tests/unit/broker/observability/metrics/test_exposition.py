"""What Prometheus gets to read."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from broker.observability.metrics import exposition
from broker.observability.metrics.exposition import BrokerCollector
from broker.observability.metrics.metric import Buckets, Timings
from broker.observability.metrics.metric_table import (
    FLUSHES,
    LOG_SIZE,
    LOOP_LAG,
    MESSAGES_IN,
)
from broker.observability.metrics.snapshot import Snapshot

SNAPSHOT: Snapshot = {
    MESSAGES_IN: [(('a\n"b',), 3), ((), 7)],
    LOG_SIZE: [(("t", str(index)), index) for index in range(450)],
    FLUSHES: [((), Timings(2, 12.5, [("0.5", 5.0)]))],
    LOOP_LAG: [((), Buckets([("0.001", 2), ("+Inf", 3)], 1.5))],
}


class Broker:
    """Gives the same samples each time, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def take(self) -> Future[Snapshot]:
        self.asked += 1
        taken: Future[Snapshot] = Future()
        taken.set_result(SNAPSHOT)
        return taken


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def registry(broker: Broker, tmp_path: Path) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker.take, [str(tmp_path), str(tmp_path / "away")]))
    return registry


def found(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_samples_of_all_kinds_are_read_back(registry: CollectorRegistry, tmp_path: Path) -> None:
    """By the parser of the client library; a directory that is away is left out."""
    samples = found(generate_latest(registry).decode())

    assert samples["kafka_server_brokertopicmetrics_messagesin_total", (("topic", 'a\n"b'),)] == 3
    assert samples["kafka_server_brokertopicmetrics_messagesin_total", ()] == 7
    assert samples["kafka_log_log_size", (("partition", "449"), ("topic", "t"))] == 449
    assert samples["kafka_log_logflushstats_logflushrateandtimems", (("quantile", "0.5"),)] == 5
    assert samples["kafka_log_logflushstats_logflushrateandtimems_count", ()] == 2
    assert samples["kafka_log_logflushstats_logflushrateandtimems_sum", ()] == 12.5
    assert samples["pybroker_loop_lag_seconds_bucket", (("le", "+Inf"),)] == 3
    assert samples["pybroker_log_directory_size_bytes", (("logDirectory", str(tmp_path)),)] > 0
    assert len([name for name, _ in samples if name == "pybroker_log_directory_free_bytes"]) == 1


def test_openmetrics_is_written_too(registry: CollectorRegistry) -> None:
    """What newer Prometheus servers ask for."""
    text = generate_openmetrics(registry).decode()

    assert text.endswith("# EOF\n")
    assert "kafka_server_brokertopicmetrics_messagesin_total 7.0" in text


def test_one_name_can_be_asked_for(registry: CollectorRegistry) -> None:
    """As by /metrics?name[]=..."""
    text = generate_latest(registry.restricted_registry(["kafka_log_log_size"])).decode()  # type: ignore[arg-type]

    assert {name for name, _ in found(text)} == {"kafka_log_log_size"}


def test_who_asks_often_gets_the_same_again(
    registry: CollectorRegistry, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is asked once a second at most."""
    now = [100.0]
    monkeypatch.setattr(exposition.time, "monotonic", lambda: now[0])
    generate_latest(registry)
    now[0] += 0.9
    generate_latest(registry)
    assert broker.asked == 1

    now[0] += 0.2
    generate_latest(registry)
    assert broker.asked == 2


def test_writer_pauses_between_samples(registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has its turn meanwhile."""
    pauses: list[float] = []
    monkeypatch.setattr(exposition.time, "sleep", pauses.append)
    generate_latest(registry)

    assert len(pauses) == 450 // 200
