"""Fetch v0-v18: return records from an offset on, after a wait if there are too few.

Versions: v0-v3, which Kafka 4 has dropped, return messages (broker/replicas/down_conversion.py); v1 throttle time; v2
magic 1; v3 a limit for the whole, and a first batch that is always complete (KIP-74); v4 isolation level (KIP-98); v5
log start offset (KIP-207); v7 sessions (KIP-227); v9 current leader epoch (KIP-320); v11 preferred read replica, rack
(KIP-392); v12 flexible, last fetched epoch and its divergence (KIP-595); v13 topic ids (KIP-516); v15 replica state
(KIP-903); v16 address of the leader (KIP-951); v17 directory ids (KIP-853); v18 the follower's high watermark.
Fetches of followers and preferred replicas exist in a cluster alone (broker/replication/replica_reads.py), and reads
from remote storage only if it is on (broker/tiering/reading/tiered_fetch.py, KIP-405).

broker/replicas/fetch_attempt.py reads the records and waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replicas.fast_path.plain_fetch import NotEnough
from broker.replicas.fast_path.single_fetch import fetch_single
from broker.replicas.fetch_attempt import READ_COMMITTED
from broker.replicas.fetch_session import FetchContext
from broker.replicas.fetched_data import absent_data
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import handles
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import FetchAnswer, FetchedTopic, fetch_encoder
from protocol.messages.fetch import FETCH
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.replicas.fetch_attempt import FetchServices
    from broker.replicas.fetch_session import FetchSessions

_ISOLATION_LEVELS = (0, READ_COMMITTED)


@handles(FETCH, fast_path=fetch_single, encoder=fetch_encoder)
def fetch(
    ctx: RequestContext, request: Struct, *, fetch_sessions: FetchSessions, fetch_services: FetchServices
) -> FetchAnswer | Deferred[FetchAnswer]:
    version = ctx.api_version
    replica_id: int = request.replica_id if version < 15 else request.replica_state.replica_id
    begun = ctx.progress
    if isinstance(begun, NotEnough) and begun.session is not None:
        context = FetchContext(begun.session.partitions, begun.session)
    else:
        context = fetch_sessions.open(version, request, replica_id >= 0)
    if context.error_code:
        return FetchAnswer(context.error_code, 0, [])
    attempt = fetch_services.attempt(fetch_services, ctx, request, context, replica_id)
    if isinstance(begun, NotEnough):
        attempt.note_read(begun)
        return attempt.park(request.max_wait_ms)
    if request.isolation_level not in _ISOLATION_LEVELS and attempt.finds_any():
        return _refused(request, version)
    if attempt.read() or request.max_wait_ms <= 0:
        return attempt.warmed()
    return attempt.park(request.max_wait_ms)


def _refused(request: Struct, version: int) -> FetchAnswer:
    """Return the answer to an unknown isolation level: as in Kafka, which has no better error."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = [
        FetchedTopic(topic.topic, topic.topic_id, [absent_data(each.partition, code) for each in topic.partitions])
        for topic in (request.topics if version < 13 else ())
    ]
    return FetchAnswer(code, request.session_id, topics)
