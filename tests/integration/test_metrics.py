"""A broker's metrics and health over HTTP, and its messages to the service manager."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.observability.metrics.metric_table import METRICS
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually
from tests.support.launch import run_broker
from tests.support.ports import free_port

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Watched(OurBroker):
    """A broker with a metrics endpoint and a socket that receives its notifications."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(str(directory / "notify"))
        self.notified.settimeout(60)
        os.environ["NOTIFY_SOCKET"] = str(directory / "notify")
        try:
            super().__init__(directory, {"metrics.listeners": f"http://{HOST}:{self.metrics_port}"})
        finally:
            del os.environ["NOTIFY_SOCKET"]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}{path}", timeout=60) as answer:
            return str(answer.read(), "utf-8")

    def samples(self, name: str, labels: tuple[tuple[str, str], ...], value: float) -> Samples:
        """Return all samples once the named one has `value`; the endpoint caches them for up to a second."""

        def scrape() -> Samples:
            return {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(self.get("/metrics"))
                for sample in family.samples
            }

        return eventually(scrape, f"{name} = {value}", until=lambda found: found.get((name, labels)) == value)

    def notification(self) -> list[str]:
        return self.notified.recv(4096).decode().split("\n")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    running = Watched(tmp_path_factory.mktemp("broker"))
    yield running
    running.kill()
    running.notified.close()


def test_service_manager_is_notified_once_ready(broker: Watched) -> None:
    """READY=1 comes after the port is open."""
    ready = broker.notification()

    assert ready[0] == "READY=1"
    assert ready[1] == f"STATUS=Listening on PLAINTEXT://{broker.bootstrap}"


