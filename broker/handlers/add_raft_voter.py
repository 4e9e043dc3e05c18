"""AddRaftVoter v0-v1: add a voter to the quorum that keeps the metadata (KIP-853).

Versions: v1 may answer before the change is committed (KIP-1186). A member forwards the request to its controllers. Not
served: a second voter of a single node. The error is that of a Kafka which cannot reach the new voter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from controller.quorum import Voter, log_refused_voter
from metadata.decision import Refused
from protocol.messages.add_raft_voter import ADD_RAFT_VOTER
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.quorum import MetadataQuorum


@handles(ADD_RAFT_VOTER)
def add_raft_voter(ctx: RequestContext, request: Struct, *, quorum: MetadataQuorum) -> Reply:
    listeners = tuple((each.name, each.host, each.port) for each in request.listeners)
    voter = Voter(request.voter_id, request.voter_directory_id, listeners)
    try:
        quorum.add_voter(request.cluster_id, voter)
    except Refused as refused:
        log_refused_voter(ADD_RAFT_VOTER.name, voter.node_id, refused.error_code.name)
        return ADD_RAFT_VOTER.response(error_code=refused.error_code, error_message=refused.message)
