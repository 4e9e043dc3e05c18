"""Clients' own metrics in the pages that Prometheus reads."""

from __future__ import annotations

from concurrent.futures import Future

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from broker.observability.metrics.client_series import ClientCollector
from broker.observability.telemetry.received import Series


def registry_of(*series: Series) -> CollectorRegistry:
    def take() -> Future[list[Series]]:
        taken: Future[list[Series]] = Future()
        taken.set_result(list(series))
        return taken

    registry = CollectorRegistry(auto_describe=True)
    registry.register(ClientCollector(take))
    return registry


def series(name: str, value: float, client: str, *, is_counter: bool = False) -> Series:
    return Series(name, "some.\nname", is_counter, (("client_id", client),), value)


def test_series_of_several_clients_form_a_family() -> None:
    """The parsers of both formats read the counters and gauges back."""
    registry = registry_of(
        series("kafka_client_rate", 1.5, 'a"\n'),
        series("kafka_client_sent_total", 2, "a", is_counter=True),
        series("kafka_client_rate", 2.5, "b"),
    )
    expected = {
        ("kafka_client_rate", 'a"\n'): 1.5,
        ("kafka_client_rate", "b"): 2.5,
        ("kafka_client_sent_total", "a"): 2,
    }
    for read, text in (
        (text_string_to_metric_families, generate_latest(registry).decode()),
        (read_openmetrics, generate_openmetrics(registry).decode()),
    ):
        families = list(read(text))
        samples = [sample for family in families for sample in family.samples]
        assert {(each.name, each.labels["client_id"]): each.value for each in samples} == expected
        assert [family.type for family in families] == ["gauge", "counter"]


def test_metric_has_one_type() -> None:
    """Prometheus rejects a page with two types of one metric, whatever clients push."""
    registry = registry_of(
        series("kafka_client_sent_total", 2, "a", is_counter=True),
        series("kafka_client_sent", 3, "b"),
        series("kafka_client_sent_total", 4, "c"),
    )

    text = generate_openmetrics(registry).decode()

    assert [line for line in text.splitlines() if line.startswith("kafka")] == [
        'kafka_client_sent_total{client_id="a"} 2.0'
    ]
