"""A worker as seen from the main process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from signal import SIGKILL
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

import pytest

from broker.process.placement import worker_of
from broker.process.start_errors import StartInterrupted
from broker.workers.handle import WorkerHandle
from broker.workers.link import LinkEnded
from broker.workers.messages import (
    EndOffset,
    Open,
    Ready,
    Records,
)
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeLoop

WORKERS = 2


class WorkersLink:
    """Records messages; the test answers requests."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.asked: list[Deferred[None]] = []

    def send(self, message: Any) -> None:
        self.messages.append(message)

    def ask(self, message: Any) -> Deferred[None]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def close(self) -> None:
        for each in self.asked:
            if not each.done:
                each.fail(LinkEnded())


class Transactions:
    """Records the workers whose partitions are ready."""

    def __init__(self) -> None:
        self.ready: list[int] = []

    def retry_markers(self, is_ready: Callable[[tuple[str, int]], bool]) -> None:
        self.ready += {worker_of("t", index, WORKERS) for index in range(10) if is_ready(("t", index))}


@pytest.fixture
def link() -> WorkersLink:
    return WorkersLink()


@pytest.fixture
def member(link: WorkersLink) -> WorkerHandle:
    loop: Any = FakeLoop()
    loop.time = lambda: 0.0
    broker: Any = SimpleNamespace(
        loop=loop, transactions=Transactions(), share_states=None, config=SimpleNamespace(num_workers=WORKERS)
    )
    made = WorkerHandle(broker, 1, [])
    made._link = link  # type: ignore[assignment]
    return made


def test_worker_opening_its_logs_is_not_waited_for(member: WorkerHandle, link: WorkersLink) -> None:
    """It gets all records before it serves clients. From then on it is waited for."""
    member.open()
    link.messages.clear()
    member.follow(Records(1, ()))
    assert member.when_caught_up().done
    assert link.messages == []

    member._serve(Ready())
    assert link.messages == [Open()]
    caught_up = member.when_caught_up()
    assert not caught_up.done
    link.asked[0].resolve(None)
    assert caught_up.done


def test_worker_opening_its_logs_gets_no_requests(member: WorkerHandle, link: WorkersLink) -> None:
    """It could answer only once the logs are open."""
    with pytest.raises(LinkEnded):
        member.ask(EndOffset("t", 0)).result()
    assert link.asked == []
    member._serve(Ready())
    assert not member.ask(EndOffset("t", 0)).done
    assert len(link.asked) == 1


def test_ended_worker_is_not_waited_for(member: WorkerHandle, link: WorkersLink) -> None:
    """It gets all records again at its restart."""
    member._serve(Ready())
    member.follow(Records(1, ()))
    caught_up = member.when_caught_up()
    member.kill()
    assert caught_up.done
    member.follow(Records(2, ()))
    assert member.when_caught_up().done
    assert len(link.asked) == 1


def test_failed_directories_of_a_stop_reach_the_main_process(member: WorkerHandle, link: WorkersLink) -> None:
    """It does not mark them as cleanly shut down, although the stop succeeded."""
    failed: list[tuple[str, str]] = []

    async def scenario() -> None:
        broker: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(), fail_directory=lambda *failure: failed.append(failure)
        )
        member._backend = broker
        member._is_ready = True
        stopping = asyncio.ensure_future(member.stop())
        await asyncio.sleep(0)
        link.asked[-1].resolve({"/logs": "Input/output error"})
        assert await stopping

    asyncio.run(scenario())
    assert failed == [("/logs", "Input/output error")]


def test_stop_kills_a_worker_that_opens_its_logs(member: WorkerHandle, link: WorkersLink) -> None:
    """It could handle the stop only once the logs are open."""
    process = member._process = Popen(["sleep", "60"])
    assert not asyncio.run(member.stop())
    assert link.asked == []
    assert process.returncode == -SIGKILL


def test_stop_waits_for_a_limited_time(
    member: WorkerHandle, link: WorkersLink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("broker.workers.handle.LONGEST_STOP_S", 0.01)
    member._serve(Ready())

    async def scenario() -> None:
        member._backend.loop = asyncio.get_running_loop()
        assert not await member.stop()
        link.close()  # a late answer or end

    asyncio.run(scenario())
    assert "Worker 1 has not stopped cleanly: TimeoutError()" in caplog.text


def test_start_can_be_interrupted_once(member: WorkerHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is up is not interrupted."""
    monkeypatch.setattr(member, "_begin", lambda: None)

    async def scenario() -> None:
        member._backend.loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(member.start())
        await asyncio.sleep(0)
        member.interrupt()
        member.interrupt()
        with pytest.raises(StartInterrupted):
            await starting

        starting = asyncio.ensure_future(member.start())
        await asyncio.sleep(0)
        member._serve(Ready())
        member.interrupt()
        await starting
        member.kill()

    asyncio.run(scenario())


def test_deleted_topics_are_kept_until_removed(member: WorkerHandle, link: WorkersLink) -> None:
    """A worker that was away finds their files at its restart. One that removed them need not hear of them again."""
    member._deleted_topics.add(b"before the start")
    member.follow(Records(1, ()))
    member.note_deleted(b"while it starts")
    member._serve(Ready())
    assert member._deleted_topics == {b"before the start", b"while it starts"}
    link.asked[0].resolve(None)
    assert member._deleted_topics == set()

    for offset, topic_id in ((2, b"first"), (3, b"second"), (4, b"third")):
        member.follow(Records(offset, ()))
        member.note_deleted(topic_id)
    link.asked[1].resolve(None)
    assert member._deleted_topics == {b"first", b"second", b"third"}
    link.asked[2].resolve(None)
    link.asked[3].fail(LinkEnded())
    assert member._deleted_topics == {b"first", b"second", b"third"}
    member._serve(Ready())
    assert member._deleted_topics == set()


def test_process_that_lost_its_link_is_killed(member: WorkerHandle) -> None:
    """It may still hold locks and ports."""

    async def scenario() -> None:
        member._backend.loop = asyncio.get_running_loop()
        process = member._process = Popen(["sleep", "60"])
        member._on_end()
        member.kill()
        assert process.returncode == -SIGKILL

    asyncio.run(scenario())


def test_wait_for_a_hanging_process_is_limited(
    member: WorkerHandle, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel ends it once its disk call returns."""
    monkeypatch.setattr("broker.workers.handle.LAST_WORDS_S", 0.01)
    process = member._process = Popen(["sleep", "60"])
    with monkeypatch.context() as patched:
        patched.setattr(process, "kill", lambda: None)
        member.kill()
    assert "Worker 1 does not end" in caplog.text
    process.kill()
    process.wait()


def test_transactions_learn_of_a_worker_that_is_back(member: WorkerHandle) -> None:
    """They have markers to write there. At the start of the broker there are none."""
    member._serve(Ready())
    assert member._backend.transactions.ready == [1]  # type: ignore[attr-defined]

    async def scenario() -> None:
        member._backend.loop = asyncio.get_running_loop()
        member._started = member._backend.loop.create_future()
        member._serve(Ready())
        member.kill()

    asyncio.run(scenario())
    assert member._backend.transactions.ready == [1]  # type: ignore[attr-defined]
