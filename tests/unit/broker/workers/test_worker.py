"""A worker carries out messages of the main process and reports failures."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.coordinators.transaction.markers import Marker
from broker.process.placement import worker_of
from broker.workers.messages import (
    Open,
    Records,
    Stop,
    WriteMarker,
)
from coordinator.shard import Producer
from metadata.framing import encode_record, new_record
from metadata.replica_placement import new_partition
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ClientQuotaRecord, TopicRecord
from protocol.messages.cluster_metadata.configs import EntityData
from runtime.deferred import Deferred
from storage.checkpoints import RECOVERY_POINTS
from tests.support.logs import append, batch
from tests.support.nodes import TOPIC_ID
from tests.support.own_worker import TOPIC, Owner, done, run

#: Partitions that no disk, not even one in memory, opens within one turn.
MANY = 400


@contextmanager
def failing_fsync(monkeypatch: pytest.MonkeyPatch, fail_at: int, wait: Callable[[], object]) -> Iterator[list[int]]:
    """Make fsync number `fail_at` raise, and call `wait` before each; return the paths of the calls so far."""
    calls: list[int] = []
    fsync = os.fsync

    def failing(handle: int) -> None:
        wait()
        calls.append(handle)
        if len(calls) == fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        yield calls


def test_stop_returns_the_failed_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a failure of any of the last fsyncs. The main process must not mark them as cleanly shut down."""
    answers: list[dict[str, str]] = []

    async def scenario(owner: Owner) -> None:
        log = owner.worker.logs.open(TOPIC, 0)
        assert log is not None
        append(log, batch())
        with failing_fsync(monkeypatch, len(answers) + 1, lambda: None) as calls:
            answers.append(await owner.answer(Stop()))
        assert bool(answers[-1]) == (len(calls) >= len(answers))
        assert owner.exit_codes == [0]

    while not answers or answers[-1]:
        directory = tmp_path / str(len(answers))
        run(directory, scenario)
        assert [key for key in answers[-1] if key != str(directory)] == []
        assert all(reason.startswith("[Errno 5] Input/output error") for reason in answers[-1].values())
    assert len(answers) > 2


def test_last_background_failure_is_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is applied after the thread has ended, too late for a message of its own."""

    async def scenario(owner: Owner) -> None:
        background, stopping = owner.worker.background, threading.Event()
        stop = background.stop

        def stop_then() -> None:
            stopping.set()
            stop()

        monkeypatch.setattr(background, "stop", stop_then)
        with failing_fsync(monkeypatch, 1, stopping.wait):
            background.checkpoint(RECOVERY_POINTS)
            answer = await owner.answer(Stop())
        path = f"{tmp_path}/{RECOVERY_POINTS}.1.tmp"
        assert answer == {str(tmp_path): f"[Errno 5] Input/output error: '{path}'"}

    run(tmp_path, scenario)


def test_clients_are_served_once_all_is_hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a restart, Records come right before Open. Until then a marker has to be sent again."""

    async def scenario(owner: Owner) -> None:
        worker, topic_id = owner.worker, bytes(reversed(TOPIC_ID))
        records = [new_record(30, TopicRecord, name="many", topic_id=topic_id)]
        records += [new_partition(worker.metadata.image, topic_id, index, [1], manual=False) for index in range(MANY)]
        own = [index for index in range(MANY) if worker_of("many", index, 2) == 1]
        hosted: list[bool] = []
        monkeypatch.setattr(
            worker.server, "open", lambda _: hosted.append(worker.logs.open("many", own[-1]) is not None)
        )

        followed = owner.link.ask(Records(1, tuple(map(encode_record, records))))
        owner.link.send(Open())
        marker = Marker(Producer(7, 1), True, 0)
        marked = owner.link.ask(WriteMarker(marker, "many", own[-1]))
        assert await done(marked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (followed.done, hosted) == (False, [])
        await done(followed)
        assert hosted == [True]
        assert await owner.answer(WriteMarker(marker, "many", own[-1])) is ErrorCode.NONE
        assert await owner.answer(WriteMarker(marker, "none", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await owner.answer(Stop()) == {}

    run(tmp_path, scenario)


def test_quotas_apply_at_each_worker(tmp_path: Path) -> None:
    """As at each broker of Kafka."""

    async def scenario(owner: Owner) -> None:
        entity = [EntityData(entity_type="client-id", entity_name="slow")]
        for remove in (False, True):
            record = new_record(
                30, ClientQuotaRecord, entity=entity, key="producer_byte_rate", value=9.0, remove=remove
            )
            await done(owner.link.ask(Records(1, (encode_record(record),))))
            quotas = owner.worker.dispatcher.quotas
            limits = quotas and quotas.of("User:ANONYMOUS", b"slow")
            assert (limits and limits.produced and limits.produced.bound) == (None if remove else 9.0)
        assert await owner.answer(Stop()) == {}

    run(tmp_path, scenario)


def test_stopping_worker_serves_no_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although Open came before the stop."""

    async def scenario(owner: Owner) -> None:
        monkeypatch.setattr(owner.worker.server, "open", lambda _: pytest.fail("clients are let in"))
        hosted: Deferred[None] = Deferred()
        monkeypatch.setattr(owner.worker.publisher, "when_published", lambda: hosted)
        owner.link.send(Open())
        stopped = owner.link.ask(Stop())
        await done(stopped)
        hosted.resolve(None)

    run(tmp_path, scenario)
