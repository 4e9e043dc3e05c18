"""Answers of coordinators that wait until all in-sync replicas have the state behind them.

Apache Kafka's coordinators answer a request once the records behind the answer are committed. Here the answer itself
waits, whatever it is: of a write, of a read, or of a member of a group that was parked. It waits for the last record
of its own group, transaction or share-partition (committed_shard_log.py), not for those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinators.commit_gate import CommitGate
from broker.requests.binding import bind
from broker.requests.error_code_map import NotCommitted
from broker.requests.error_reply import error_reply
from broker.requests.served_api import DeclaredHandler, Handler, Implementation, Reply, ServedApi
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from typing import Any

    from broker.coordinators.runtime import CoordinatorRuntime
    from broker.replicas.durability import Durability
    from broker.requests.context import RequestContext
    from runtime.timers import Timers

#: Returns the keys of a request; None for all keys of the broker.
Keys = Callable[[Struct], Iterable[str] | None]


def _one(name: str) -> Keys:
    return lambda request: (getattr(request, name),)


def _many(name: str) -> Keys:
    return lambda request: getattr(request, name)


def _fetched(request: Struct) -> Iterable[str]:
    """OffsetFetch has one group, and from v8 on several."""
    return (request.group_id, *(each.group_id for each in request.groups))


def _of_producer(request: Struct) -> Iterable[str]:
    """InitProducerId has no transactional id for idempotent producers."""
    return () if request.transactional_id is None else (request.transactional_id,)


def _added(request: Struct) -> Iterable[str]:
    """AddPartitionsToTxn has one transaction, and from v4 on several."""
    return (request.v3_and_below_transactional_id, *(each.transactional_id for each in request.transactions))


def _shared(request: Struct) -> Iterable[str]:
    from coordinator.share.state import ShareKey  # imported with the first share group

    return [
        ShareKey(request.group_id, topic.topic_id, each.partition).coordinator_key
        for topic in request.topics
        for each in topic.partitions
    ]


def _described_shares(request: Struct) -> Iterable[str]:
    return [each.group_id for each in request.groups]


def _all(request: Struct) -> None:
    """Return None: the answer lists all keys."""


_GROUP = _one("group_id")
#: The groups of each request.
OF_GROUPS: Mapping[int, Keys] = {
    ApiKey.JOIN_GROUP: _GROUP,
    ApiKey.SYNC_GROUP: _GROUP,
    ApiKey.HEARTBEAT: _GROUP,
    ApiKey.LEAVE_GROUP: _GROUP,
    ApiKey.OFFSET_COMMIT: _GROUP,
    ApiKey.OFFSET_FETCH: _fetched,
    ApiKey.OFFSET_DELETE: _GROUP,
    ApiKey.DESCRIBE_GROUPS: _many("groups"),
    ApiKey.DELETE_GROUPS: _many("groups_names"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _GROUP,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _many("group_ids"),
    ApiKey.SHARE_GROUP_HEARTBEAT: _GROUP,
    ApiKey.SHARE_GROUP_DESCRIBE: _many("group_ids"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _GROUP,
    ApiKey.STREAMS_GROUP_DESCRIBE: _many("group_ids"),
    ApiKey.TXN_OFFSET_COMMIT: _GROUP,
    ApiKey.LIST_GROUPS: _all,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _described_shares,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _GROUP,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _GROUP,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _GROUP,
}
#: The transactional ids of each request.
OF_TRANSACTIONS: Mapping[int, Keys] = {
    ApiKey.INIT_PRODUCER_ID: _of_producer,
    ApiKey.ADD_PARTITIONS_TO_TXN: _added,
    ApiKey.ADD_OFFSETS_TO_TXN: _of_producer,
    ApiKey.END_TXN: _of_producer,
    ApiKey.DESCRIBE_TRANSACTIONS: _many("transactional_ids"),
    ApiKey.LIST_TRANSACTIONS: _all,
}
#: The share-partitions of each request of another broker.
OF_SHARES: Mapping[int, Keys] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _shared,
    ApiKey.READ_SHARE_GROUP_STATE: _shared,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _shared,
    ApiKey.WRITE_SHARE_GROUP_STATE: _shared,
    ApiKey.DELETE_SHARE_GROUP_STATE: _shared,
}


class CommittedAnswers(NamedTuple):
    """The waits of one kind of coordinator.

    Args:
        timeout_ms: how long an answer waits, as that of a write does. The client tries again after the error.
    """

    coordinator: CoordinatorRuntime[Any, Any, Any]
    durability: Durability
    timers: Timers
    timeout_ms: int

    def when_committed(
        self, keys: Iterable[str] | None, answer: Struct, failed: Callable[[ErrorCode], Struct]
    ) -> Reply:
        """Return the answer once the last records of now of these keys, or of all, are committed."""
        gate = CommitGate(self.timers, self.timeout_ms)
        waits = 0
        for safe in self._waits(keys):
            if safe is not None:
                gate.begun(waits, safe)
                waits += 1
        return gate.answer(range(waits), answer, failed)

    def _waits(self, keys: Iterable[str] | None) -> Iterator[Deferred[None] | None]:
        if keys is None:
            for log in self.coordinator.loaded_logs():
                yield log.relied_on(self.durability, None)
            return
        for key in dict.fromkeys(keys):
            found = self.coordinator.log_of(key)
            if not isinstance(found, ErrorCode):
                yield found.relied_on(self.durability, key)


class CommittedApi(ServedApi):
    """An API whose answers wait.

    Args:
        keys: returns the keys of a request's coordinators.
        services: returns those of the process, once they exist.
        answers: returns the waits of the coordinator, once it exists.
    """

    __slots__ = ("_answers", "_keys", "_of", "_services")

    def __init__(
        self,
        served: ServedApi,
        keys: Keys,
        services: Callable[[], Mapping[str, object]],
        answers: Callable[[], CommittedAnswers],
    ) -> None:
        super().__init__(served.key, served.served, served.advertised)
        self._of = served
        self._keys = keys
        self._services = services
        self._answers = answers

    def load(self) -> Implementation:
        found = self.implementation
        if found is None:
            own = self._of.load()
            found = self.implementation = own._replace(handler=self._waiting(own.handler))
        return found

    def _waiting(self, declared: DeclaredHandler) -> Handler:
        bound: list[Handler] = []

        def serve(ctx: RequestContext, request: Struct) -> Reply:
            if not bound:
                bound.append(bind(declared, self._services()))
            keys = self._keys(request)
            if keys is not None:
                keys = tuple(keys)  # a handler may change the request

            def failed(code: ErrorCode) -> Struct:
                refused = error_reply(ctx.api, ctx.api_version, request, code)
                if refused is None:
                    raise NotCommitted(code)
                return refused

            def wait(answer: Struct | None) -> Reply:
                return None if answer is None else self._answers().when_committed(keys, answer, failed)

            reply = bound[0](ctx, request)
            if not isinstance(reply, Deferred):
                return wait(reply)
            return wait(reply.result()) if reply.done else _then(reply, wait)

        return serve


def _then(reply: Deferred[Struct], wait: Callable[[Struct | None], Reply]) -> Deferred[Struct]:
    """Return a Deferred of the answer after its wait. A client that disconnects is noted by the handler's own."""
    answered = after(reply, lambda: wait(reply.result()))
    answered.on_cancel(reply.cancel)
    answered.mutes = reply.mutes
    return answered
