"""The pages that Prometheus reads."""

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
    """Returns the same samples each time, and counts the calls."""

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


def test_samples_of_all_kinds_are_parsed_again(registry: CollectorRegistry, tmp_path: Path) -> None:
    """By the parser of the client library. A directory that is offline is left out."""
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


def test_openmetrics_is_supported(registry: CollectorRegistry) -> None:
    """Newer Prometheus servers request it."""
    text = generate_openmetrics(registry).decode()

    assert text.endswith("# EOF\n")
    assert "kafka_server_brokertopicmetrics_messagesin_total 7.0" in text


def test_metrics_can_be_selected_by_name(registry: CollectorRegistry) -> None:
    """With /metrics?name[]=..."""
    text = generate_latest(registry.restricted_registry(["kafka_log_log_size"])).decode()  # type: ignore[arg-type]

    assert {name for name, _ in found(text)} == {"kafka_log_log_size"}


def test_samples_are_cached_for_a_second(
    registry: CollectorRegistry, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So frequent scrapes do not load the loop."""
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
    """So that the loop gets its turn."""
    pauses: list[float] = []
    monkeypatch.setattr(exposition.time, "sleep", pauses.append)
    generate_latest(registry)

    assert len(pauses) == 450 // 200
