"""A `server.properties` for another broker starts ours unchanged, and clients are served."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.support.brokers import HOST
from tests.support.eventually import eventually, succeeds
from tests.support.launch import broker_command
from tests.support.ports import free_port
from tests.support.sample_files import DOCUMENTS_SAMPLE, KAFKA_SERVER_PROPERTIES


def await_listener(port: int) -> None:
    eventually(lambda: socket.create_connection((HOST, port)).close(), retried=OSError, until=succeeds)


WITHOUT_EFFECT = {
    "Apache Kafka's": ["num.network.threads"],
    "the documents'": ["num.network.threads", "zookeeper.connect", "zookeeper.connection.timeout.ms"],
}


@pytest.mark.parametrize(
    ("whose", "text", "partitions"),
    [("Apache Kafka's", KAFKA_SERVER_PROPERTIES, 1), ("the documents'", DOCUMENTS_SAMPLE, 2)],
    ids=["kafka", "documents"],
)
def test_file_starts_the_broker(whose: str, text: str, partitions: int, tmp_path: Path) -> None:
    """S26.1-S26.14: except ports and directory, which a test must choose; a warning for each line without effect."""
    port = free_port()
    (tmp_path / "server.properties").write_text(text)
    listeners = f"PLAINTEXT://{HOST}:{port}"
    if "CONTROLLER" in text:
        listeners += f",CONTROLLER://{HOST}:{free_port()}"
    own = {"listeners": listeners, "log.dirs": str(tmp_path / "data")}
    if "advertised.listeners" in text:
        own["advertised.listeners"] = listeners
    options = [f"--override={key}={value}" for key, value in own.items()]
    with (tmp_path / "errors.txt").open("wb") as errors:
        broker = subprocess.Popen(broker_command("server.properties", *options), stderr=errors, cwd=tmp_path)
    try:
        await_listener(port)
        producer = KafkaProducer(bootstrap_servers=f"{HOST}:{port}")
        assert producer.send("orders", b"two apples").get(60).offset == 0
        assert len(producer.partitions_for("orders")) == partitions
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=f"{HOST}:{port}", auto_offset_reset="earliest", consumer_timeout_ms=60_000
        )
        assert next(consumer).value == b"two apples"
        consumer.close()
    finally:
        broker.terminate()
        exit_code = broker.wait(60)
    assert exit_code == 0
    warned = re.findall(r" WARN .*server\.properties:\d+: (\S+) has no effect", (tmp_path / "errors.txt").read_text())
    assert warned == WITHOUT_EFFECT[whose]
