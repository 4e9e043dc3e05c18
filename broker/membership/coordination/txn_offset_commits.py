"""TxnOffsetCommit of a group here whose producer has its coordinator on another broker (KIP-890)."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from broker.coordinators.transaction.verification import is_open
from broker.coordinators.transaction.verifier import FIRST_VERSION_THAT_JOINS, FirstBatch
from broker.requests.binding import bind
from broker.requests.served_api import DeclaredHandler, Implementation, Reply, ServedApi
from coordinator.shard import Producer
from coordinator.transaction.transaction import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.schema import Struct
from runtime.deferred import Deferred, after

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.membership.coordination.peer_verifier import PeerVerifier
    from broker.requests.context import RequestContext

_FIRST_COMMIT_THAT_JOINS = 5
#: Codes of the other coordinator that would send the client to look for the group's. As in Kafka, it tries again here.
_TRY_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class _Verified(NamedTuple):
    """Stands for the transaction coordinator, which has answered."""

    code: ErrorCode

    def join(self, *_: object) -> ErrorCode:
        return self.code

    def verify(
        self, transactional_id: str, producer: Producer, places: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(places, self.code)

    def once_committed(self, *_: object) -> None:
        """The answer was committed when it came."""


class VerifiedCommits(ServedApi):
    """The API, which asks a coordinator on another broker first, where it must be asked.

    Args:
        services: returns those of the process, once they exist.
    """

    __slots__ = ("_node_id", "_of", "_services")

    def __init__(self, served: ServedApi, node_id: int, services: Callable[[], Mapping[str, object]]) -> None:
        super().__init__(served.key, served.served, served.advertised)
        self._of = served
        self._node_id = node_id
        self._services = services

    def load(self) -> Implementation:
        found = self.implementation
        if found is None:
            own = self._of.load()
            found = self.implementation = own._replace(handler=self._verifying(own.handler))
        return found

    def _verifying(self, declared: DeclaredHandler) -> DeclaredHandler:
        def serve(ctx: RequestContext, request: Struct) -> Reply:
            services = self._services()
            asked = self._ask(ctx.api_version, request, services)
            if asked is None:
                return bind(declared, services)(ctx, request)

            def commit() -> Reply:
                (code,) = asked.result().values()
                verified = _Verified(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _TRY_AGAIN else code)
                known = cast("Any", ChainMap({"transactions": verified}, cast("dict[str, Any]", services)))
                return bind(declared, known)(ctx, request)

            # The group's partition may have joined the transaction: it gets the offsets even if the client leaves.
            return after(asked, commit, even_if_cancelled=True)

        return serve

    def _ask(
        self, version: int, request: Struct, services: Mapping[str, Any]
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]] | None:
        groups: GroupCoordinator = services["groups"]
        verifier: PeerVerifier = services["verifier"]
        if verifier.coordinator_of(request.transactional_id) in (None, self._node_id) or not request.group_id:
            return None
        found = groups.log_of(request.group_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        if isinstance(found, ErrorCode) or is_open(found.partition, producer):
            return None
        place = TopicPartition(found.partition.topic, found.partition.index)
        joins = version >= _FIRST_COMMIT_THAT_JOINS
        codes = verifier.verify(
            request.transactional_id,
            [FirstBatch(place, producer, 0, True)],
            FIRST_VERSION_THAT_JOINS if joins else FIRST_VERSION_THAT_JOINS - 1,
        )
        return codes if isinstance(codes, Deferred) else Deferred.resolved({place: codes.get(place, ErrorCode.NONE)})
