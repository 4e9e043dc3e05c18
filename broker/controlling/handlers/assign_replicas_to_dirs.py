"""AssignReplicasToDirs v0: a broker reports the log directories of its replicas (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controlling.decided import decided
from broker.requests.context import RequestContext
from broker.requests.served_api import Reply
from protocol.messages.assign_replicas_to_dirs import ASSIGN_REPLICAS_TO_DIRS
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.cluster_controller import ClusterController


def assign_replicas_to_dirs(ctx: RequestContext, request: Struct, *, controller: ClusterController) -> Reply:
    return decided(ASSIGN_REPLICAS_TO_DIRS, controller.assign_replicas_to_dirs(request))
