"""Fetches from one leader, one request at a time. Kafka's ReplicaFetcherThread with its RemoteLeaderEndPoint.

`replication/following.py` decides what to ask and what an answer means. Here are the requests: a Fetch, or ListOffsets
for partitions that have to be reset, and the timer that ends delays.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from broker.replication.fetch_codec import FOLLOWER_FETCH
from broker.replication.followed_log import LocalFollowedLog
from protocol.client_session import Response
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.schema import Api, Struct
from replication.following import Fetcher, Followed, FollowerRequest
from replication.partition_key import PartitionKey
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.outage_log import OutageLog
from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

_LATEST, _EARLIEST = -1, -2


class LeaderClient(Protocol):
    """A connection to the leader (`OutboundClient`)."""

    def request(self, api: Api, request: Any) -> Deferred[Response]:
        """Send a request, which is a Struct, or a FollowerRequest of FOLLOWER_FETCH; fails if there is no response."""

    def close(self) -> None:
        """Close the connection."""


class LeaderFetcher:
    """The partitions that this broker follows at one leader.

    A request is in flight, or a timer is armed, or there is nothing to ask for. `add` and `remove` may come at any
    time; an answer to an older request is ignored where the position has changed.
    """

    def __init__(
        self,
        node_id: int,
        leader_id: int,
        broker_epoch: Callable[[], int],
        client: LeaderClient,
        clock: Clock,
        timers: Timers,
        fetcher: Fetcher | None = None,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._client = client
        self._clock = clock
        self._timers = timers
        self._fetcher = fetcher or Fetcher(node_id, broker_epoch())
        self._logs: dict[PartitionKey, LocalFollowedLog] = {}
        self._pending: Deferred[Response] | None = None
        self._timer: Timer | None = None
        self._closed = False
        #: The number of requests that failed, for metrics.
        self.failures = 0
        self._fetches = 0
        self._leader_id = leader_id
        self._outage = OutageLog(log, f"Fetches from leader {leader_id}", clock.monotonic_ms)
        self._began_ms = clock.monotonic_ms()

    def __len__(self) -> int:
        return len(self._logs)

    def add(self, key: PartitionKey, followed: LocalFollowedLog, leader_epoch: int) -> None:
        """Follow a partition in an epoch of this leader."""
        self._logs[key] = followed
        self._fetcher.add(key, followed, leader_epoch)
        self._ask()

    def remove(self, key: PartitionKey) -> None:
        """Follow a partition no longer."""
        if self._logs.pop(key, None) is not None:
            self._fetcher.remove(key)

    def followed(self, key: PartitionKey) -> Followed | None:
        """Return the state of a partition, for metrics and descriptions."""
        return self._fetcher.partitions.get(key)

    def rate(self, now_ms: int) -> float:
        """Return the fetches a second so far."""
        return self._fetches * 1000 / max(now_ms - self._began_ms, 1)

    def close(self) -> None:
        """Follow nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._client.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Send the next request, unless one is in flight."""
        if self._pending is not None or self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._clock.monotonic_ms()
        resets = self._resets()
        if resets is not None:
            self._send(LIST_OFFSETS, resets, self._on_offsets)
            return
        self._fetcher.broker_epoch = self._broker_epoch()
        request = self._fetcher.next_fetch(now_ms)
        if request is not None:
            self._fetches += 1
            self._send(FOLLOWER_FETCH, request, self._on_fetched)
        elif (wakes_at_ms := self._fetcher.wakes_at_ms()) is not None:
            self._timer = self._timers.call_at(wakes_at_ms, self._ask)

    def _send(self, api: Api, request: Struct | FollowerRequest, on_response: Callable[[Struct], None]) -> None:
        def on_done(done: Deferred[Response]) -> None:
            self._pending = None
            if self._closed:
                return
            try:
                response = done.result().fields
            except Exception as error:
                self._on_failure(error)
            else:
                if self._outage.lasts:
                    self._outage.worked()
                on_response(response)
            self._ask()

        pending = self._pending = self._client.request(api, request)
        pending.add_done_callback(on_done)

    def _on_failure(self, error: Exception) -> None:
        """The leader did not answer: it may be gone, and the metadata log says who leads then."""
        self.failures += 1
        self._outage.failed(error, f"If broker {self._leader_id} has ended, the controller elects other leaders")
        now_ms = self._clock.monotonic_ms()
        self._fetcher.failed(now_ms)
        for key, _ in self._fetcher.resetting():
            self._fetcher.reset_failed(key, ErrorCode.NETWORK_EXCEPTION, now_ms)

    def _on_fetched(self, response: Struct) -> None:
        self._fetcher.answered(response, self._clock.monotonic_ms())

    # -- resets ------------------------------------------------------------------------------------------------------

    def _resets(self) -> Struct | None:
        topics: dict[str, list[Struct]] = {}
        for key, followed in self._fetcher.resetting():
            topics.setdefault(self._logs[key].topic, []).append(
                ListOffsetsPartition(
                    partition_index=key[1],
                    current_leader_epoch=followed.leader_epoch,
                    timestamp=_EARLIEST if followed.reset_at_start else _LATEST,
                )
            )
        if not topics:
            return None
        return LIST_OFFSETS.request(
            replica_id=self._node_id,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
        )

    def _on_offsets(self, response: Struct) -> None:
        answers = {(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions}
        now_ms = self._clock.monotonic_ms()
        for key, followed in self._fetcher.resetting():
            answer = answers.get((self._logs[key].topic, key[1]))
            if answer is None or (answer.error_code == ErrorCode.NONE and answer.offset < 0):
                self._fetcher.reset_failed(key, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)  # nothing to truncate to
            elif answer.error_code != ErrorCode.NONE:
                self._fetcher.reset_failed(key, answer.error_code, now_ms)
            else:
                self._fetcher.reset(key, followed.leader_epoch, answer.offset)
