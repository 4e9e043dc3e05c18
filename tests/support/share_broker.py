"""A broker with its coordinators and share-partitions, over real logs in a directory, without sockets."""

from __future__ import annotations

from typing import Any

from broker.coordinators.share.coordinator import ShareCoordinator
from broker.coordinators.share.dead_letters import DeadLetterServices, DeadLetterWriter, LetterCounts
from broker.coordinators.share.partitions import SharePartitions
from broker.replicas.own_appends import PartitionAppends
from broker.requests.dispatcher import RequestContext
from protocol.schema import Api, Struct
from tests.support.data_client import batch
from tests.support.share_client import ShareClient
from tests.support.txn_broker import TxnBroker

SETTINGS = {"share.coordinator.state.topic.num.partitions": "1", "group.share.assignment.interval.ms": "0"}
"""One partition of states, and assignments at once."""


class FakeConnection:
    """The part of a client's connection that share sessions use."""

    client_host, local_host, local_port, listener_name = "127.0.0.1", "10.0.0.1", 9092, "L"

    def __init__(self) -> None:
        self.on_close: Any = None

    def close(self) -> None:
        """Disconnect the client."""
        if self.on_close is not None:
            self.on_close()


class ShareBroker(TxnBroker):
    """`member(name)` returns a client with a connection of its own; all are of group "g" and topic "t"."""

    connection = FakeConnection()

    def start_coordinators(self) -> None:
        self.dead_letter_counts: dict[str, LetterCounts] = {}
        self.share_states = self.share_coordinator = ShareCoordinator(self)  # type: ignore[arg-type]
        self.share_partitions = SharePartitions(
            self.config,
            self.clock,
            self.timers,
            self.purgatory,
            self.metadata,
            self.time_look_ups,
            self.share_states,
            self.dead_letters,
        )
        super().start_coordinators()
        self.share_states.start()

    def dead_letters(self) -> DeadLetterWriter:
        appends = PartitionAppends(self.partitions, self.appends, self.durability, self.clock)
        own = self.config, self.clock, self.timers, self.metadata, self.topics, appends, self.dead_letter_counts
        return DeadLetterWriter(DeadLetterServices(*own))

    def context(self, api: Api, version: int, client_id: str | None = "client") -> RequestContext:
        return RequestContext(self.connection, api, version, 1, client_id)  # type: ignore[arg-type]

    def member(self, name: str = "member") -> ShareMemberClient:
        made = ShareMemberClient(self, name)
        made.topic_id = self.partition("t").topic_id
        return made

    def fill(self, *sizes: int) -> None:
        """Write batches of so many records into "t"."""
        for size in sizes:
            self.member().produce("t", batch(*[b"v"] * size, timestamp=self.clock.now_ms()))


class ShareMemberClient(ShareClient):
    """ShareClient without a connection."""

    group = "g"

    def __init__(self, broker: ShareBroker, name: str) -> None:
        self.broker = broker
        self.member = name
        self.connection = FakeConnection()

    def call(self, api: Api, version: int, request: Any = None, **fields: Any) -> Struct:
        values = dict(request or {}) if not isinstance(request, Struct) else {}
        self.broker.connection = self.connection
        return self.broker.call(api, version, **{**values, **fields})

    def enter(self) -> ShareMemberClient:
        """Join the group, and wait for the assignment of the only partition of "t"."""
        epoch = 0
        for _ in range(3):
            answer = self.beat(epoch, ["t"])
            assert not answer.error_code
            epoch = answer.member_epoch
            self.broker.advance(1_000)
            self.broker.settle()
        assert answer.assignment.topic_partitions[0].partitions == [0]
        return self
