"""A worker in this process, with directories of its own; the test is the main process at the other end of its link."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from broker.process.placement import worker_of
from broker.workers.link import Link
from broker.workers.messages import (
    Begin,
    Ready,
    WorkerConfig,
    WorkerDirectory,
)
from broker.workers.worker import Worker
from metadata.framing import encode_record, new_record
from metadata.replica_placement import new_partition
from metadata.snapshot import image_records
from protocol.messages.cluster_metadata import TopicRecord
from runtime.deferred import Deferred
from tests.support.eventually import eventually_async
from tests.support.nodes import TOPIC_ID, config, start, write

#: a topic whose partition belongs to the worker
TOPIC = next(name for name in map(str, range(100)) if worker_of(name, 0, 2) == 1)


class Owner:
    """The main process's end of the link. `exit_codes`: those with which the worker ended."""

    def __init__(self, directory: Path) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        self.heard: list[Any] = []
        self.exit_codes: list[int] = []
        self.link = Link(loop, ours, self.heard.append, lambda: None)
        self.link.listen()
        self.worker = Worker(_begin(directory), theirs, loop, self.exit_codes.append)

    async def hears(self, kind: type) -> None:
        await eventually_async(lambda: any(isinstance(each, kind) for each in self.heard))

    async def answer(self, message: object) -> Any:
        return await done(self.link.ask(message))


async def done(deferred: Deferred[Any]) -> Any:
    await eventually_async(lambda: deferred.done)
    return deferred.result()


def _begin(directory: Path) -> Begin:
    """Return the first message of a node with one topic, whose partition belongs to the worker."""
    node = start(directory, num_workers="2")
    topic = new_record(30, TopicRecord, name=TOPIC, topic_id=TOPIC_ID)
    write(node, topic, new_partition(node.image, TOPIC_ID, 0, [1], manual=False))
    given = config(directory, num_workers="2")
    begin = Begin(
        1,
        WorkerConfig(given.path, dict(given.static), dict(given.static_values), given.listening),
        node.cluster_id,
        1,
        0,
        tuple(map(encode_record, image_records(node.image))),
        frozenset(),
        tuple(WorkerDirectory(path, each, True, None) for path, each in node.directory_ids.items()),
        {},
        (),
        {"PLAINTEXT": (9092, 9093)},
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
