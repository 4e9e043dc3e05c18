"""The image's entry point outside of a container, with the environment of Apache Kafka's compose example."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


def test_compose_environment_of_kafkas_image_starts_the_broker(tmp_path: Path) -> None:
    """KAFKA_* variables, CLUSTER_ID, three listeners; healthy; a client on the host's listener."""
    host, containers, controller = free_port(), free_port(), free_port()
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ENTRYPOINT_CONFIG_DIR": str(tmp_path),
        "ENTRYPOINT_MOUNTED_DIR": str(tmp_path / "nothing-mounted"),
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT_HOST://localhost:{host},PLAINTEXT://broker:{containers}",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@broker:{controller}",
        "KAFKA_LISTENERS": f"CONTROLLER://:{controller},PLAINTEXT_HOST://:{host},PLAINTEXT://:{containers}",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_LOG_DIRS": str(tmp_path / "logs"),
    }
    entrypoint = [sys.executable, str(ROOT / "docker" / "entrypoint.py")]
    broker = subprocess.Popen([*entrypoint, "run"], env=environ, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while subprocess.run([*entrypoint, "health"], env=environ).returncode != 0:
            assert broker.poll() is None, broker.communicate()
            assert time.monotonic() < deadline

        admin = KafkaAdminClient(bootstrap_servers=f"localhost:{host}")
        assert admin.describe_cluster()["cluster_id"] == "4L6g3nShT-eMCtK--X86sw"
        admin.close()
        producer = KafkaProducer(bootstrap_servers=f"localhost:{host}")
        producer.send("t", b"v").get(timeout=60)
        producer.close()
        consumer = KafkaConsumer("t", bootstrap_servers=f"localhost:{host}", auto_offset_reset="earliest")
        assert next(consumer).value == b"v"
        consumer.close()
    finally:
        broker.terminate()
        log, _ = broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert "Kafka Server started" in log
    assert "ERROR" not in log
    assert subprocess.run([*entrypoint, "health"], env=environ).returncode == 1
