"""The handlers that tests of the network room serve, and their requests."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from protocol.messages.fetch import FETCH, FetchableTopicResponse, FetchPartition, FetchTopic, PartitionData
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.schema import Struct
from runtime.deferred import Deferred
from tests.support.network import Handlers, ServerThread
from tests.support.wire import WireClient

ECHO, WAIT = SASL_AUTHENTICATE, HEARTBEAT
FILE_BYTES = 3_000_000


class Slice:
    """A piece of a file that counts how often it is closed."""

    releases = 0

    def __init__(self, fd: int, position: int, size: int) -> None:
        self.fd, self.position, self.size = fd, position, size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self.fd

    def read(self) -> bytes:
        return os.pread(self.fd, self.size, self.position)

    def release(self) -> None:
        Slice.releases += 1


class Application:
    """ECHO answers with its request; FETCH sends slices of a file.

    WAIT answers when a test completes it, or after `generation_id` milliseconds.
    """

    def __init__(self, path: Path) -> None:
        self.data = random.Random(7).randbytes(FILE_BYTES)
        path.write_bytes(self.data)
        self.fd = os.open(path, os.O_RDONLY)
        self.waiting: list[Deferred[Struct]] = []
        self.cancelled = 0
        self.started: list[int] = []

    def echo(self, ctx: Any, request: Struct) -> Struct:
        self.started.append(ctx.correlation_id)
        return ECHO.response(auth_bytes=bytes(request.auth_bytes))

    def wait(self, ctx: Any, request: Struct, *, timers: Any) -> Deferred[Struct]:
        deferred: Deferred[Struct] = Deferred()
        deferred.on_cancel(self._on_cancel)
        self.waiting.append(deferred)
        if request.generation_id:
            timers.call_later(request.generation_id, lambda: deferred.resolve(WAIT.response()))
        return deferred

    def fetch(self, ctx: Any, request: Struct) -> Struct:
        slices = []
        for topic in request.topics:
            for partition in topic.partitions:
                records = Slice(self.fd, partition.fetch_offset, partition.partition_max_bytes)
                slices.append(PartitionData(partition_index=partition.partition, records=records))
        return FETCH.response(responses=[FetchableTopicResponse(topic="t", partitions=slices)])

    def _on_cancel(self) -> None:
        self.cancelled += 1

    @property
    def handlers(self) -> Handlers:
        return {ECHO: self.echo, WAIT: self.wait, FETCH: self.fetch}


def connect(server: ServerThread, **options: Any) -> WireClient:
    return WireClient("127.0.0.1", server.port, **options)


def fetch(*pieces: tuple[int, int]) -> dict[str, Any]:
    """Return the fields of a FETCH of (position, size) pieces of the file."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=size)
        for number, (position, size) in enumerate(pieces)
    ]
    return {"topics": [FetchTopic(topic="t", partitions=partitions)]}
