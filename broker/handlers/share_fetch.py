"""ShareFetch v1-v2: acquire records of share-partitions, and acknowledge those that were acquired before (KIP-932).

Versions: v2 no more records than requested (KIP-1206, acquire mode 1), and lock renewal (KIP-1222).

A request acknowledges first and then fetches; one that renews locks does not fetch. The answer is sent after the
acknowledgements are in the share coordinator's log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from broker.coordinators.share.acknowledgement import Acknowledged
from broker.coordinators.share.acquisition import AcquireRequest
from broker.coordinators.share.fetching import Fetched, ShareFetchAttempt
from broker.coordinators.share.requests import (
    Acknowledging,
    check_caller,
    serves_share_groups,
)
from broker.coordinators.share.sessions import (
    FINAL_EPOCH,
    SessionKey,
    ShareSession,
    TopicIdPartition,
)
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from protocol.messages.share_fetch import (
    SHARE_FETCH,
    AcquiredRecords,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
)
from protocol.schema import Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.share.fetch_services import ShareFetchServices
    from broker.coordinators.share.requests import ShareRequests
    from broker.metadata_cache import MetadataCache
    from broker.requests.advertised_endpoints import AdvertisedEndpoints
    from config import BrokerConfig

_BATCH_OPTIMIZED, _RECORD_LIMIT = 0, 1


class Needs(NamedTuple):
    """The services and settings of a share fetch; `max_bytes` is fetch.max.bytes."""

    is_served: bool
    max_bytes: int
    fetches: ShareFetchServices
    requests: ShareRequests
    endpoints: AdvertisedEndpoints


@handles(SHARE_FETCH)
def share_fetch(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    config: BrokerConfig,
    share_fetches: ShareFetchServices,
    share_requests: ShareRequests,
    endpoints: AdvertisedEndpoints,
) -> Reply:
    max_bytes = config.get_int("fetch.max.bytes")
    is_served = serves_share_groups(metadata, config)
    needs = Needs(is_served, max_bytes, share_fetches, share_requests, endpoints)
    try:
        return fetch(ctx, needs, request)
    except Refused as refusal:
        if refusal.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:  # or the client would retry at once
            return later(needs.fetches, request.max_wait_ms, failed(refusal.code))
        return failed(refusal.code)


def later(fetches: ShareFetchServices, wait_ms: int, response: Struct) -> Reply:
    """Answer after the time that the client would have waited for records."""
    answered: Deferred[Struct] = Deferred()
    waiter = fetches.purgatory.watch(
        (), lambda: False, fetches.clock.monotonic_ms() + wait_ms, lambda: answered.resolve(response)
    )
    answered.on_cancel(waiter.cancel)
    return answered


def failed(code: ErrorCode) -> Struct:
    return SHARE_FETCH.response(error_code=code)


def fetch(ctx: RequestContext, needs: Needs, request: Struct) -> Reply:
    """Acknowledge and fetch. Raises Refused if neither is done."""
    if not needs.is_served:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    check_caller(request)
    batches = acknowledged_of(request)
    if not any(batches.values()):
        batches = {}
    check_request(request)
    share_partitions = needs.fetches.share_partitions
    key = SessionKey(request.group_id, request.member_id)
    session = share_partitions.sessions.fetch(
        key,
        request.share_session_epoch,
        (
            TopicIdPartition(topic.topic_id, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        ),
        (
            TopicIdPartition(topic.topic_id, each)
            for topic in request.forgotten_topics_data
            for each in topic.partitions
        ),
        ctx.connection,
        acknowledges=bool(batches),
    )
    acknowledged = needs.requests.acknowledge(ctx, key, batches, may_renew=request.is_renew_ack)
    if request.share_session_epoch == FINAL_EPOCH:
        share_partitions.sessions.end(session)
        return answer(ctx, needs, request, acknowledged, [], ())
    if request.is_renew_ack:
        return answer(ctx, needs, request, acknowledged, [], ())
    if session.places and request.share_acquire_mode not in (_BATCH_OPTIMIZED, _RECORD_LIMIT):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka, which finds it when it begins to fetch
    if request.max_records <= 0 or request.max_bytes <= 0:
        return answer(ctx, needs, request, acknowledged, [], ())
    new_places = session.take_new_partitions()
    attempt = ShareFetchAttempt(
        needs.fetches,
        request.group_id,
        in_turn(session, request.share_session_epoch),
        AcquireRequest(
            request.member_id, request.max_records, request.batch_size, request.share_acquire_mode == _RECORD_LIMIT
        ),
        share_partitions.settings(request.group_id),
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, needs.max_bytes),
        may_read=needs.requests.reader(ctx),
    )
    found = attempt.run(0 if batches else request.max_wait_ms)
    if isinstance(found, Deferred):
        return found.then(lambda fetched: respond(ctx, needs, request, acknowledged.results, fetched, new_places))
    return answer(ctx, needs, request, acknowledged, found, new_places)


def acknowledged_of(request: Struct) -> dict[TopicIdPartition, list[Acknowledged]]:
    """Return the acknowledgements of a request by partition; an empty list for a partition without any."""
    return {
        TopicIdPartition(topic.topic_id, each.partition_index): [
            Acknowledged(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in each.acknowledgement_batches
        ]
        for topic in request.topics
        for each in topic.partitions
    }


def check_request(request: Struct) -> None:
    """Raises Refused: INVALID_REQUEST for a renewal that fetches."""
    if request.is_renew_ack and (request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records):
        raise Refused(ErrorCode.INVALID_REQUEST)


def in_turn(session: ShareSession, epoch: int) -> list[TopicIdPartition]:
    """Return the session's partitions, each time with another one first."""
    places = list(session.places)
    if not places:
        return places
    first = epoch % len(places)
    return places[first:] + places[:first]


