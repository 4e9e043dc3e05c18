"""A worker in this process, with directories of its own; the test is the owner at the other end of its link."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.cores.link import Link
from broker.cores.messages import Begin, GivenConfig, GivenDirectory, Ready, Stop
from broker.cores.placement import worker_of
from broker.cores.worker import Worker
from broker.deferred import Deferred
from metadata.framing import encode_record, new_record
from metadata.placement import new_partition
from metadata.snapshot import image_records
from protocol.messages.cluster_metadata import TopicRecord
from storage.checkpoints import RECOVERY_POINTS
from tests.support.logs import append, batch
from tests.support.nodes import TOPIC_ID, config, start, write

TOPIC = next(name for name in map(str, range(100)) if worker_of(name, 0, 2) == 1)


class Owner:
    """The owner's end. `exit_codes`: those with which the worker has ended."""

    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        self.heard: list[Any] = []
        self.exit_codes: list[int] = []
        self.link = Link(loop, ours, self.heard.append, lambda: None)
        self.link.listen()
        self.worker = Worker(_begin(directory), theirs, loop, self.exit_codes.append)

    async def hears(self, kind: type) -> None:
        while not any(isinstance(each, kind) for each in self.heard):
            await asyncio.sleep(0.001)

    async def answer(self, message: object) -> Any:
        return await done(self.link.ask(message))


async def done(deferred: Deferred[Any]) -> Any:
    while not deferred.done:
        await asyncio.sleep(0.001)
    return deferred.result()


def _begin(directory: Path) -> Begin:
    """As of a node with one topic, whose partition is the worker's."""
    node = start(directory, num_workers="2")
    topic = new_record(30, TopicRecord, name=TOPIC, topic_id=TOPIC_ID)
    write(node, topic, new_partition(node.image, TOPIC_ID, 0, [1], manual=False))
    given = config(directory, num_workers="2")
    begin = Begin(
        1,
        GivenConfig(given.path, dict(given.static), dict(given.static_values), given.listening),
        node.cluster_id,
        1,
        0,
        tuple(map(encode_record, image_records(node.image))),
        frozenset(),
        tuple(GivenDirectory(path, each, True, None) for path, each in node.directory_ids.items()),
        {},
        (),
        {},
        {},
        False,
    )
    node.close(3000)
    return begin


def run(directory: Path, life: Callable[[Owner], Awaitable[None]]) -> None:
    async def main() -> None:
        owner = Owner(directory)
        await owner.worker.start()
        await owner.hears(Ready)
        try:
            await life(owner)
        finally:
            owner.link.close()
            owner.worker.link.close()

    asyncio.run(main())


@contextmanager
def failing_fsync(monkeypatch: pytest.MonkeyPatch, fail_at: int, wait: Callable[[], object]) -> Iterator[list[int]]:
    """Call number `fail_at` raises; each calls `wait` before. Gives the calls made so far."""
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


def test_a_stop_is_answered_with_the_directories_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the last fsyncs it was: the owner is not to mark them as left cleanly."""
    answers: list[dict[str, str]] = []

    async def life(owner: Owner) -> None:
        log = owner.worker.logs.get(TOPIC, 0)
        assert log is not None
        append(log, batch())
        with failing_fsync(monkeypatch, len(answers) + 1, lambda: None) as calls:
            answers.append(await owner.answer(Stop()))
        assert bool(answers[-1]) == (len(calls) >= len(answers))
        assert owner.exit_codes == [0]

    while not answers or answers[-1]:
        directory = tmp_path / str(len(answers))
        run(directory, life)
        assert answers[-1] in ({}, {str(directory): "[Errno 5] Input/output error"})
    assert len(answers) > 2


def test_a_failure_of_the_last_background_work_is_in_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is applied once the thread has ended: too late to be told of by itself."""

    async def life(owner: Owner) -> None:
        background, stopping = owner.worker.background, threading.Event()
        stop = background.stop

        def stop_then() -> None:
            stopping.set()
            stop()

        monkeypatch.setattr(background, "stop", stop_then)
        with failing_fsync(monkeypatch, 1, stopping.wait):
            background.checkpoint(RECOVERY_POINTS)
            assert await owner.answer(Stop()) == {str(tmp_path): "[Errno 5] Input/output error"}

    run(tmp_path, life)
