"""Clients push their own metrics (KIP-714), and the broker's metrics endpoint has them."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families

from protocol.error_codes import ErrorCode
from protocol.messages.get_telemetry_subscriptions import GET_TELEMETRY_SUBSCRIPTIONS
from protocol.messages.push_telemetry import PUSH_TELEMETRY
from protocol.primitives import ZERO_UUID
from protocol.records.compression import Codec, compress
from tests.support.brokers import HOST, OurBroker
from tests.support.eventually import eventually
from tests.support.java import KAFKA_VERSION, JavaRunner
from tests.support.ports import free_port
from tests.support.telemetry import Pusher, counter, gauge, point, report
from tests.support.tools import MAIN_CLASSES
from tests.support.wire import WireClient, served_versions

#: (name, labels) -> value
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
TELEMETRY = {GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key}


class Watched:
    """A broker with a metrics endpoint, whose clients push all their metrics ten times a second."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        self.broker = OurBroker(directory, {"metrics.listeners": f"http://{HOST}:{self.metrics_port}"})
        self.bootstrap, self.port = self.broker.bootstrap, self.broker.port

    def subscribe(self, java: JavaRunner, *arguments: str) -> None:
        tool = MAIN_CLASSES["kafka-client-metrics"]
        done = java.run(tool, "--bootstrap-server", self.bootstrap, "--alter", "--name", *arguments)
        assert done.exit_code == 0, done

    def samples(self) -> Samples:
        return samples_at(self.metrics_port)

    def wait_for(self, is_there: Callable[[Samples], bool]) -> Samples:
        return eventually(self.samples, until=is_there, timeout_s=90, interval_s=0.2)


def samples_at(port: int) -> Samples:
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=60) as answer:
        text = str(answer.read(), "utf-8")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of_client(samples: Samples, client_id: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return a client's samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for (name, labels), value in samples.items():
        if name.startswith("kafka_client_") and ("client_id", client_id) in labels:
            found.setdefault(name, []).append((dict(labels), value))
    return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, java: JavaRunner) -> Iterator[Watched]:
    watched = Watched(tmp_path_factory.mktemp("watched"))
    watched.subscribe(java, "all", "--metrics", "*", "--interval", "100", "--match", "client_id=told-.*")
    yield watched
    watched.broker.stop()


def test_java_clients_push(watched: Watched, java: JavaRunner) -> None:
    """A producer and a consumer, up to the last report at their end; clients without a subscription push nothing."""
    told = f"bootstrap.servers={watched.bootstrap}"
    perf, console = MAIN_CLASSES["kafka-producer-perf-test"], MAIN_CLASSES["kafka-console-consumer"]
    sent, consumed = (
        "kafka_client_producer_record_send_total",
        "kafka_client_consumer_fetch_manager_records_consumed_total",
    )

    def produce(client: str) -> None:
        arguments = ("--topic", "t", "--num-records", "1500", "--record-size", "100", "--throughput", "1000")
        done = java.run(perf, *arguments, "--producer-props", told, f"client.id={client}")
        assert done.exit_code == 0, done

    produce("silent")
    reports = []
    # Checked at once: pushed metrics expire after a minute. Some clients end before they have sent their last report.
    while [1500] not in reports and len(reports) < 8:
        producer = f"told-producer-{len(reports)}"
        produce(producer)
        found = watched.wait_for(lambda samples, named=producer: sent in of_client(samples, named))
        reports.append([value for _, value in of_client(found, producer)[sent]])
    assert [1500] in reports, reports
    ((labels, _),) = of_client(found, producer)[sent]
    assert labels["client_software_name"] == "apache-kafka-java"
    assert labels["client_software_version"] == KAFKA_VERSION
    assert len(labels["client_instance_id"]) == 22
    assert of_client(found, "silent") == {}
    assert len(of_client(found, producer)) > 50

    done = java.run(
        *(console, "--bootstrap-server", watched.bootstrap, "--topic", "t", "--from-beginning", "--group", "readers"),
        *("--timeout-ms", "3000", "--consumer-property", "client.id=told-consumer"),
    )
    total = 1500 * (1 + len(reports))
    assert f"Processed a total of {total} messages" in done.stdout + done.stderr
    found = watched.wait_for(
        lambda samples: any(value == total for _, value in of_client(samples, "told-consumer").get(consumed, ()))
    )
    assert "group_id" in of_client(found, "told-consumer")[consumed][0][0]


