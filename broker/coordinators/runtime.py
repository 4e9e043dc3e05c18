"""Run a coordinator: one internal topic, a shard for each of its partitions, their loading, writing and timers.

A kind of coordinator is a subclass. It creates shards (`new_shard`) and decides what happens when one is loaded, when
a deadline passes, and when one is unloaded. A key belongs to the broker that leads its partition: with one broker, to
this one. The topic may be missing, or still be loading.

Everything here belongs to the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.coordinators.commit_gate import CommitGate, once_safe
from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.shard_log import ShardLog
from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.partition_for_key import partition_for
from coordinator.shard import LogRecord, Shard
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, after
from runtime.timers import Timer
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.requests.served_api import Reply

log = logging.getLogger(__name__)

#: How long a slice of loading may block the event loop.
LOAD_SLICE_MS = 5
#: How long loading may delay the start. After that it continues while the broker serves requests.
LOAD_AT_START_MS = 100
#: Bytes read from a log at a time, unless the coordinator's own setting is lower.
LOAD_CHUNK_BYTES = 1 << 20

S = TypeVar("S", bound=Shard[Any])
R = TypeVar("R", bound=LogRecord)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class CoordinatorRuntime(ABC, Generic[S, R, K]):
    """Loads shards, carries out decisions and runs timers. `at(key)` returns the shard to decide on, `run` carries the
    decision out.

    S: the shards; R: their records; K: the keys of deadlines.

    `shard_log` is the class of the shards' logs.

    Args:
        topic: the internal topic, created when it is first needed.
        noun: what a shard stores ("group"), for log lines.
        codec: the compression of the batches that are written.
        load_buffer_bytes: the most that loading reads at a time.
        write_timeout_ms: how long a response waits for its write to reach the disk, if it has to wait.
    """

    shard_log: type[ShardLog[S, R]] = ShardLog

    def __init__(
        self,
        environment: CoordinatorEnvironment,
        topic: str,
        *,
        noun: str,
        codec: int,
        load_buffer_bytes: int,
        write_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self.timers: Timers[K] = Timers()
        self._environment = environment
        self._partitions = environment.partitions
        self._noun = noun
        #: Decisions are logged under the subclass's module: users set log levels for groups, or for transactions.
        self._decisions = logging.getLogger(type(self).__module__)
        self._codec = codec
        self._chunk_bytes = min(load_buffer_bytes, LOAD_CHUNK_BYTES)
        self._logs: dict[int, ShardLog[S, R]] = {}
        self._loading: deque[ShardLog[S, R]] = deque()
        self._steps: Iterator[None] | None = None  # for the log that is being loaded
        self._load_scheduled = False
        self._failed: set[int] = set()
        self._count = 0  # partitions of the topic; 0 while there is none
        self._stopped = False
        self._armed: Timer | None = None
        self._repeated: dict[Callable[[], None], Timer] = {}
        self._followers: list[Callable[[int], None]] = []
        self._gate = CommitGate(environment.timers, write_timeout_ms)

    # -- for subclasses ---------------------------------------------------------------------------------------------

    @abstractmethod
    def new_shard(self, index: int) -> S:
        """Create an empty shard for a partition. It may set deadlines in `self.timers`."""

    @abstractmethod
    def on_loaded(self, shard: S, now: Now, effects: Effects[R]) -> None:
        """Act on a shard whose whole log has been replayed."""

    @abstractmethod
    def on_deadline(self, key: K, now: Now) -> None:
        """Act on a deadline that has passed."""

    @abstractmethod
    def on_unload(self, shard: S, now: Now, effects: Effects[R]) -> None:
        """Answer the requests that wait for a shard, which is being unloaded."""

    # -- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the shards, after the partitions are hosted and before clients connect.

        A long load continues while the broker serves clients.
        """
        for index in sorted(self._partitions.of_topic(self.topic)):
            self.at_partition(index)
        self._load(LOAD_AT_START_MS)
        self._environment.metadata.on_topic_deleted(lambda topic: self.topic_deleted(topic.name, topic.topic_id))

    def stop(self) -> None:
        """Answer waiting requests, and all later ones, with NOT_COORDINATOR."""
        self._stopped = True
        for timer in (self._armed, *self._repeated.values()):
            if timer is not None:
                timer.cancel()
        self._repeated.clear()
        self._unload()

    def repeat(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Call `work()` every `interval_ms` until the broker stops."""

        def run() -> None:
            self.call_later(interval_ms, work, run)
            work()

        self.call_later(interval_ms, work, run)

    def call_later(self, delay_ms: int, work: Callable[[], None], call: Callable[[], None] | None = None) -> None:
        """Call `work()` once after `delay_ms`, or `call()` if given, unless the broker stops before."""
        self._repeated[work] = self._environment.timers.call_later(delay_ms, call or work)

    # -- shards -----------------------------------------------------------------------------------------------------

    def at(self, key: str) -> S | ErrorCode:
        """Return the shard of a key, or an error.

        Errors: NOT_COORDINATOR while the topic is missing, COORDINATOR_LOAD_IN_PROGRESS.
        """
        index = self.index_of(key)
        return ErrorCode.NOT_COORDINATOR if index is None else self.at_partition(index)

    def index_of(self, key: str) -> int | None:
        """Return the partition of a key; None while the topic is missing."""
        count = self._count or self._find_topic()
        return partition_for(key, count) if count else None

    def at_partition(self, index: int) -> S | ErrorCode:
        """Return the shard of a partition of the topic; errors as for `at`."""
        found = self._logs.get(index) or self._open(index)
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return found.shard if found.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def log_of(self, key: str) -> ShardLog[S, R] | ErrorCode:
        """Return the shard of a key with its log, for work beyond a decision; errors as for `at`."""
        index = self.index_of(key)
        return ErrorCode.NOT_COORDINATOR if index is None else self.log_at(index)

    def log_at(self, index: int) -> ShardLog[S, R] | ErrorCode:
        """Return the shard of a partition with its log, for work beyond a decision; errors as for `at`."""
        shard = self.at_partition(index)
        return shard if isinstance(shard, ErrorCode) else self._logs[index]

    def with_topic(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`, after creating the topic if it is missing.

        If the topic cannot be created, `at` still returns NOT_COORDINATOR.
        """
        if self._stopped or self._count or self._find_topic():
            return serve()
        return after(self._environment.topics.ensure(self.topic), serve)

    def shards(self) -> Iterable[S] | ErrorCode:
        """Return all shards, or COORDINATOR_LOAD_IN_PROGRESS while one is not loaded."""
        for index in self._partitions.of_topic(self.topic):
            found = self._logs.get(index) or self._open(index)
            if found is not None and not found.loaded:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each.shard for each in self._logs.values()]

    def loaded_logs(self) -> list[ShardLog[S, R]]:
        """Return the loaded shards with their logs."""
        return [each for each in self._logs.values() if each.loaded]

    def now(self) -> Now:
        clock = self._environment.clock
        return Now(clock.now_ms(), clock.monotonic_ms())

    def on_load(self, follow: Callable[[int], None]) -> None:
        """Call `follow(partition)` whenever a shard has been loaded from now on."""
        self._followers.append(follow)

    def _find_topic(self) -> int:
        if self._stopped:
            return 0
        # The count never changes after it is first read: another count would move keys to other partitions.
        self._count = self._environment.topics.partition_count(self.topic)
        return self._count

    def _open(self, index: int) -> ShardLog[S, R] | None:
        partition = self._partitions.get(self.topic, index)
        if partition is None or not partition.online or index in self._failed:
            return None
        shard = self.new_shard(index)
        found = self._logs[index] = self.shard_log(partition, shard, self._environment.clock, self._codec, self._noun)
        if not found.loaded:
            self._loading.append(found)
            self._load_soon()
        return found

    # -- decisions --------------------------------------------------------------------------------------------------

    def run(self, shard: S, effects: Effects[R]) -> ErrorCode:
        """Carry out a decision: write, answer, set the timer. If the write failed, return the error and log nothing."""
        code = ErrorCode.NONE
        found = self._logs.get(shard.partition)
        if found is not None and found.shard is shard:
            code = carry_out(effects, found.write)
            self._note_flush(found)
        for text, *values in effects.notes if code is ErrorCode.NONE else ():
            line = str(text) % tuple(values)
            # Clients choose ids and reasons, which may contain line ends.
            self._decisions.info("%s", line if line.isprintable() else ascii(line))
        self.arm()
        return code

    def run_records(self, found: ShardLog[S, R], records: Sequence[R]) -> ErrorCode:
        """Carry out a decision that consists of these records alone, if there are any."""
        if not records or self._logs.get(found.partition.index) is not found:
            return ErrorCode.NONE
        code = found.write(records)
        self._note_flush(found)
        self.arm()
        return code

    def _note_flush(self, found: ShardLog[S, R]) -> None:
        if found.must_wait:
            found.must_wait = False
            safe = self._environment.durability.relied_on(found.partition)
            if safe is not None:
                self._gate.begun(found.partition.index, safe)

    def once_committed(
        self,
        key: str,
        serve: Callable[[], T | Deferred[T] | None],
        failed: Callable[[ErrorCode], T | Deferred[T] | None],
    ) -> Deferred[T] | None:
        """Return the answer of `serve()` once a key's state is on disk; None if it need not wait.

        It is for work that must not reach the disk before that state does. If the flush fails, `failed(code)` answers.
        One of the two is called even if the client disconnects: the records that it wrote stay valid.
        """
        index = self.index_of(key)
        found = None if index is None else self._logs.get(index)
        safe = None if found is None else found.relied_on(self._environment.durability, key)
        return once_safe(safe, serve, failed)

    def waits_for_commit(self, shard: S) -> bool:
        """Return whether a response about this shard may have to wait for the disk (see `after_commit`)."""
        found = self._logs.get(shard.partition)
        if found is None or self._environment.durability.may_wait(found.partition):
            return True
        return self._gate.is_due_at(shard.partition)

    def after_commit(self, keys: Iterable[str], response: Struct, failed: Callable[[ErrorCode], Struct]) -> Reply:
        """Return the response to a request once its writes for these keys are on disk.

        Without flush.messages it returns at once. `failed(code)` answers if the flush fails or takes too long.
        """
        return self._gate.answer(map(self.index_of, keys), response, failed) if self._gate.is_due else response

    def arm(self) -> None:
        """Set the timer for the next deadline. Callers do this after every decision."""
        check_ms = self.timers.next_check_ms()
        if check_ms is None:
            return
        armed = self._armed
        if armed is None or not armed.active or check_ms < armed.deadline_ms:
            if armed is not None:
                armed.cancel()
            self._armed = self._environment.timers.call_at(int(check_ms), self._on_deadlines)

    def _on_deadlines(self) -> None:
        now = self.now()
        for key in self.timers.expire(now.tick_ms):
            try:
                self.on_deadline(key, now)
            except Exception:  # the other deadlines must still be handled
                log.exception("The deadline of %s could not be handled", key)
        self.arm()

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load_soon(self) -> None:
        if not self._load_scheduled:
            self._load_scheduled = True
            self._environment.loop.call_soon(self._load)

    def _load(self, budget_ms: float = LOAD_SLICE_MS) -> None:
        """Load until the budget is spent, and schedule the rest for a later turn of the loop."""
        self._load_scheduled = False
        until = time.monotonic() + budget_ms / 1000
        while self._loading:
            if self._steps is None:
                self._steps = self._loading[0].load(self._chunk_bytes)
            found = self._loading[0]
            try:
                for _ in self._steps:
                    if time.monotonic() >= until:
                        self._load_soon()
                        return
            except Exception as error:
                log.error(
                    "%ss of %s cannot be loaded, and their clients get NOT_COORDINATOR: %s",
                    self._noun.capitalize(),
                    found.partition,
                    error,
                    exc_info=None if isinstance(error, LogOffline) else error,
                )
                self._failed.add(found.partition.index)
                self._logs.pop(found.partition.index, None)
            self._steps = None
            self._loading.popleft()
            if found.loaded:
                self._begin(found)

    def _begin(self, found: ShardLog[S, R]) -> None:
        """Do the work that is due once a shard is loaded."""
        effects: Effects[R] = Effects()
        try:
            self.on_loaded(found.shard, self.now(), effects)
            self.run(found.shard, effects)
            for follow in self._followers:
                follow(found.shard.partition)
        except Exception:  # the other shards must still be loaded
            log.exception("The work after loading %s failed", found.partition)

    # -- deleted topics, led and lost partitions -----------------------------------------------------------------------

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Unload all shards if the deleted topic is the coordinator's own."""
        if topic == self.topic:
            self._unload()

    def partition_led(self, partition: Partition) -> None:
        """Load the shard of a partition that this broker leads from now on."""
        if partition.topic == self.topic and not self._stopped and partition.index not in self._logs:
            self._open(partition.index)

    def partition_lost(self, partition: Partition) -> None:
        """Unload the shard of a partition that another broker leads now, or whose disk failed."""
        if partition.topic != self.topic:
            return
        self._failed.discard(partition.index)
        found = self._logs.pop(partition.index, None)
        if found is not None:
            if found in self._loading:
                if found is self._loading[0]:
                    self._steps = None
                self._loading.remove(found)
            self._send_away(found)

    def _unload(self) -> None:
        logs, self._logs = self._logs, {}
        self._loading.clear()
        self._steps = None
        self._failed.clear()
        self._count = 0
        for found in logs.values():
            self._send_away(found)

    def _send_away(self, found: ShardLog[S, R]) -> None:
        """Answer all requests that wait for this shard."""
        effects: Effects[R] = Effects()
        self.on_unload(found.shard, self.now(), effects)
        carry_out(effects, found.write)
