"""Groups: the group coordinator of this broker, as its handlers and its timers see it.

It runs the pure decisions of `coordinator.group`: finds the shard of a group, loads it, writes records, answers parked
requests, wakes up for deadlines. With one broker every group is ours; what can be missing is the topic, or its
loading.

All of it belongs to the event loop's thread.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from broker.coordinators.group_log import GroupLog
from broker.deferred import Deferred
from broker.timers import Timer
from coordinator.clock import Now
from coordinator.effects import Effects, carry_out
from coordinator.group.admin import topic_deleted_records
from coordinator.group.deadlines import on_deadline, on_loaded
from coordinator.group.expiry import expired_records
from coordinator.group.placement import partition_for
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.timers import Timers
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.errors import ErrorCode
from protocol.schema import Struct
from storage.errors import LogOffline

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.config import BrokerConfig
    from broker.dispatch import Reply
    from broker.partition import Partition

log = logging.getLogger(__name__)

OFFSETS_TOPIC = CONSUMER_OFFSETS

#: How long loading may keep the loop from its sockets at a time.
LOAD_SLICE_MS = 5
#: How long loading may hold up the start, before it goes on beside the first requests.
LOAD_AT_START_MS = 100
#: Bytes read from a log at a time; offsets.load.buffer.size is the most that it may be.
LOAD_CHUNK_BYTES = 1 << 20


def read_settings(config: BrokerConfig) -> GroupSettings:
    """The settings of the group coordinator out of the broker's."""
    return GroupSettings(
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_length=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
    )


