"""ElectLeaders v0-v2: elect the preferred replica as leader, or any remaining one (KIP-183).

Versions: v1 unclean elections and an error code for the whole (KIP-460); v2 flexible. A null list of topics means all.
Partitions that need no election are then left out; their topics are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from metadata.decision import PartitionResult as Result
from metadata.elections import ElectionType
from protocol.error_codes import ErrorCode
from protocol.messages.elect_leaders import ELECT_LEADERS, PartitionResult, ReplicaElectionResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.controller import Controller


@handles(ELECT_LEADERS)
def elect_leaders(ctx: RequestContext, request: Struct, *, controller: Controller) -> Reply:
    asked = request.topic_partitions
    partitions = None if asked is None else [(topic.topic, index) for topic in asked for index in topic.partitions]
    if asked == []:
        return _reply([], [])
    names = list(controller.image.topics_by_name) if asked is None else [topic.topic for topic in asked]
    named = [] if asked is None else names
    if request.timeout_ms <= 0:
        late = [Result(name, index, ErrorCode.REQUEST_TIMED_OUT, None) for name, index in partitions or ()]
        return _reply(named, late, ErrorCode.REQUEST_TIMED_OUT if ctx.api_version > 0 else ErrorCode.NONE)
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        message = f"Unknown election type {request.election_type}"
        refused = [Result(name, index, ErrorCode.INVALID_REQUEST, message) for name, index in partitions or ()]
        return _reply(named, refused, ErrorCode.INVALID_REQUEST)
    return controller.elect_leaders(election_type, partitions).then(lambda results: _reply(names, results))


def _reply(names: Iterable[str], results: list[Result], error_code: ErrorCode = ErrorCode.NONE) -> Struct:
    by_topic: dict[str, list[Struct]] = {name: [] for name in names}
    for result in results:
        by_topic.setdefault(result.topic, []).append(
            PartitionResult(
                partition_id=result.partition, error_code=result.error_code, error_message=result.error_message
            )
        )
    return ELECT_LEADERS.response(
        error_code=error_code,
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=partitions) for name, partitions in by_topic.items()
        ],
    )
