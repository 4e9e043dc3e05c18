"""kill -9 of each process of num.workers=3 in turn, under load: no record is lost or duplicated."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from broker.process.placement import MAIN, worker_of
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.several_workers import WorkersBroker, until

WORKERS, PARTITIONS = 3, 6
_PATIENCE_S = 60


class Load:
    """An idempotent producer that writes numbers to all partitions and counts the acknowledged ones."""

    def __init__(self, bootstrap: str) -> None:
        quick = {"reconnect.backoff.max.ms": 100, "retry.backoff.max.ms": 100, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **quick})
        self.sent = 0
        self.acknowledged = [0] * PARTITIONS

    def send(self, count: int) -> None:
        for _ in range(count):
            for partition in range(PARTITIONS):
                self._producer.produce("t", b"%d" % self.sent, partition=partition, on_delivery=self._on_delivery)
            self.sent += 1
        self._producer.poll(0)

    def wait_for(self, partition: int, count: int) -> None:
        """Wait until that many were acknowledged."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.acknowledged[partition] < count:
            assert time.monotonic() < deadline
            self._producer.poll(0.05)

    def finish(self) -> None:
        assert self._producer.flush(_PATIENCE_S) == 0

    def give_up(self) -> None:
        self._producer.purge()
        self._producer.flush(_PATIENCE_S)

    def _on_delivery(self, error: object, record: object) -> None:
        if error is None:
            self.acknowledged[record.partition()] += 1  # type: ignore[attr-defined]


def are_replaced(broker: WorkersBroker, before: list[int]) -> bool:
    """Report whether all workers run, and at least one in another process than before."""
    return len(broker.worker_ids()) >= WORKERS - 1 and broker.worker_ids() != before


def test_each_process_is_killed_under_load(tmp_path: Path) -> None:
    """The others continue, and the killed one comes back.

    If the owner dies, all end. The last stop is bounded in time.
    """
    broker = WorkersBroker(tmp_path, WORKERS)
    broker.client().create_topic("t", PARTITIONS)
    workers = [worker_of("t", index, WORKERS) for index in range(PARTITIONS)]
    load, count = Load(broker.bootstrap), scaled(50)
    for _ in range(min(scaled(1), 15)):
        for killed in range(WORKERS):
            load.send(count)
            load.wait_for(workers.index(killed), load.sent - count // 2)
            if killed == MAIN:
                broker.kill()
                broker.start()
                continue
            before = broker.worker_ids()
            os.kill(before[killed - 1], signal.SIGKILL)
            load.send(count)
            load.wait_for(workers.index(MAIN), load.sent)
            eventually(partial(are_replaced, broker, before), timeout_s=_PATIENCE_S)
    load.finish()
    for index in range(PARTITIONS):
        found = until(lambda index=index: broker.at("t", index).values("t", index))  # type: ignore[misc]
        assert found == [b"%d" % number for number in range(load.sent)]

    acknowledged = load.sent
    load.send(count)
    load.wait_for(workers.index(1), acknowledged + 1)
    assert broker.stop() == 0
    load.give_up()
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    for index in range(PARTITIONS):
        found = until(lambda index=index: broker.at("t", index).values("t", index))  # type: ignore[misc]
        assert found == [b"%d" % number for number in range(len(found))]
        assert len(found) >= load.acknowledged[index]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output
