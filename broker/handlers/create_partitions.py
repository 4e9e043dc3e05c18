"""CreatePartitions v0-v3: add partitions to existing topics (KIP-195), or only validate the request.

Versions: v2 flexible; v3 quota errors (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.access.quotas.mutations import admit
from broker.requests.dispatcher import RequestContext
from broker.requests.error_code_map import RequestTimedOut
from broker.requests.served_api import Reply, handles
from metadata.create_partitions import MorePartitions, MorePartitionsResult
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsTopicResult
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.controller import Controller


@handles(CREATE_PARTITIONS)
def create_partitions(ctx: RequestContext, request: Struct, *, controller: Controller) -> Reply:
    if request.timeout_ms <= 0 and 1 in Counter(topic.name for topic in request.topics).values():
        raise RequestTimedOut  # topics that are named twice are refused anyway
    wanted = [_wanted(topic) for topic in request.topics]
    created = controller.create_partitions(wanted, validate_only=request.validate_only, admit=admit(ctx, strict_from=3))
    return created.then(_reply)


def _wanted(topic: Struct) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        topic.name,
        topic.count,
        None if assignments is None else tuple(tuple(each.broker_ids) for each in assignments),
    )


def _reply(results: list[MorePartitionsResult]) -> Struct:
    return CREATE_PARTITIONS.response(
        results=[
            CreatePartitionsTopicResult(
                name=result.name, error_code=result.error_code, error_message=result.error_message
            )
            for result in results
        ]
    )
