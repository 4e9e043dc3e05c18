"""What runs a coordinator: one internal topic, a shard for each of its partitions, their loading, writing and timers.

A kind of coordinator is a subclass that says what its shards are (`new_shard`) and what happens to them when they are
loaded, when a deadline has come, and when they are given up. With one broker every key is ours; what can be missing is
the topic, or its loading.

All of it belongs to the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.coordinators.environment import CoordinatorEnvironment
from broker.coordinators.flush_gate import FlushGate
from broker.coordinators.shard_log import APPEND_ERRORS, ShardLog
from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.partition_for_key import partition_for
from coordinator.shard import LogRecord, Shard
from coordinator.timers import Timers
from protocol.errors import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, after, settled
from runtime.timers import Timer
from storage.errors import LogOffline
from storage.log_config import LONG_MAX

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.requests.served_api import Reply

log = logging.getLogger(__name__)

#: How long loading may keep the loop from its sockets at a time.
LOAD_SLICE_MS = 5
#: How long loading may hold up the start, before it goes on beside the first requests.
LOAD_AT_START_MS = 100
#: Bytes read from a log at a time; the coordinator's own setting is the most that it may be.
LOAD_CHUNK_BYTES = 1 << 20

S = TypeVar("S", bound=Shard[Any])
R = TypeVar("R", bound=LogRecord)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class CoordinatorRuntime(ABC, Generic[S, R, K]):
    """S: the shards; R: their records; K: keys of deadlines. `at(key)` gives a shard to decide on, `run` carries the
    decision out.

    Args:
        topic: the internal topic, made when it is first needed.
        noun: what the shards are full of, for people.
        codec: of the batches that are written.
        load_buffer_bytes: the most that loading reads at a time.
        write_timeout_ms: how long an answer waits for what it tells of to be on the disk, where it waits for that.
    """

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
        #: Decisions are told of by the room that takes them: levels are set for groups, or for transactions.
        self._decisions = logging.getLogger(type(self).__module__)
        self._codec = codec
        self._chunk_bytes = min(load_buffer_bytes, LOAD_CHUNK_BYTES)
        self._logs: dict[int, ShardLog[S, R]] = {}
        self._loading: deque[ShardLog[S, R]] = deque()
        self._steps: Iterator[None] | None = None  # of the log that is being loaded
        self._load_scheduled = False
        self._failed: set[int] = set()
        self._count = 0  # partitions of the topic; 0 while there is none
        self._stopped = False
        self._armed: Timer | None = None
        self._repeated: dict[Callable[[], None], Timer] = {}
        self._followers: list[Callable[[int], None]] = []
        self._gate = FlushGate(environment.timers, write_timeout_ms)

    # -- what a kind of coordinator is ------------------------------------------------------------------------------

    @abstractmethod
    def new_shard(self, index: int) -> S:
        """An empty shard for a partition; it may set deadlines in `self.timers`."""

    @abstractmethod
    def on_loaded(self, shard: S, now: Now, effects: Effects[R]) -> None:
        """All of the shard's log has been replayed."""

    @abstractmethod
    def on_deadline(self, key: K, now: Now) -> None:
        """A deadline has come."""

    @abstractmethod
    def on_unload(self, shard: S, now: Now, effects: Effects[R]) -> None:
        """The shard is given up: answer whoever waits for it."""

    # -- start and stop ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load what is there: after the partitions are hosted, before clients come. A long load goes on beside them."""
        for index in sorted(self._partitions.of_topic(self.topic)):
            self._open(index)
        self._load(LOAD_AT_START_MS)
        self._environment.metadata.on_topic_deleted(lambda topic: self.topic_deleted(topic.name, topic.topic_id))

    def stop(self) -> None:
        """Answer who waits, with NOT_COORDINATOR, and all who come from now on."""
        self._stopped = True
        for timer in (self._armed, *self._repeated.values()):
            if timer is not None:
                timer.cancel()
        self._repeated.clear()
        self._unload()

    def repeat(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Do `work()` every so many milliseconds until the broker stops."""

        def run() -> None:
            self.call_later(interval_ms, work, run)
            work()

        self.call_later(interval_ms, work, run)

    def call_later(self, delay_ms: int, work: Callable[[], None], call: Callable[[], None] | None = None) -> None:
        """Do `work()` once, unless the broker stops before; with `call`: that in its place."""
        self._repeated[work] = self._environment.timers.call_later(delay_ms, call or work)

    # -- shards -----------------------------------------------------------------------------------------------------

    def at(self, key: str) -> S | ErrorCode:
        """The shard of a key. NOT_COORDINATOR while the topic is missing, COORDINATOR_LOAD_IN_PROGRESS."""
        index = self.index_of(key)
        return ErrorCode.NOT_COORDINATOR if index is None else self.at_partition(index)

    def index_of(self, key: str) -> int | None:
        """The partition of a key; None while the topic is missing."""
        count = self._count or self._find_topic()
        return partition_for(key, count) if count else None

    def at_partition(self, index: int) -> S | ErrorCode:
        """The shard of a partition of the topic; errors as of `at`."""
        found = self._logs.get(index) or self._open(index)
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return found.shard if found.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def log_of(self, key: str) -> ShardLog[S, R] | ErrorCode:
        """The shard of a key with its log, for what is more than a decision; errors as of `at`."""
        index = self.index_of(key)
        return ErrorCode.NOT_COORDINATOR if index is None else self.log_at(index)

    def log_at(self, index: int) -> ShardLog[S, R] | ErrorCode:
        """The shard of a partition with its log, for what is more than a decision; errors as of `at`."""
        shard = self.at_partition(index)
        return shard if isinstance(shard, ErrorCode) else self._logs[index]

    def with_topic(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`; first make the topic if there is none. Where that fails `at` still says NOT_COORDINATOR."""
        if self._stopped or self._count or self._find_topic():
            return serve()
        return after(self._environment.topics.ensure(self.topic), serve)

    def shards(self) -> Iterable[S] | ErrorCode:
        """All shards; COORDINATOR_LOAD_IN_PROGRESS while one is missing."""
        for index in self._partitions.of_topic(self.topic):
            found = self._logs.get(index) or self._open(index)
            if found is not None and not found.loaded:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each.shard for each in self._logs.values()]

    def loaded_logs(self) -> list[ShardLog[S, R]]:
        """The shards that are ready, with their logs."""
        return [each for each in self._logs.values() if each.loaded]

    def now(self) -> Now:
        clock = self._environment.clock
        return Now(clock.now_ms(), clock.monotonic_ms())

    def on_load(self, follow: Callable[[int], None]) -> None:
        """From now on call `follow(partition)` when a shard has been loaded."""
        self._followers.append(follow)

    def _find_topic(self) -> int:
        if self._stopped:
            return 0
        # The number stays what it is first seen to be: other partitions would mean other places for keys.
        self._count = self._environment.topics.partition_count(self.topic)
        return self._count

    def _open(self, index: int) -> ShardLog[S, R] | None:
        partition = self._partitions.get(self.topic, index)
        if partition is None or not partition.online or index in self._failed:
            return None
        shard = self.new_shard(index)
        found = self._logs[index] = ShardLog(partition, shard, self._environment.clock, self._codec, self._noun)
        if not found.loaded:
            self._loading.append(found)
            self._load_soon()
        return found

    # -- decisions --------------------------------------------------------------------------------------------------

    def run(self, shard: S, effects: Effects[R]) -> ErrorCode:
        """Carry out what a decision wants: write, answer, set the timer. Gives the reason where writing failed."""
        code = ErrorCode.NONE
        found = self._logs.get(shard.partition)
        if found is not None and found.shard is shard:
            code = carry_out(effects, found.write)
            self._note_flush(found)
        for text, *values in effects.notes:
            line = str(text) % tuple(values)
            # Ids and reasons come from clients, who may send line ends too.
            self._decisions.info("%s", line if line.isprintable() else ascii(line))
        self.arm()
        return code

    def run_records(self, found: ShardLog[S, R], records: Sequence[R]) -> ErrorCode:
        """`run` a decision that is nothing but these records, if there are any."""
        if not records or self._logs.get(found.partition.index) is not found:
            return ErrorCode.NONE
        code = found.write(records)
        self._note_flush(found)
        self.arm()
        return code

    def _note_flush(self, found: ShardLog[S, R]) -> None:
        if found.flush_due:
            found.flush_due = False
            self._gate.begun(found.partition.index, self._environment.background.flush(found.partition.log))

    def once_committed(
        self,
        key: str,
        serve: Callable[[], T | Deferred[T] | None],
        failed: Callable[[ErrorCode], T | Deferred[T] | None],
    ) -> Deferred[T] | None:
        """Return what `serve()` answers once the state of a key is on the disk; None where it need not be.

        For work that must not be on the disk before that state is. `failed(code)` answers where the flush fails. One of
        the two is called even if the client hangs up: what it has written counts.
        """
        index = self.index_of(key)
        found = None if index is None else self._logs.get(index)
        flush = None if found is None else self._environment.background.forced(found.partition.log)
        if flush is None:
            return None

        def serve_or_fail() -> T | Deferred[T] | None:
            try:
                flush.result()
            except LogOffline:
                return failed(APPEND_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR])
            return serve()

        return after(settled([flush]), serve_or_fail, even_if_cancelled=True)

    def waits_for_commit(self, shard: S) -> bool:
        """Whether an answer about this shard may have to wait for the disk: see `after_commit`."""
        found = self._logs.get(shard.partition)
        if found is None or found.partition.log.config.flush_messages != LONG_MAX:
            return True
        return self._gate.is_due_at(shard.partition)

    def after_commit(self, keys: Iterable[str], response: Struct, failed: Callable[[ErrorCode], Struct]) -> Reply:
        """Return the answer to a request that was carried out for these keys, once what it wrote is on the disk.

        Without flush.messages that is at once. `failed(code)` answers where the flush fails or takes too long.
        """
        return self._gate.answer(map(self.index_of, keys), response, failed) if self._gate.is_due else response

    def arm(self) -> None:
        """Have the timer come up in time for the next deadline. To be called after any decision."""
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
            except Exception:  # the others that are due are not to wait for ever
                log.exception("What is due for %s could not be done", key)
        self.arm()

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load_soon(self) -> None:
        if not self._load_scheduled:
            self._load_scheduled = True
            self._environment.loop.call_soon(self._load)

    def _load(self, budget_ms: float = LOAD_SLICE_MS) -> None:
        """Load for as long as the budget lasts; what is left goes on in a later turn of the loop."""
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
                    "%ss of %s cannot be loaded: their clients are sent away: %s",
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
        """Do what is due once a shard is loaded."""
        effects: Effects[R] = Effects()
        try:
            self.on_loaded(found.shard, self.now(), effects)
            self.run(found.shard, effects)
            for follow in self._followers:
                follow(found.shard.partition)
        except Exception:  # the others are not to be loaded for ever
            log.exception("What is due after loading %s could not be done", found.partition)

    # -- what comes and goes ------------------------------------------------------------------------------------------

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """A topic is gone; if it is the coordinator's own, so is all that it held."""
        if topic == self.topic:
            self._unload()

    def partition_lost(self, partition: Partition) -> None:
        """A partition's disk does not work any more: its keys have no coordinator until the next start."""
        if partition.topic != self.topic:
            return
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
        """Answer all who wait for what is in that shard."""
        effects: Effects[R] = Effects()
        self.on_unload(found.shard, self.now(), effects)
        carry_out(effects, found.write)