def answer(
    ctx: RequestContext,
    needs: Needs,
    request: Struct,
    acknowledged: Acknowledging,
    fetched: list[Fetched],
    new_places: Iterable[TopicIdPartition],
) -> Reply:
    """Answer once the acknowledgements are written."""
    if ctx.charge is not None:
        ctx.charge.count_fetched(sum(len(each.records) for each in fetched))
    results = acknowledged.results
    return needs.requests.when_written(
        request.group_id, acknowledged, lambda: respond(ctx, needs, request, results, fetched, new_places), failed
    )


def respond(
    ctx: RequestContext,
    needs: Needs,
    request: Struct,
    results: dict[TopicIdPartition, Refused | None],
    fetched: list[Fetched],
    new_places: Iterable[TopicIdPartition],
) -> Struct:
    """Return the results of acknowledgements and fetches by partition; `new_places` are in the answer in any case."""
    by_place: dict[TopicIdPartition, Struct] = {}
    for each in sorted(fetched, key=lambda each: not each.error_code):  # errors come first, as in Kafka
        data = by_place[each.place] = PartitionData(partition_index=each.place.partition)
        data.error_code, data.error_message = each.error_code, each.error_message
        data.records = each.records
        data.acquired_records = [AcquiredRecords(**one._asdict()) for one in each.acquired]
    leaders: set[int] = set()
    for each in fetched:
        if each.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            needs.requests.set_leader(each.place, by_place[each.place], leaders)
    for place in (*results, *new_places):
        if place not in by_place:
            by_place[place] = PartitionData(partition_index=place.partition, records=b"")
    for place, refusal in results.items():
        if refusal is not None:
            data = by_place[place]
            data.acknowledge_error_code, data.acknowledge_error_message = refusal.code, refusal.message
            if refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                needs.requests.set_leader(place, data, leaders)
    topics: dict[bytes, list[Struct]] = {}
    for place, data in by_place.items():
        topics.setdefault(place.topic_id, []).append(data)
    return SHARE_FETCH.response(
        acquisition_lock_timeout_ms=needs.fetches.share_partitions.settings(request.group_id).limits.lock_duration_ms,
        responses=[
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=needs.endpoints.structs(ctx.connection, NodeEndpoint, leaders) if leaders else [],
    )