def test_traffic_is_counted_by_topic_and_request(broker: Watched) -> None:
    """In bytes on the wire that clients sent and received."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("counted", partitions=1)
        for _ in range(3):
            client.produce("counted", batch(*[b"x" * 1000] * 10))
        assert len(client.values("counted")) == 30
    topic, partition = (("topic", "counted"),), (("partition", "0"), ("topic", "counted"))
    size = (broker.log_dir / "counted-0" / f"{0:020}.log").stat().st_size
    samples = broker.samples("kafka_server_brokertopicmetrics_messagesin_total", topic, 30)

    assert samples["kafka_server_brokertopicmetrics_bytesin_total", topic] == size
    assert samples["kafka_server_brokertopicmetrics_bytesout_total", topic] >= size
    assert samples["kafka_log_log_size", partition] == size
    assert samples["kafka_log_log_logendoffset", partition] == 30
    assert samples["kafka_server_brokertopicmetrics_totalproducerequests_total", ()] == 3
    produced = {labels: value for (name, labels), value in samples.items() if "requestmetrics_requests" in name}
    assert sum(value for labels, value in produced.items() if ("request", "Produce") in labels) == 3
    assert samples["pybroker_sendfile_bytes_total", ()] > 0
    assert samples["kafka_server_kafkaserver_brokerstate", ()] == 3


def test_totals_are_sums_of_the_metrics(broker: Watched) -> None:
    """The page has little more than numbers."""
    with DataClient(HOST, broker.port) as client:
        for topic in ("summed", "another"):
            client.create_topic(topic, partitions=1)
            client.produce(topic, batch(b"x", b"y"))
            client.values(topic)
        totals = json.loads(broker.get("/totals"))
        assert totals["pybroker_connections"] == 1
    records = "kafka_server_brokertopicmetrics_messagesin_total"
    samples = broker.samples(records, (), totals[records])

    for direction in ("in", "out"):
        name = f"kafka_server_brokertopicmetrics_bytes{direction}_total"
        assert totals[name] == samples[name, ()] > 0
    requests = "kafka_network_requestmetrics_requests_total"
    assert totals[requests] == sum(value for (name, _), value in samples.items() if name == requests)
    assert totals["pybroker_loop_lag_seconds_count"] <= samples["pybroker_loop_lag_seconds_count", ()]
    assert totals["process_resident_memory_bytes"] > 10_000_000
    assert totals["process_cpu_seconds_total"] > 0


def test_groups_have_offsets_members_and_lag(broker: Watched) -> None:
    """Under the names of kafka_exporter."""
    with DataClient(HOST, broker.port) as client:
        client.create_topic("lagging", partitions=1)
        client.produce("lagging", batch(*[b"x"] * 10))
        client.find_coordinator("readers")
        client.commit("readers", {("lagging", 0): 4})
    labels = (("consumergroup", "readers"), ("partition", "0"), ("topic", "lagging"))
    samples = broker.samples("kafka_consumergroup_current_offset", labels, 4)

    assert samples["kafka_consumergroup_lag", labels] == 6
    assert samples["kafka_consumergroup_members", (("consumergroup", "readers"),)] == 0
    assert samples["kafka_coordinator_group_groupmetadatamanager_numgroups", ()] == 1


def test_all_documented_metrics_exist(broker: Watched) -> None:
    """With topics and groups. No metric is missing in the table of names.

    Those of Spark's queries need checkpoints (test_queries.py), those of dead letters need a queue
    (membership/test_dead_letters.py).
    """
    on_demand = ("pybroker_spark_", "pybroker_retention_held_", "kafka_server_sharegroupmetrics_deadletterqueue")
    with DataClient(HOST, broker.port) as client:
        client.create_topic("any", partitions=1)
        client.produce("any", batch(b"x"))
        client.find_coordinator("anybody")
        client.commit("anybody", {("any", 0): 1})

    def types() -> set[str]:
        with DataClient(HOST, broker.port) as client:
            client.values("any")
        return {line.split()[2] for line in broker.get("/metrics").splitlines() if line.startswith("# TYPE ")}

    # the broker times only a sample of the requests
    times = "kafka_network_requestmetrics_totaltimems"
    typed = eventually(types, until=lambda found: times in found, interval_s=0.3)
    assert {name for name in typed if not name.startswith("process_")} == {
        each.name
        for each in METRICS
        if not each.name.startswith(on_demand) and not (each.of_members or each.of_controllers or each.of_tiers)
    }
    assert "process_resident_memory_bytes" in typed


def test_health_paths_and_index_answer(broker: Watched) -> None:
    assert broker.get("/live") == "live\n"
    assert broker.get("/ready") == "ready\n"
    with pytest.raises(urllib.error.HTTPError) as refused:
        broker.get("/")
    index = b"There are /metrics, /totals, /live, /ready, /queries, /clients, /tiering\n"
    assert (refused.value.code, refused.value.read()) == (404, index)


def test_idle_connections_do_not_block_others(broker: Watched) -> None:
    """A further connection closes the oldest."""
    idle = [socket.create_connection((HOST, broker.metrics_port), timeout=60) for _ in range(20)]
    for each in idle[:8]:
        each.sendall(b"GET /li")
    assert broker.get("/live") == "live\n"
    assert [each.recv(1) for each in idle[:12]] == [b""] * 12
    for each in idle:
        each.close()


def test_port_in_use_refuses_the_start(broker: Watched, tmp_path: Path) -> None:
    """Before the broker writes a file."""
    taken = f"http://{HOST}:{broker.metrics_port}"
    ended = run_broker(tmp_path, {"log.dirs": tmp_path / "logs", "metrics.listeners": taken})  # type: ignore[dict-item]

    assert ended.exit_code == 1
    assert f"{HOST}:{broker.metrics_port}: the port is in use" in ended.stderr
    assert not (tmp_path / "logs").exists()


def test_stop_timeout_ends_the_process(tmp_path: Path) -> None:
    """Acknowledged records survive it."""
    broker = OurBroker(tmp_path, {"pybroker.shutdown.timeout.ms": "1"})
    with DataClient(HOST, broker.port) as client:
        client.create_topic("kept")
        client.produce("kept", batch(b"one"))

    assert broker.stop() == 1
    assert "Shutting down takes longer than 1 ms" in broker.output
    broker.start()
    with DataClient(HOST, broker.port) as client:
        assert client.values("kept") == [b"one"]
    broker.kill()


def test_stop_is_notified_and_health_ends(broker: Watched) -> None:
    """The last test of the file, as it stops the broker."""
    assert broker.stop() == 0
    while (notification := broker.notification())[0] != "STOPPING=1":
        assert notification[0] == "READY=1", "only the start may have sent one before"
    with pytest.raises(urllib.error.URLError):
        broker.get("/live")
