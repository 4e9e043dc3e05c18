"""StreamsGroupHeartbeat v0-v1: join, stay in and leave a streams group (KIP-1071).

Versions: v1 a wider acceptable lag, the status MISSING_CLIENT_TAGS (KAFKA-20744), requests for the description of the
topology (KIP-1331).

Not served, as in Apache Kafka 4.4: warm-up tasks, other topologies than the first, regular expressions for source
topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.streams_topics import failure_text
from broker.network.java_address import java_address
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.modern.caller import Caller
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects
from coordinator.group.streams.configured import Status
from coordinator.group.streams.descriptions import request_description
from coordinator.group.streams.heartbeat import Outcome, new_response
from coordinator.group.streams.heartbeat import heartbeat as decide
from metadata.features import STREAMS_VERSION
from metadata.topic_names import is_internal, name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.streams_group_heartbeat import STREAMS_GROUP_HEARTBEAT
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache

FIRST_VERSION_WITH_DESCRIPTIONS = 1


@handles(STREAMS_GROUP_HEARTBEAT)
def streams_group_heartbeat(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache, guard: Guard | None
) -> Reply:
    if not serves_streams_groups(groups, metadata):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    problem = topology_problem(request.topology)
    if problem is not None:
        return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, problem)

    def serve() -> Reply:
        shard = groups.at(request.group_id)
        if isinstance(shard, ErrorCode):
            return refused(shard)
        caller = Caller(ctx.client_id or "", java_address(ctx.connection.client_host))
        effects: GroupEffects = Effects()
        try:
            outcome = decide(shard, request, caller, groups.now(), effects, ctx.api_version)
        except Refused as refusal:
            return refused(refusal.code, refusal.message)
        code = groups.run(shard, effects)
        if code is not ErrorCode.NONE:
            return refused(code)
        if ctx.api_version >= FIRST_VERSION_WITH_DESCRIPTIONS and groups.settings.streams.describes_topologies:
            group = shard.streams(request.group_id)
            if group is not None and request.member_epoch >= 0:
                request_description(group, outcome.response, groups.now())
        if outcome.missing:
            make_topics(groups, guard, ctx, outcome)
        return groups.after_commit((request.group_id,), outcome.response, refused)

    return groups.with_topic(serve)


def refused(code: ErrorCode, message: str | None = None) -> Struct:
    """Return the answer to a heartbeat that is refused."""
    return new_response(error_code=code, error_message=message)


def make_topics(groups: GroupCoordinator, guard: Guard | None, ctx: RequestContext, outcome: Outcome) -> None:
    """Create all missing internal topics, or none if the client may not create one of them.

    The reason for that, and earlier failures, are added to the answer.
    """
    refused = [] if guard is None else guard.uncreatable(ctx, outcome.missing)
    if refused:
        add_detail(outcome, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
        return
    topics = groups.streams_topics
    failures = topics.failures(outcome.missing)
    if failures:
        add_detail(outcome, f"Creation failed: {failure_text(failures)}.")
    topics.create(outcome.missing, 2 * outcome.response.heartbeat_interval_ms)


def add_detail(outcome: Outcome, detail: str) -> None:
    """Add a detail to the status of missing topics."""
    for status in outcome.response.status:
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"


def topology_problem(topology: Struct | None) -> str | None:
    """Return what is wrong with the names of a topology's topics, or None."""
    names: dict[str, None] = {}
    for each in () if topology is None else topology.subtopologies:
        names.update(dict.fromkeys(each.source_topics))
        names.update(dict.fromkeys(each.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in each.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in each.state_changelog_topics))
    internal = [name for name in names if is_internal(name)]
    if internal:
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    strange = [name for name in names if name_problem(name) is not None]
    return f"Topic names {','.join(strange)} are not valid topic names." if strange else None


def serves_streams_groups(groups: GroupCoordinator, metadata: MetadataCache) -> bool:
    """Whether this broker has streams groups: by its configuration and the cluster's features."""
    return "streams" in groups.settings.protocols and metadata.image.features.get(STREAMS_VERSION, 0) > 0
