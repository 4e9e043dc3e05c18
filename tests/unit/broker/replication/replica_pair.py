"""A leader and a follower of t-0 in one process: the follower's requests reach the leader's handlers."""

from __future__ import annotations

from pathlib import Path

from broker.replication.counts import ReplicationCounts
from broker.replication.followed_log import LocalFollowedLog
from broker.replication.leader_fetcher import LeaderFetcher
from protocol.client_session import PendingRequest, Response
from protocol.messages.fetch import FETCH
from protocol.messages.list_offsets import LIST_OFFSETS
from protocol.schema import Api, Struct
from replication.following import FollowerRequest
from runtime.deferred import Deferred
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.unit.broker.replication.leading_broker import LeadingBroker

KEY = TOPIC_ID, 0
_VERSIONS = {FETCH.key: 17, LIST_OFFSETS.key: 10}


class ClientOf:
    """A connection to a broker in this process. With `cut`, requests fail."""

    def __init__(self, broker: LeadingBroker) -> None:
        self._broker = broker
        self.cut = self.closed = False
        self.asked: list[Struct] = []

    def request(self, api: Api, request: Struct | FollowerRequest) -> Deferred[Response]:
        if isinstance(request, FollowerRequest):
            api, request = FETCH, request.struct()
        self.asked.append(request)
        if self.cut:
            failed: Deferred[Response] = Deferred()
            failed.fail(ConnectionError("cut"))
            return failed
        version = _VERSIONS[api.key]
        fields = {each.name: getattr(request, each.name) for each in request.struct_type.fields}
        reply = self._broker.send(api, version, **fields)
        assert reply is not None

        def received(answer: object) -> Response:
            body = self._broker.received(api, version, Deferred.resolved(answer))  # type: ignore[arg-type]
            return Response(PendingRequest(api, version, 1), body, b"", 0, 0)

        return reply.then(received)

    def close(self) -> None:
        self.closed = True


class ReplicaPair:
    """Broker 1 leads, broker 2 follows. Their clocks stand still until `run` moves both."""

    def __init__(self, directory: Path) -> None:
        self.leader = LeadingBroker(directory / "leader", LogConfig(min_insync_replicas=1, segment_bytes=2000))
        self.leader.keep(1, 2)
        self.leader.epochs[3] = 99  # no third broker
        self.follower = DataBroker(directory / "follower")
        config = LogConfig(segment_bytes=2000)
        self.log: PartitionLog = self.follower.topic(config=config).log
        self.log.leader_epochs.clear()
        self.log.begin_replication(0)
        logs = self.follower.logs
        self.advanced: list[int] = []
        self.counts = ReplicationCounts()
        self.followed = LocalFollowedLog(
            self.log,
            logs.checkpoints,
            logs.removals,
            self.follower.clock,
            self.counts,
        )
        self.followed.on_advance = lambda: self.advanced.append(self.log.high_watermark)
        self.client = ClientOf(self.leader)
        self.fetcher = LeaderFetcher(2, 1, lambda: 20, self.client, self.follower.clock, self.follower.timers)

    def follow(self, leader_epoch: int = 4) -> None:
        """Follow the leader, which knows each record of this test once the pair has run."""
        self.fetcher.add(KEY, self.followed, leader_epoch)
        self.run()

    def run(self, milliseconds: int = 0) -> None:
        """Let both brokers work until nothing is due."""
        for broker in (self.leader, self.follower):
            broker.advance(milliseconds)
        for _ in range(5):
            self.leader.settle()
            self.follower.settle()

    def is_equal(self) -> bool:
        """Return whether the follower has the leader's records byte by byte, and its epochs."""
        return (
            content(self.leader.partition.log) == content(self.log)
            and self.leader.partition.log.leader_epochs.entries == self.log.leader_epochs.entries
        )

    def close(self) -> None:
        self.fetcher.close()
        self.leader.close()
        self.follower.close()


def content(log: PartitionLog) -> bytes:
    """Return all batches from the log start offset on."""
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        found = bytes(log.read(offset, 1 << 20, log.log_end_offset, True).read())
        data += found
        offset = max(offset + 1, _end(found))
    return data


def _end(batches: bytes) -> int:
    """Return the offset after the last whole batch."""
    position, end = 0, -1
    while position + 12 <= len(batches):
        size = 12 + int.from_bytes(batches[position + 8 : position + 12])
        end = int.from_bytes(batches[position : position + 8]) + int.from_bytes(batches[position + 23 : position + 27])
        position += size
    return end + 1
