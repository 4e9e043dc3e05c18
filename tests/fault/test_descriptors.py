"""A process with few file descriptors, and many partitions and clients: slower, never wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, batch
from tests.support.eventually import eventually

LIMIT = 256
PARTITIONS = 150
CLIENTS = 300


class NarrowBroker(OurBroker):
    """A broker with `ulimit -n 256`."""

    def _command(self, config: Path) -> list[str]:
        return ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh", *super()._command(config)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NarrowBroker]:
    with NarrowBroker(tmp_path, {"log.flush.interval.ms": "100", "log.flush.scheduler.interval.ms": "100"}) as running:
        yield running


def descriptors(broker: OurBroker) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


def test_more_partitions_and_clients_than_descriptors(broker: NarrowBroker) -> None:
    """Clients without room wait until others disconnect. Every partition is written and read, also after a restart.

    Segments roll meanwhile, so that files are opened, not only kept open.
    """
    configs = {"internal.segment.bytes": 2000, "segment.index.bytes": 120}
    with DataClient(HOST, broker.port) as client:
        client.create_topic("events", PARTITIONS, configs)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection((HOST, broker.port))) for _ in range(CLIENTS)]
        waiting = threading.Thread(target=write_all, args=(broker.port, 0))
        eventually(lambda: "New connections wait: " in broker.output)
        assert descriptors(broker) < LIMIT
        for connection in crowd[: CLIENTS // 2]:
            connection.close()
        waiting.start()
        for connection in crowd[CLIENTS // 2 :]:
            connection.close()
        waiting.join(120)
        assert not waiting.is_alive()
    served = [DataClient(HOST, broker.port) for _ in range(100)]
    for number in range(1, 4):
        write_all(broker.port, number)
    for client in served:
        assert client.topics()["events"] == PARTITIONS
    read_all(served[0], 4)
    assert descriptors(broker) < LIMIT
    for client in served:
        client.close()
    for word in ("Traceback", "FATAL", "Too many open files"):
        assert word not in broker.output
    broker.kill()
    broker.start()
    with DataClient(HOST, broker.port) as client:
        read_all(client, 4)
    assert broker.stop() == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    assert "FATAL" not in broker.output


def write_all(port: int, number: int) -> None:
    """Produce one record to each partition."""
    with DataClient(HOST, port) as client:
        for partition in range(PARTITIONS):
            assert client.produce("events", batch(b"%d" % number + bytes(800)), partition) == number


def read_all(client: DataClient, count: int) -> None:
    for partition in range(PARTITIONS):
        expected = [b"%d" % number + bytes(800) for number in range(count)]
        assert client.values("events", partition) == expected
