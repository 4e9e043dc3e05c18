"""RemoveRaftVoter v0: remove a voter from the quorum that keeps the metadata (KIP-853).

There is one voter, and the last one cannot be removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from controller.quorum import Voter, log_refused_voter
from metadata.decision import Refused
from protocol.messages.remove_raft_voter import REMOVE_RAFT_VOTER
from protocol.schema import Struct

if TYPE_CHECKING:
    from controller.quorum import MetadataQuorum


@handles(REMOVE_RAFT_VOTER)
def remove_raft_voter(ctx: RequestContext, request: Struct, *, quorum: MetadataQuorum) -> Reply:
    voter = Voter(request.voter_id, request.voter_directory_id, ())
    try:
        quorum.remove_voter(request.cluster_id, voter)
    except Refused as refused:
        log_refused_voter(REMOVE_RAFT_VOTER.name, voter.node_id, refused.error_code.name)
        return REMOVE_RAFT_VOTER.response(error_code=refused.error_code, error_message=refused.message)
