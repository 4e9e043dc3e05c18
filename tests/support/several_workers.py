"""A broker with several workers, and a client for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from broker.process.placement import worker_of
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import Refused
from tests.support.eventually import eventually, succeeds
from tests.support.ports import free_ports
from tests.support.txn_client import TxnClient

_PATIENCE_S = 60

T = TypeVar("T")


class WorkersBroker(OurBroker):
    """`count` workers, at most `most`; `client(k)` is connected to worker k."""

    def __init__(
        self, directory: Path, count: int = 2, properties: Mapping[str, str] | None = None, *, most: int = 0
    ) -> None:
        self.count = count
        self._clients: dict[int, TxnClient] = {}
        super().__init__(directory, properties, port=free_ports(max(count, most)))

    def _own_properties(self) -> dict[str, str]:
        return {**super()._own_properties(), "num.workers": str(self.count)}

    def client(self, worker: int = 0) -> TxnClient:
        if worker not in self._clients:
            self._clients[worker] = TxnClient(HOST, self.port + worker)
        return self._clients[worker]

    def at(self, topic: str, partition: int) -> TxnClient:
        """Return the client of the worker that has a partition."""
        return self.client(worker_of(topic, partition, self.count))

    def leaders(self, topic: str, asked: int = 0) -> list[int]:
        """Return the leaders of a topic's partitions, as a worker reports them."""
        answer = self.client(asked).call(
            METADATA, 9, topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        partitions = sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)
        return [each.leader_id for each in partitions]

    def worker_ids(self) -> list[int]:
        """Return the process ids of the other workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(each) for each in children if "workers/process.py" in _command_line(each)]

    def forget_clients(self) -> None:
        """Close all connections; the next ones are new."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def stop(self, timeout_s: float = 90) -> int:
        self.forget_clients()
        return super().stop(timeout_s)

    def kill(self) -> None:
        self.forget_clients()
        super().kill()


def _command_line(process_id: str) -> str:
    """Return the command line of a process, empty if it has just ended."""
    try:
        return Path(f"/proc/{process_id}/cmdline").read_text()
    except OSError:
        return ""


def until(attempt: Callable[[], T]) -> T:
    """Call `attempt` until it is neither rejected nor loses its connection; return its result."""
    return eventually(attempt, retried=(Refused, OSError, EOFError), until=succeeds)
