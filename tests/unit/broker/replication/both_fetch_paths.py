"""Two leaders with the same partitions: one serves a follower by the fast path, the other by the handler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.membership.fast_paths import with_fast_paths
from broker.requests.dispatcher import Waiting
from broker.requests.served_api import ServedApi, discover
from protocol.headers import encode_request_header
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ReplicaState
from protocol.schema import Struct
from storage.fetch_slice import FetchSlice
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID
from tests.support.offered import dispatcher_for
from tests.support.producing import batch
from tests.unit.broker.replication.follower_client import MANY, ManyPartitions

VERSION = 18
PARTITIONS = 4
FOLLOWER = 2
WAIT_MS = 500


class Leader(ManyPartitions):
    """A leader that serves frames, with the fast path of a member or without one."""

    def __init__(self, directory: Path, *, is_fast: bool) -> None:
        super().__init__(directory, PARTITIONS, LogConfig(segment_bytes=100_000, file_delete_delay_ms=0))
        reads: Any = SimpleNamespace(throttle=self.throttle, brokers=self, wake=self.purgatory.check_soon)
        served: dict[int, ServedApi] = dict(discover())
        if is_fast:
            served = with_fast_paths(served, lambda: reads)
        self.dispatcher = dispatcher_for(self, served)
        self.connection: Any = SimpleNamespace(client_host="127.0.0.1", principal="User:broker")
        self.answers: list[bytes] = []
        self.waiting: list[Waiting] = []

    def serve(self, request: Struct) -> None:
        """Serve a request. Its answer is appended to `answers`, perhaps later."""
        head = encode_request_header(FETCH, VERSION, 7, "broker-2-fetcher-0")
        self._take(self.dispatcher.dispatch(self.connection, memoryview(head + FETCH.request.encode(VERSION, request))))

    def _take(self, answer: Any) -> None:
        if isinstance(answer, Waiting):
            self.waiting.append(answer)
        else:
            self.answers.append(_whole(answer))

    def settle(self) -> None:
        super().settle()
        self._finish()

    def advance(self, milliseconds: int) -> None:
        super().advance(milliseconds)
        self._finish()

    def _finish(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            if each.deferred.done:
                self._take(self.dispatcher.finish(self.connection, each))
            else:
                self.waiting.append(each)

    def known(self) -> object:
        """Return what the leader knows of its follower."""
        [session] = self.fetch_sessions._sessions.values() or [None]
        due = None if session is None else session.of_follower
        return (
            None if session is None or due is None else (session.epoch, list(due.due), due.resting, due.fetched_ms),
            [
                [
                    (each.log_end_offset, each.log_start_offset, each.broker_epoch, each.caught_up_ms, each.rests)
                    for each in led.leader.followers.values()
                ]
                for led in self.led
            ],
            [(led.leader.high_watermark, led.isr) for led in self.led],
            self.proposed,
        )

    def counted(self) -> object:
        """Return the bytes for followers and for clients, by partition."""
        return [(led.counts.bytes_out, led.find_log() and led.log.fetched_bytes) for led in self.led]


def _whole(answer: Any) -> bytes:
    chunks = [answer] if isinstance(answer, bytes) else answer
    return b"".join(chunk.read() if isinstance(chunk, FetchSlice) else bytes(chunk) for chunk in chunks)


class Follower:
    """Follower 2, which sends the same requests to all leaders, and compares their answers."""

    def __init__(self, *leaders: Leader) -> None:
        self.leaders = leaders
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        self.moved = set(self.offsets)
        self.session_id = self.session_epoch = 0
        self.broker_epoch, self.leader_epoch = 20, 4
        self.seen = 0
        self.counts = True

    def fetch(self, wait_ms: int = WAIT_MS, **fields: Any) -> None:
        """Send the next fetch, which names the partitions that have moved."""
        last_epochs = fields.pop("last_epochs", {})
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=self.offsets[index],
                last_fetched_epoch=last_epochs.get(index, -1),
                current_leader_epoch=self.leader_epoch,
                log_start_offset=self.starts[index],
                partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
            )
            for index in sorted(self.moved)
        ]
        values: dict[str, Any] = {
            "replica_state": ReplicaState(replica_id=FOLLOWER, replica_epoch=self.broker_epoch),
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": 10 << 20,
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": [FetchTopic(topic_id=TOPIC_ID, partitions=partitions)] if partitions else [],
        }
        request = FETCH.request(**{**values, **fields})
        self.moved = set()
        self.do(lambda leader: leader.serve(request))

    def do(self, step: Callable[[Leader], object]) -> None:
        """Let the same happen at both leaders; take over what they answer."""
        for each in self.leaders:
            step(each)
            each.settle()
        self.compare()

    def compare(self) -> None:
        first, *others = self.leaders
        for each in others:
            assert each.answers == first.answers
            assert each.known() == first.known()
            assert not self.counts or each.counted() == first.counted()
        for frame in first.answers[self.seen :]:
            self._take(FETCH.response.decode(VERSION, frame, 9)[0])
        self.seen = len(first.answers)

    def _take(self, response: Struct) -> None:
        if response.error_code:
            self.begin_again()
            return
        self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        for topic in response.responses:
            for data in topic.partitions:
                if data.records and not data.error_code:
                    self.offsets[data.partition_index] = self.leaders[0].led[data.partition_index].log.log_end_offset
                    self.moved.add(data.partition_index)

    def begin_again(self) -> None:
        self.session_epoch, self.moved = 0, set(self.offsets)

    @property
    def waits(self) -> bool:
        return bool(self.leaders[0].waiting)

    def settle(self) -> None:
        for _ in range(6):
            self.fetch(0)


def append(*indexes: int, size: int = 10) -> Callable[[Leader], None]:
    def step(leader: Leader) -> None:
        for index in indexes:
            if leader.led[index].open_log is not None:
                leader.led[index].append(batch(value=bytes(size)), leader.clock.now_ms())

    return step


def lead_again(leader: Leader) -> None:
    for each in leader.led:
        each.lead_again(MANY._replace(leader_epoch=each.leader_epoch + 1, partition_epoch=each.leader_epoch + 10))


def register_again(leader: Leader) -> None:
    leader.epochs[FOLLOWER] += 1
    append(1)(leader)
