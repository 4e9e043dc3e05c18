"""pybroker verify on directories of running, stopped and killed brokers, and of Apache Kafka."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from protocol.records.compression import Codec
from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.eventually import eventually, succeeds

T = TypeVar("T")
ROLLS = {"internal.segment.bytes": 20_000, "index.interval.bytes": 500, "segment.index.bytes": 1200}


def verify(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pybroker", "verify", str(directory), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def patiently(call: Callable[[], T]) -> T:
    """Return the result of a call that Apache Kafka may reject for a moment after its start, or a topic's creation."""
    return eventually(call, retried=Refused, until=succeeds)


def write(broker: RunningBroker, first: int) -> None:
    """Write batches of every codec, with idempotent ones, over several segments."""
    with DataClient(HOST, broker.port) as client:
        if not first:
            client.create_topic("orders", 2, ROLLS)
            client.create_topic("events", 1, ROLLS)
        producer_id = patiently(client.new_producer_id)
        for topic, partition in (("orders", 0), ("orders", 1), ("events", 0)):
            patiently(partial(client.bounds, topic, partition))
        for number in range(first, first + 200):
            values = [b"%d" % number * (1 + number % 90)] * (1 + number % 5)
            client.produce("orders", batch(*values, codec=number % len(Codec), key=b"k"), partition=number % 2)
            header = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": number - first}
            client.produce("events", batch(b"%d" % number, **header))


@pytest.mark.kafka_each_time
@pytest.mark.parametrize("kind", BROKERS)
def test_from_running_to_killed(kind: str, tmp_path: Path) -> None:
    """Rejected while it runs; valid after a kill, as far as the page cache goes, and after a stop."""
    with BROKERS[kind](tmp_path / "broker") as broker:
        write(broker, 0)
        refused = verify(broker.log_dir)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"{broker.log_dir}: a broker is using it" in refused.stderr
        broker.kill()
        killed = verify(broker.log_dir, "--deep")
        assert killed.returncode == 0, killed.stdout
        broker.start()
        write(broker, 200)
        assert broker.stop() in (0, 143)
        stopped = verify(broker.log_dir, "--deep")
        assert (stopped.returncode, stopped.stderr) == (0, ""), stopped.stdout
        assert "no problems" in stopped.stdout


@pytest.mark.kafka_each_time
@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_starts_on_a_repaired_directory(kind: str, tmp_path: Path) -> None:
    """A repaired log is served up to the damage."""
    with BROKERS[kind](tmp_path / "broker") as broker:
        write(broker, 0)
        assert broker.stop() in (0, 143)
        segments = sorted((broker.log_dir / "events-0").glob("*.log"))
        data = bytearray(segments[-1].read_bytes())
        data[-1] ^= 1
        segments[-1].write_bytes(data)
        segments[0].with_suffix(".index").write_bytes(b"not an index")
        found = verify(broker.log_dir)
        assert found.returncode == 1
        assert f"{segments[-1]}: byte " in found.stdout
        assert f"{segments[0].with_suffix('.index')}: " in found.stdout
        repaired = verify(broker.log_dir, "--repair")
        assert repaired.returncode == 0, repaired.stdout
        broker.start()
        with DataClient(HOST, broker.port) as client:
            assert patiently(partial(client.values, "events")) == [b"%d" % number for number in range(199)]
            assert len(patiently(partial(client.values, "orders", 1))) == 300
