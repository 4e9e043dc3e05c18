"""With the lines of docs/reference/interchange.md the shipped configuration works for both brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from config.properties import parse_properties
from tests.support.brokers import HOST, KafkaBroker, OurBroker, RunningBroker
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


def properties(port: int, quorum_port: int) -> Mapping[str, str]:
    """Return the shipped file with the lines of the page, except ports and log.dirs."""
    page = (ROOT / "docs/reference/interchange.md").read_text()
    block = re.search(r"```properties\n(.*?)```", page, re.DOTALL)
    assert block is not None
    text = f"{(ROOT / 'config/server.properties').read_text()}\n{block[1]}"
    changes = {"://:": f"://{HOST}:", "9092": str(port), "9093": str(quorum_port), "log.dirs=./data\n": ""}
    for old, new in changes.items():
        text = text.replace(old, new)
    return {entry.key: entry.value for entry in parse_properties(text.encode(), "")}


class _Ours(OurBroker):
    def _own_properties(self) -> dict[str, str]:
        return {}


class _Kafka(KafkaBroker):
    def _own_properties(self) -> dict[str, str]:
        return {}


def read(broker: RunningBroker) -> list[bytes]:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    found = [next(consumer).value]
    consumer.close()
    return found


def test_the_shipped_file_works_for_both_brokers(tmp_path: Path) -> None:
    """pybroker writes, Apache Kafka reads, and pybroker reads again; the file does not change."""
    port = free_port()
    both = properties(port, free_port())
    ours = _Ours(tmp_path, both, port=port)
    producer = KafkaProducer(bootstrap_servers=ours.bootstrap)
    producer.send("orders", b"two apples").get(60)
    producer.close()
    assert ours.stop() == 0
    for kind in (_Kafka, _Ours):
        broker = kind(tmp_path, both, port=port)
        try:
            assert read(broker) == [b"two apples"]
        finally:
            broker.stop()
