"""AlterPartition v2-v3: a leader changes the in-sync replicas of its partitions (KIP-497).

Versions: v2 topic ids; v3 broker epochs of the replicas (KIP-903).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.alter_partition import ALTER_PARTITION
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def alter_partition(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(ALTER_PARTITION, controller.alter_partition(request))