class Groups:
    """The coordinator. `at(group_id)` gives the shard to decide on, `run` carries a decision out."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self.settings = read_settings(config)
        self._broker = broker
        self._timers: Timers[TimerKey] = Timers()
        self._logs: dict[int, GroupLog] = {}
        self._loading: deque[GroupLog] = deque()
        self._steps: Iterator[None] | None = None  # of the log that is being loaded
        self._load_scheduled = False
        self._failed: set[int] = set()
        self._count = 0  # partitions of the topic; 0 while there is none
        self._stopped = False
        self._armed: Timer | None = None
        self._expiry: Timer | None = None
        self._codec = config.get_int("offsets.topic.compression.codec")
        self._chunk_bytes = min(config.get_int("offsets.load.buffer.size"), LOAD_CHUNK_BYTES)
        self._check_interval_ms = config.get_int("offsets.retention.check.interval.ms")

    def start(self) -> None:
        """Load what is there: after the partitions are hosted, before clients come. A long load goes on beside them."""
        for index in sorted(self._broker.partitions.of_topic(OFFSETS_TOPIC)):
            self._open(index)
        self._load(LOAD_AT_START_MS)
        self._broker.controller.on_topic_deleted(lambda topic: self.topic_deleted(topic.name, topic.topic_id))
        self._expiry = self._broker.timers.call_later(self._check_interval_ms, self._expire)

    def stop(self) -> None:
        """Answer who waits, with NOT_COORDINATOR, and all who come from now on."""
        self._stopped = True
        for timer in (self._armed, self._expiry):
            if timer is not None:
                timer.cancel()
        self._unload()

    # -- shards -----------------------------------------------------------------------------------------------------

    def at(self, group_id: str) -> GroupShard | ErrorCode:
        """The shard of a group. NOT_COORDINATOR while the topic is missing, COORDINATOR_LOAD_IN_PROGRESS."""
        count = self._count or self._find_topic()
        if not count:
            return ErrorCode.NOT_COORDINATOR
        index = partition_for(group_id, count)
        found = self._logs.get(index) or self._open(index)
        if found is None:
            return ErrorCode.NOT_COORDINATOR
        return found.shard if found.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def with_topic(self, serve: Callable[[], Reply]) -> Reply:
        """Call `serve()`; first make the topic if there is none. Where that fails `at` still says NOT_COORDINATOR."""
        if self._stopped or self._count or self._find_topic():
            return serve()
        answered: Deferred[Struct] = Deferred()

        def pass_on(reply: Deferred[Struct]) -> None:
            if not answered.done:
                answered.resolve(reply.result())

        def go_on(_: Deferred[bool]) -> None:
            if answered.done:
                return
            reply = serve()
            if isinstance(reply, Deferred):
                reply.add_done_callback(pass_on)
                answered.on_cancel(reply.cancel)
            elif reply is not None:
                answered.resolve(reply)

        self._broker.controller.ensure_topic(OFFSETS_TOPIC).add_done_callback(go_on)
        return answered

    def shards(self) -> Iterable[GroupShard] | ErrorCode:
        """All shards; COORDINATOR_LOAD_IN_PROGRESS while one is missing."""
        for index in self._broker.partitions.of_topic(OFFSETS_TOPIC):
            found = self._logs.get(index) or self._open(index)
            if found is not None and not found.loaded:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each.shard for each in self._logs.values()]

    def now(self) -> Now:
        clock = self._broker.clock
        return Now(clock.now_ms(), clock.monotonic_ms())

    def _find_topic(self) -> int:
        if self._stopped:
            return 0
        # The number stays what it is first seen to be: other partitions would mean other places for groups.
        self._count = len(self._broker.partitions.of_topic(OFFSETS_TOPIC))
        return self._count

    def _open(self, index: int) -> GroupLog | None:
        partition = self._broker.partitions.get(OFFSETS_TOPIC, index)
        if partition is None or not partition.online or index in self._failed:
            return None
        found = self._logs[index] = GroupLog(partition, self.settings, self._timers, self._broker.clock, self._codec)
        if not found.loaded:
            self._loading.append(found)
            self._load_soon()
        return found

    # -- decisions --------------------------------------------------------------------------------------------------

    def run(self, shard: GroupShard, effects: GroupEffects) -> ErrorCode:
        """Carry out what a decision wants: write, answer, set the timer. Gives the reason where writing failed."""
        code = ErrorCode.NONE
        found = self._logs.get(shard.partition)
        if found is not None and found.shard is shard:
            code = carry_out(effects, found.write)
        for text, *values in effects.notes:
            line = str(text) % tuple(values)
            # Ids and reasons come from clients, who may send line ends too.
            log.info("%s", line if line.isprintable() else ascii(line))
        self.arm()
        return code

    def arm(self) -> None:
        """Have the timer come up in time for the next deadline. To be called after any decision."""
        check_ms = self._timers.next_check_ms()
        if check_ms is None:
            return
        armed = self._armed
        if armed is None or not armed.active or check_ms < armed.deadline_ms:
            if armed is not None:
                armed.cancel()
            self._armed = self._broker.timers.call_at(int(check_ms), self._on_deadlines)

    def _on_deadlines(self) -> None:
        now = self.now()
        for key in self._timers.expire(now.tick_ms):
            shard = self.at(key.group_id)
            if isinstance(shard, GroupShard):
                effects: GroupEffects = Effects()
                on_deadline(shard, key, now, effects)
                self.run(shard, effects)
        self.arm()

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load_soon(self) -> None:
        if not self._load_scheduled:
            self._load_scheduled = True
            self._broker.loop.call_soon(self._load)

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
                    "Groups of %s cannot be loaded: their members are sent away: %s",
                    found.partition,
                    error,
                    exc_info=None if isinstance(error, LogOffline) else error,
                )
                self._failed.add(found.partition.index)
                self._logs.pop(found.partition.index, None)
            self._steps = None
            self._loading.popleft()
            if found.loaded:
                effects: GroupEffects = Effects()
                on_loaded(found.shard, self.now(), effects)
                self.run(found.shard, effects)

    # -- what comes and goes ------------------------------------------------------------------------------------------

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """A topic is gone: so are its offsets; and if it is the coordinator's own, all groups."""
        if topic == OFFSETS_TOPIC:
            self._unload()
            return
        for found in list(self._logs.values()):
            records = topic_deleted_records(found.shard, topic, topic_id) if found.loaded else []
            if records:
                found.write(records)

    def partition_lost(self, partition: Partition) -> None:
        """A partition's disk does not work any more: its groups have no coordinator until the next start."""
        if partition.topic != OFFSETS_TOPIC:
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

    def _send_away(self, found: GroupLog) -> None:
        """Answer all who wait for groups of that shard."""
        effects: GroupEffects = Effects()
        found.shard.unload(self.now(), effects)
        carry_out(effects, found.write)

    def _expire(self) -> None:
        """Remove what has outlived offsets.retention.minutes; every offsets.retention.check.interval.ms."""
        now_ms = self._broker.clock.now_ms()
        for found in list(self._logs.values()):
            records = expired_records(found.shard, now_ms) if found.loaded else []
            if records:
                found.write(records)
                log.info("Removed %d expired offsets and groups from %s", len(records), found.partition)
        self._expiry = self._broker.timers.call_later(self._check_interval_ms, self._expire)
