"""All workers except the main process, as seen by it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.process.placement import worker_of
from broker.process.start_errors import StartInterrupted
from broker.workers.handle import WorkerHandle
from broker.workers.link import LinkEnded
from broker.workers.messages import LogLevels, Records
from broker.workers.supervisor import WorkerSupervisor
from metadata.create_topics import NewTopic
from runtime import logs
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.controllers import ControllerHarness
from tests.support.fake_loop import FakeLoop


def attached(backend: SimpleNamespace, workers: int) -> WorkerSupervisor:
    """A supervisor of workers without listeners; `backend` has the parts of the main process that the test needs."""
    backend.share_states = None
    supervisor = WorkerSupervisor([[]] * workers)
    supervisor.attach(backend)  # type: ignore[arg-type]
    return supervisor


def test_start_interrupted_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the main process opens its logs. It starts no worker."""
    monkeypatch.setattr("broker.workers.handle.WorkerHandle.start", lambda self: pytest.fail("is started"))
    supervisor = attached(SimpleNamespace(), 2)
    supervisor.interrupt()
    with pytest.raises(StartInterrupted):
        asyncio.run(supervisor.start(set()))


def test_unsendable_records_restart_all_workers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The records are in the log, so no worker may miss them."""
    owner = ControllerHarness({"num.workers": "3"})
    supervisor = attached(SimpleNamespace(controller=owner.controller, metadata=owner.metadata), 2)
    owner.controller.followers = supervisor
    calls: list[WorkerHandle] = []
    ended: list[WorkerHandle] = []

    def follow(member: WorkerHandle, message: Records) -> None:
        calls.append(member)
        if len(calls) == 2:
            raise MemoryError

    monkeypatch.setattr(WorkerHandle, "follow", follow)
    monkeypatch.setattr(WorkerHandle, "restart_process", lambda member: ended.append(member))
    owner.with_topics(NewTopic("t", 1, 1))
    assert owner.controller.image.topic("t") is not None
    assert ended == calls
    assert "they are restarted" in caplog.text


def test_logger_levels_are_sent_until_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later broker in this process must not affect closed workers."""
    calls: list[object] = []

    async def start(member: WorkerHandle, deleted_topics: set[bytes]) -> None:
        """The worker's process is not needed here."""

    monkeypatch.setattr(WorkerHandle, "start", start)
    monkeypatch.setattr(WorkerHandle, "send", lambda member, message: calls.append(message))
    owner = ControllerHarness({"num.workers": "2"})
    backend = SimpleNamespace(
        config=owner.config, controller=owner.controller, metadata=owner.metadata, logs=SimpleNamespace(directories=[])
    )
    supervisor = attached(backend, 1)
    asyncio.run(supervisor.start(set()))
    logs.set_level("broker.workers.supervisor", None)
    assert calls == [LogLevels(logs.own_levels())]
    supervisor.close()
    supervisor.close()
    logs.set_level("broker.workers.supervisor", None)
    assert len(calls) == 1


def test_unresponsive_worker_is_waited_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request for an end offset asks the worker; concurrent scrapes share one request."""
    asked: list[Deferred[Any]] = []

    def ask(member: WorkerHandle, message: object) -> Deferred[Any]:
        asked.append(Deferred())
        return asked[-1]

    monkeypatch.setattr(WorkerHandle, "ask", ask)
    loop = FakeLoop()
    config = SimpleNamespace(num_workers=2)
    supervisor = attached(SimpleNamespace(timers=Timers(loop, loop.clock), config=config), 1)
    place = next(("t", index) for index in range(100) if worker_of("t", index, 2) == 1)
    ends = [supervisor.end_offset(*place) for _ in range(2)]
    asked[1].resolve(5)
    assert ends[1].result() == 5
    learnt = [supervisor.learn_ends([place]) for _ in range(2)]
    assert len(asked) == 3
    loop.advance(1_000)
    assert all(each.done for each in learnt)
    with pytest.raises(LinkEnded):
        ends[0].result()
    for late in (asked[0], asked[2]):
        late.resolve({place: 7})
    supervisor.learn_ends([place])
    asked[-1].resolve({place: 8})
    assert supervisor.known_ends == {place: 8}
