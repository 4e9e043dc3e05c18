"""The part of a broker that the data plane uses: real logs in a directory, time that a test advances, no sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.maintenance.flush_durability import FlushDurability
from broker.maintenance.log_scheduler import Background
from broker.replicas.append_scheduler import AppendScheduler
from broker.replicas.end_offsets import PartitionEndOffsets
from broker.replicas.fetch_session import FetchSessions
from broker.replicas.partition import Partition
from broker.replicas.partitions import Partitions
from broker.replicas.time_look_ups import TimeLookUps
from broker.requests.binding import bind
from broker.requests.dispatcher import ApiVersionHandler, RequestContext
from broker.requests.served_api import discover
from metadata.features import MAX_METADATA_VERSION
from protocol.schema import Api, Struct
from runtime.deferred import Deferred
from runtime.gate import Gate
from runtime.purgatory import Purgatory
from runtime.timers import Timers
from runtime.turn import Turn
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL, FileSystem
from storage.log.tasks import Task
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.fake_loop import FakeClock, FakeLoop
from tests.support.instant_workers import InstantWorkers
from tests.support.offered import Offered
from tests.support.plain_values import request_of

TOPIC_ID = b"topic-id-16bytes"

DEFAULTS: dict[str, Any] = {
    "fetch.max.bytes": 57_671_680,
    "cordoned.log.dirs": (),
    "producer.id.expiration.ms": 86_400_000,
    "log.flush.scheduler.interval.ms": (1 << 63) - 1,
    "log.retention.check.interval.ms": 300_000,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "log.initial.task.delay.ms": 30_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}


class InstantBackground(Background):
    """Background tasks that run in the caller's thread: at once, or on `release` while `held`."""

    held = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._waiting: list[tuple[list[Task], Deferred[None]]] = []

    def start(self) -> None:
        self._thread = SimpleNamespace(start=lambda: None, is_alive=lambda: False)  # type: ignore[assignment]
        super().start()

    def run(self, tasks: Iterable[Task]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._waiting.append((list(tasks), done))
        if not self.held:
            self._do()
        return done

    def run_in_pool(self, task: Task) -> Deferred[None]:
        return self.run([task])

    def release(self) -> None:
        """Run the held tasks, and those at the end of the turn."""
        self._loop.settle()  # type: ignore[attr-defined]
        self._do()

    def _do(self) -> None:
        waiting, self._waiting = self._waiting, []
        for tasks, done in waiting:
            for task in tasks:
                task.run()
            self._apply(tasks, done)


class DataBroker:
    """The broker. `call` sends a client's request and returns the answer as far as it is ready."""

    verifier: Any = None

    def __init__(
        self,
        directory: Path,
        settings: dict[str, Any] | None = None,
        *,
        directories: int = 1,
        fs: FileSystem = LOCAL,
        may_wait: bool = False,
    ) -> None:
        """`may_wait`: intact logs are opened on first use."""
        values = {**DEFAULTS, **(settings or {})}
        self.config = SimpleNamespace(
            get_int=values.__getitem__,
            get_list=values.__getitem__,
            subscribe=lambda keys, callback: None,
            node_id=1,
            rack="r1",
            advertised=lambda name: None,
            listeners=(),
        )
        self.guard = None
        self.clock = FakeClock()
        self.loop = FakeLoop(self.clock)
        self.timers = Timers(self.loop, self.clock)
        self.purgatory = Purgatory(self.timers, Turn(self.loop.call_soon))
        self.logs = LogManager([str(directory / f"data{number}") for number in range(directories)], fs=fs)
        self.logs.lock()
        self.logs.load(lambda topic: LogConfig(), self.clock.now_ms(), may_wait=lambda directory, stored: may_wait)
        self.partitions = Partitions(self.logs, 1, self.clock, self.purgatory.check_soon)
        self.end_offsets = PartitionEndOffsets(self.partitions)
        self.fetch_sessions = FetchSessions(100, self.partitions.topic_name, self.clock.monotonic_ms)
        self.background = InstantBackground(self.logs, self.config, self.loop, self.timers, self.clock)
        self.durability = FlushDurability(self.background)
        self.workers = InstantWorkers()
        self.conversions = Gate(2)
        self.time_look_ups = TimeLookUps(self.workers, self.loop.call_soon)  # type: ignore[arg-type]
        self.held_bytes = 0
        self.queued_requests = 0
        self.offload: Callable[..., Deferred[Any]] = lambda function, *args: Deferred.resolved(function(*args))
        self.appends = AppendScheduler(
            self.workers,  # type: ignore[arg-type]
            self.clock,
            lambda *call: self.offload(*call),  # type: ignore[arg-type]
            self._hold,
            self._queue,
        )
        self.controller = SimpleNamespace(
            image=SimpleNamespace(brokers={self.config.node_id: None}, metadata_version=MAX_METADATA_VERSION)
        )
        self.moves = SimpleNamespace(futures=lambda: ())
        self.served = discover()
        for each in self.served.values():
            each.load()

    def _hold(self, more_bytes: int) -> None:
        self.held_bytes += more_bytes

    def _queue(self, more_requests: int) -> None:
        self.queued_requests += more_requests

    def topic(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        topic_id: bytes = TOPIC_ID,
        config: LogConfig | None = None,
        **of: Any,
    ) -> Partition:
        """Create a topic; return its first partition."""
        made = [
            self.partitions.create(name, topic_id, index, config or LogConfig(), **of) for index in range(partitions)
        ]
        return made[0]

    def context(self, api: Api, version: int, client_id: str | None = "client") -> RequestContext:
        connection = SimpleNamespace(client_host="127.0.0.1", local_host="10.0.0.1", local_port=9092, listener_name="L")
        return RequestContext(connection, api, version, 1, client_id)

    def send(self, api: Api, version: int, client_id: str | None = "client", **fields: Any) -> Deferred[Struct] | None:
        """Serve a request as decoded from the wire; return None without an answer, else a Deferred."""
        data = bytearray(api.request.encode(version, request_of(api, fields)))
        request, _ = api.request.decode(version, memoryview(data))
        reply = bind(self.served[api.key].load().handler, Offered(self))(self.context(api, version, client_id), request)
        return reply if reply is None or isinstance(reply, Deferred) else Deferred.resolved(reply)

    def call(self, api: Api, version: int, client_id: str | None = "client", **fields: Any) -> Struct:
        """Serve a request that is answered at once, or after everything pending has run; return it as encoded on the
        wire.
        """
        reply = self.send(api, version, client_id, **fields)
        assert reply is not None
        self.settle()
        return self.received(api, version, reply)

    def received(self, api: Api, version: int, reply: Deferred[Struct]) -> Struct:
        """Return the answer as its client receives it, with slices of files read."""
        chunks = ApiVersionHandler(self.served[api.key], version, Offered(self)).encode(1, reply.result())
        data = b"".join(chunk.read() if isinstance(chunk, FetchSlice) else chunk for chunk in chunks)  # type: ignore[misc]
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        response, end = api.response.decode(version, data, 8 + api.response_header_version(version))
        assert end == len(data)
        return response

    def settle(self) -> None:
        """Run everything that is due now."""
        self.loop.settle()

    def advance(self, milliseconds: int) -> None:
        """Advance the time."""
        self.loop.settle()
        self.loop.advance(milliseconds)
        self.loop.settle()

    def close(self) -> None:
        self.logs.close(self.clock.now_ms())