def test_librdkafka_pushes(watched: Watched) -> None:
    """It reports less, under the same names."""
    producer = confluent_kafka.Producer({"bootstrap.servers": watched.bootstrap, "client.id": "told-librdkafka"})

    def produce() -> Samples:
        producer.produce("t", b"x")
        producer.flush(10)
        return of_client(watched.samples(), "told-librdkafka")

    latency = "kafka_client_producer_request_latency_avg"
    mine = eventually(produce, until=lambda found: any(value > 0 for _, value in found.get(latency, ())), timeout_s=90)
    ((labels, _),) = mine["kafka_client_producer_request_latency_avg"]
    assert labels["client_software_name"] == "confluent-kafka-python"


def test_bad_payloads_are_answered_as_kafka_does(watched: Watched) -> None:
    """Invalid payloads, decompression bombs, too large ones; the broker and this client's good reports continue."""
    with WireClient(HOST, watched.port, client_id="told-by-hand") as client:
        assert served_versions(client).keys() >= TELEMETRY
        pusher = Pusher(client)
        assert pusher.metrics == ["*"]
        good = report(gauge("g", point(1.5)), counter("sum", point(2)))
        for metrics, codec, error in (
            (good, Codec.NONE, ErrorCode.NONE),
            (b"no metrics", Codec.NONE, ErrorCode.INVALID_RECORD),
            (b"no zstd", Codec.ZSTD, ErrorCode.INVALID_RECORD),
            (compress(Codec.GZIP, b"\xff" * 100), Codec.GZIP, ErrorCode.INVALID_RECORD),
            (compress(Codec.ZSTD, bytes(256 << 20)), Codec.ZSTD, ErrorCode.TELEMETRY_TOO_LARGE),
            (compress(Codec.GZIP, bytes(64 << 20)), Codec.GZIP, ErrorCode.TELEMETRY_TOO_LARGE),
            (b"x" * (pusher.max_bytes + 1), Codec.NONE, ErrorCode.TELEMETRY_TOO_LARGE),
            (good, 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
            (compress(Codec.ZSTD, good), Codec.ZSTD, ErrorCode.NONE),
            (b"", Codec.NONE, ErrorCode.NONE),
        ):
            assert pusher.push(metrics, compression_type=int(codec)) is error
        found = watched.wait_for(lambda samples: "kafka_client_sum_total" in of_client(samples, "told-by-hand"))
        answers = {dict(labels)["answer"]: value for (name, labels), value in found.items() if "client_pushes" in name}
        assert answers["INVALID_RECORD"] == 3
        assert answers["TELEMETRY_TOO_LARGE"] == 3
        assert [value for _, value in of_client(found, "told-by-hand")["kafka_client_sum_total"]] == [4]


def test_without_a_reporter_clients_get_no_subscription(tmp_path: Path) -> None:
    """As in a Kafka without a reporter; a push without a subscription is answered, too."""
    broker = OurBroker(tmp_path)
    with ExitStack() as at_end, WireClient(HOST, broker.port) as client:
        at_end.callback(broker.kill)
        assert not TELEMETRY & served_versions(client).keys()
        told = client.call(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=ZERO_UUID)
        fields = {"terminating": False, "compression_type": 0, "metrics": b"no metrics"}
        answer = client.call(
            *(PUSH_TELEMETRY, 0),
            client_instance_id=told.client_instance_id,
            subscription_id=told.subscription_id,
            **fields,
        )
        assert answer.error_code == ErrorCode.NONE
