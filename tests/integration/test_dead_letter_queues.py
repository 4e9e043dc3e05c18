"""Dead-letter queues of share groups whose partitions belong to other processes, and after kill -9 (KIP-1191)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from broker.process.placement import worker_of
from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.dead_letters import ENABLED, raise_levels, use_queue
from tests.support.eventually import eventually
from tests.support.several_workers import WorkersBroker, until
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of

PROPERTIES = {**SHARE_PROPERTIES, "errors.deadletterqueue.auto.create.topics.enable": "true"}
REJECT = [3]


def names_at(worker: int, prefix: str) -> Iterator[str]:
    """Yield names of topics whose first partition is at the worker."""
    return (name for name in map(f"{prefix}{{}}".format, range(99)) if worker_of(name, 0, 2) == worker)


@pytest.fixture
def broker(tmp_path: object) -> Iterator[WorkersBroker]:
    with WorkersBroker(tmp_path, properties=PROPERTIES) as started:  # type: ignore[arg-type]
        raise_levels(started.client())
        yield started


def at_leader(broker: WorkersBroker, owner: ShareClient, worker: int, member: str = "member") -> ShareClient:
    client = ShareClient(HOST, broker.port + worker, timeout_s=180)
    client.group, client.topic_id, client.member = owner.group, owner.topic_id, member
    return client


def is_archived(owner: ShareClient) -> bool:
    return ", 3, 1)" not in owner.read()


@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("is_new", [False, True])
def test_queue_at_another_worker(broker: WorkersBroker, source: int, is_new: bool) -> None:
    name, queue = next(names_at(source, "source-")), next(names_at(1 - source, "dlq."))
    with member_of(broker, name) as owner:
        if not is_new:
            owner.create_topic(queue, 1, ENABLED)
        use_queue(owner, queue)
        broker.client(source).produce(name, batch(b"a", b"b", b"c"))
        owner.join(name)
        with at_leader(broker, owner, source) as member:
            until(lambda: member.acquire(wait_ms=1_000) == [(0, 2, 1)])
            assert member.acknowledge((0, 0, [1]), (1, 2, REJECT)) == "NONE ['0 NONE None']"
            eventually(lambda: is_archived(owner), timeout_s=60)
        found = broker.client(1 - source).read_all(queue)
        assert [(each.value, dict(each.headers)["__dlq.errors.offset"]) for each in found] == [
            (b"b", b"1"),
            (b"c", b"2"),
        ]
    assert broker.stop() == 0
    assert "Traceback" not in broker.output


def test_kill_while_archiving(broker: WorkersBroker) -> None:
    """State 3 is stored, the letter is not in its log: the next leader writes it, and no member gets the record."""
    name, queue = next(names_at(0, "source-")), next(names_at(1, "dlq."))
    with member_of(broker, name) as owner:
        owner.create_topic(queue, 1, ENABLED)
        use_queue(owner, queue)
        broker.client(0).produce(name, batch(b"a"))
        owner.join(name)
        until(lambda: owner.acquire(wait_ms=1_000) == [(0, 0, 1)])
        [worker] = broker.worker_ids()
        os.kill(worker, signal.SIGSTOP)
        assert owner.acknowledge((0, 0, REJECT)) == "NONE ['0 NONE None']"
        assert owner.read().endswith("[(0, 0, 3, 1)]")
        for process in (broker.pid, worker):
            os.kill(process, signal.SIGKILL)
        broker.kill()
        group, topic_id = owner.group, owner.topic_id
    broker.forget_clients()
    broker.start()
    with ShareClient(HOST, broker.port, timeout_s=180) as again:
        again.group, again.topic_id, again.member = group, topic_id, "again"
        again.wait_for_group()
        again.join(name)
        until(lambda: again.acquire(wait_ms=500) == [] and is_archived(again))
    [letter] = broker.client(1).read_all(queue)
    assert letter.value == b"a"
