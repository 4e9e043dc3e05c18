"""Names of metrics: those of Kafka's MBeans after the JMX exporter's rules, and the generated page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.observability.metrics.docs import METRICS_PAGE, main, metrics_page
from broker.observability.metrics.metric import Kind, kafka, own
from broker.observability.metrics.metric_table import METRICS

# Names that dashboards for Apache Kafka behind the JMX exporter query
KNOWN = {
    "kafka_server_brokertopicmetrics_messagesin_total": ("topic",),
    "kafka_server_brokertopicmetrics_bytesin_total": ("topic",),
    "kafka_server_brokertopicmetrics_bytesout_total": ("topic",),
    "kafka_server_brokertopicmetrics_totalproducerequests_total": (),
    "kafka_network_requestmetrics_requests_total": ("request", "version"),
    "kafka_network_socketserver_networkprocessoravgidlepercent": (),
    "kafka_network_requestchannel_requestqueuesize": (),
    "kafka_server_replicamanager_partitioncount": (),
    "kafka_server_replicamanager_leadercount": (),
    "kafka_server_replicamanager_underreplicatedpartitions": (),
    "kafka_server_replicamanager_offlinereplicacount": (),
    "kafka_controller_kafkacontroller_activecontrollercount": (),
    "kafka_controller_kafkacontroller_offlinepartitionscount": (),
    "kafka_log_log_size": ("topic", "partition"),
    "kafka_log_log_logendoffset": ("topic", "partition"),
    "kafka_log_log_numlogsegments": ("topic", "partition"),
    "kafka_log_logflushstats_logflushrateandtimems": (),
    "kafka_log_logmanager_offlinelogdirectorycount": (),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": ("logDirectory",),
    "kafka_coordinator_group_groupmetadatamanager_numgroups": (),
    "kafka_consumergroup_lag": ("consumergroup", "topic", "partition"),
}


def test_known_metrics_exist_with_their_labels() -> None:
    labels = {each.name: each.labels for each in METRICS}

    assert {name: labels.get(name) for name in KNOWN} == KNOWN


def test_meters_are_counters_without_per_second() -> None:
    """The MBean's domain may have a dot, and its name dashes."""
    meter = kafka("network", "RequestMetrics", "RequestsPerSec", ("request",), "Requests.")
    gauge = kafka("coordinator.group", "Some", "with-dashes", (), "A number.")

    assert (meter.name, meter.kind) == ("kafka_network_requestmetrics_requests_total", Kind.COUNTER)
    assert meter.mbean == "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=*"
    assert (gauge.name, gauge.kind) == ("kafka_coordinator_group_some_with_dashes", Kind.GAUGE)
    assert own("bytes_total", (), "").kind is Kind.COUNTER


def test_names_are_valid_and_unique() -> None:
    """Counters, and only they, end in _total."""
    names = [each.name for each in METRICS]

    assert len(names) == len(set(names)) > 60
    for each in METRICS:
        assert re.fullmatch("[a-z][a-z0-9_]*", each.name)
        assert (each.kind is Kind.COUNTER) == each.name.endswith("_total")
        assert each.doc.endswith(".")


def test_page_is_current() -> None:
    assert metrics_page() == METRICS_PAGE.read_text()
    assert main(["--check"]) == 0


def test_stale_page_is_detected_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty project the page is missing."""
    monkeypatch.chdir(tmp_path)

    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
