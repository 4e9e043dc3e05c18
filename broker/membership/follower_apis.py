"""APIs that read a replica whoever leads it: tools compare replicas with them, as in Apache Kafka."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from broker.requests.binding import bind
from broker.requests.served_api import DeclaredHandler, Implementation, Reply, ServedApi
from protocol.api_keys import ApiKey
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.replication.replica_reads import ReplicaReads
    from broker.requests.context import RequestContext

_DEBUGGING_REPLICA = -2


def _of_any_replica(request: Struct) -> bool:
    return True


def _of_a_tool(request: Struct) -> bool:
    return bool(request.replica_id == _DEBUGGING_REPLICA)


def _of_the_leader(request: Struct) -> bool:
    return False


#: The APIs, and which of their requests may read a follower.
_AT_FOLLOWERS: Mapping[int, Callable[[Struct], bool]] = {
    ApiKey.DESCRIBE_PRODUCERS: _of_any_replica,
    ApiKey.LIST_OFFSETS: _of_a_tool,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _of_the_leader,
}


def with_followers(
    served: Mapping[int, ServedApi], services: Callable[[], Mapping[str, object]], reads: Callable[[], ReplicaReads]
) -> dict[int, ServedApi]:
    """Return the same APIs, of which some know the partitions that this broker follows."""
    return {key: FollowerApi(each, services, reads) if key in _AT_FOLLOWERS else each for key, each in served.items()}


class FollowerApi(ServedApi):
    """The API, which finds followed partitions, too, where `at_follower(request)` allows it.

    Args:
        services: returns those of the process, once they exist.
        reads: returns the partitions.
    """

    __slots__ = ("_at_follower", "_of", "_reads", "_services")

    def __init__(
        self,
        served: ServedApi,
        services: Callable[[], Mapping[str, object]],
        reads: Callable[[], ReplicaReads],
    ) -> None:
        super().__init__(served.key, served.served, served.advertised)
        self._of = served
        self._at_follower = _AT_FOLLOWERS[served.key]
        self._services = services
        self._reads = reads

    def load(self) -> Implementation:
        found = self.implementation
        if found is None:
            own = self._of.load()
            found = self.implementation = own._replace(handler=self._reading(own.handler))
        return found

    def _reading(self, declared: DeclaredHandler) -> DeclaredHandler:
        def serve(ctx: RequestContext, request: Struct) -> Reply:
            reads = self._reads()
            partitions = reads.partitions if self._at_follower(request) else reads.led
            services = ChainMap({"partitions": partitions}, cast("dict[str, Any]", self._services()))
            return bind(declared, cast("Any", services))(ctx, request)

        return serve
