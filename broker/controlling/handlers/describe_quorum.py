"""DescribeQuorum v0-v2 of a controller: the voter, and the brokers that follow the metadata log (KIP-595).

Versions: v1 times of the last fetch (KIP-836); v2 directory ids, the listeners of voters, error messages (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.handlers.describe_quorum import describe
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.describe_quorum import ReplicaState
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.controlling.metadata_reads import MetadataReads
    from broker.controlling.observers import Observers
    from controller.quorum import MetadataQuorum
    from runtime.clock import Clock

_DIRECTORIES_FROM = 2


def describe_quorum(
    ctx: RequestContext,
    request: Struct,
    *,
    quorum: MetadataQuorum,
    reads: MetadataReads,
    observers: Observers,
    clock: Clock,
) -> Reply:
    states = [
        ReplicaState(
            replica_id=each.node_id,
            replica_directory_id=each.directory_id if ctx.api_version >= _DIRECTORIES_FROM else ZERO_UUID,
            log_end_offset=each.log_end_offset,
            last_fetch_timestamp=each.last_fetch_ms,
            last_caught_up_timestamp=each.last_caught_up_ms,
        )
        for each in observers
    ]
    return describe(ctx, request, quorum, clock.now_ms(), reads.high_watermark, states)
