"""StreamsGroupHeartbeat: the one request by which a member joins, stays, moves to its target, and leaves.

Each heartbeat takes the same steps: find the group and the member; update the member's fields; configure the topology
if topics have changed; bump the group's epoch if any of these has changed; compute the targets if the group's epoch is
ahead of them; move the member one step towards its target. Most heartbeats change nothing and write nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import field
from msgspec.structs import replace

from coordinator.clock import Now
from coordinator.group.assignors.java_order import string_rank
from coordinator.group.consumer.metadata_hash import metadata_hash
from coordinator.group.modern.caller import Caller
from coordinator.group.modern.checks import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVE_EPOCH
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupEffects, GroupShard
from coordinator.group.streams import checks
from coordinator.group.streams.configured import ConfiguredTopology, Status, configure
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.endpoints import all_endpoints
from coordinator.group.streams.group import VolatileState
from coordinator.group.streams.leave import leave
from coordinator.group.streams.member import Endpoint, StreamsMember
from coordinator.group.streams.membership import find_group, find_member
from coordinator.group.streams.reconcile import Reconciliation
from coordinator.group.streams.records import current_record, member_record, topology_record
from coordinator.group.streams.target import MemberTarget, assignment_configs, next_target
from coordinator.group.streams.tasks import Tasks, task_set
from coordinator.group.streams.topology import TopicInfo, Topology, topology_of
from protocol.error_codes import ErrorCode
from protocol.messages import streams_group_heartbeat as messages
from protocol.schema import Struct

new_response = messages.STREAMS_GROUP_HEARTBEAT.response.new
NOT_READY = -1
FIRST_VERSION_KNOWING_MISSING_TAGS = 1


class Outcome(msgspec.Struct, frozen=True):
    """The response, valid once the effects are in the log, and the internal topics that have to be created."""

    response: Struct
    missing: Mapping[str, TopicInfo] = field(default_factory=dict)


def heartbeat(
    shard: GroupShard, request: Struct, caller: Caller, now: Now, effects: GroupEffects, api_version: int = 0
) -> Outcome:
    """Decide a heartbeat.

    Raises Refused, without effects: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, GROUP_ID_NOT_FOUND (also for a group of
    another type), GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
    FENCED_INSTANCE_ID.
    """
    checks.check_request(request)
    if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVE_EPOCH):
        return Outcome(leave(shard, request, now, effects))
    is_joining = request.member_epoch == JOINING_EPOCH
    draft = find_group(shard, request.group_id, is_joining, now)
    group, member_id = draft.group, request.member_id
    if is_joining:
        checks.check_room(group, member_id, request.instance_id, shard.settings.streams.max_size)
    old = find_member(draft, request)
    checks.check_epoch(old, request)
    member = with_request(old, request, caller)
    topology = update_topology(draft, old, member, request)
    is_changed = member is not old and (request.instance_id is None or differs_for_targets(old, member))
    configured = update_configuration(draft, topology, request, is_changed=is_changed)
    configs = assignment_configs(shard, group.group_id)
    target = next_target(draft, member, configured, configs)
    member = reconcile(draft, member, target, request)
    if member_id not in group.members:
        effects.note("group %s: member %s joins, epoch %s", group.group_id, member_id, draft.epoch)
    draft.after.append(lambda _: draft.extend_session(member_id))
    response = answer(draft, old, member, request, configured)
    response.status = statuses(draft, member, topology, configured, target, request)
    if api_version >= FIRST_VERSION_KNOWING_MISSING_TAGS:
        response.status += missing_tags(member, shard.cluster.streams_config(group.group_id).rack_aware_tags)
    draft.carry_out(effects)
    return Outcome(response, configured.missing)


# -- changes ----------------------------------------------------------------------------------------------------------


def with_request(old: StreamsMember, request: Struct, caller: Caller) -> StreamsMember:
    """Return the member with the fields of its heartbeat.

    Fields that were not sent stay, except the endpoint of a member that joins; `old` itself if nothing changes.
    """
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    instance_id = old.instance_id if request.instance_id is None else request.instance_id
    if (
        timeout_ms == -1
        and endpoint is tags is request.rack_id is request.topology is request.process_id is None
        and old.instance_id == instance_id
        and old.client_id == caller.client_id
        and old.client_host == caller.client_host
    ):
        return old  # as in nearly all heartbeats
    kept_endpoint = None if request.member_epoch == JOINING_EPOCH else old.endpoint
    updated = replace(
        old,
        instance_id=instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=old.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=old.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=old.process_id if request.process_id is None else request.process_id,
        client_tags=old.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        endpoint=kept_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
    )
    return old if updated == old else updated


def differs_for_targets(old: StreamsMember, member: StreamsMember) -> bool:
    """Return whether a static member has changed in a way that the group's targets may depend on."""
    return (
        old.topology_epoch != member.topology_epoch
        or old.rack_id != member.rack_id
        or old.client_tags != member.client_tags
        or old.process_id != member.process_id
    )


def update_topology(draft: Draft, old: StreamsMember, member: StreamsMember, request: Struct) -> Topology:
    """Write the member if it has changed, and the topology of the first member; return the group's topology.

    Raises Refused: INVALID_REQUEST for a topology other than the group's.
    """
    group = draft.group
    if member is not old:
        draft.records.append(member_record(group.group_id, member))
    if request.topology is None:
        if group.topology is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        return group.topology
    updated = topology_of(request.topology)
    if group.topology is None:
        draft.records.append(topology_record(group.group_id, updated))
        return updated
    if group.topology.epoch <= updated.epoch and not group.topology.equals_ignoring_order(updated):
        raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return group.topology


def update_configuration(draft: Draft, topology: Topology, request: Struct, *, is_changed: bool) -> ConfiguredTopology:
    """Configure the topology if necessary, and bump the group's epoch if that or anything else has changed.

    Raises Refused: STREAMS_INVALID_TOPOLOGY, INVALID_REQUEST for tasks that do not exist.
    """
    group, cluster = draft.group, draft.shard.cluster
    configured, value, version = group.soft.configured, group.metadata_hash, cluster.topics_version
    if configured is None or group.topology is None or group.soft.checked_version != version:
        value = metadata_hash(cluster, topology.required_topics)
        if configured is None or group.topology is None or value != group.metadata_hash:
            configured = configure(topology, cluster)
        is_changed = is_changed or value != group.metadata_hash
        known = configured

        def remember(soft: VolatileState) -> None:
            soft.configured, soft.checked_version = known, version

        draft.remember(remember)
    validated = topology.epoch if configured.is_ready else NOT_READY
    if configured.is_ready:
        checks.check_tasks(request, configured.subtopologies or {})
    offsets = group.offsets_of(request.member_id)
    reported = offsets.updated(request)
    if reported is not offsets:
        group.soft.task_offsets[request.member_id] = reported  # at once: the next targets depend on them
    configs = assignment_configs(draft.shard, group.group_id)
    if is_changed or validated != group.validated_topology_epoch or configs != group.assignment_configs:
        draft.bump(value, validated, configs)
    return configured


def reconcile(draft: Draft, member: StreamsMember, target: MemberTarget, request: Struct) -> StreamsMember:
    """Return the member after its next step, and write it if it has changed."""
    if member.is_reconciled_to(target.epoch):
        return member
    step = Reconciliation(target.epoch, target.target, reported_tasks(request), draft.group).step(member)
    if step != member:
        draft.records.append(current_record(draft.group.group_id, step))
        draft.after.append(lambda _: draft.watch_revocation(step))
    return step


def reported_tasks(request: Struct) -> Tasks | None:
    """Return the tasks that the member reports; None if it reports none."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(
        *(
            task_set({each.subtopology_id: each.partitions for each in tasks})
            for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)
        )
    )


# -- the response -----------------------------------------------------------------------------------------------------


def answer(
    draft: Draft, old: StreamsMember, member: StreamsMember, request: Struct, configured: ConfiguredTopology
) -> Struct:
    """Return the response without its statuses. It has tasks for a member that joins or whose tasks have changed."""
    group, shard = draft.group, draft.shard
    config = shard.cluster.streams_config(group.group_id)
    response = new_response(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        acceptable_recovery_lag=config.acceptable_recovery_lag,
        task_offset_interval_ms=config.task_offset_interval_ms,
    )
    has_new_tasks = member.assigned != old.assigned
    if request.member_epoch == JOINING_EPOCH or has_new_tasks:
        response.active_tasks = task_ids(member.assigned.active)
        response.standby_tasks = task_ids(member.assigned.standby)
        response.warmup_tasks = task_ids(member.assigned.warmup)
    if member.endpoint != old.endpoint or (has_new_tasks and member.endpoint is not None):
        group.soft.endpoint_epoch += 1
    if group.soft.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = all_endpoints(draft, member, configured.subtopologies or {})
    if group.group_id in shard.groups:
        response.endpoint_information_epoch = group.soft.endpoint_epoch
    return response


def task_ids(tasks: Mapping[str, Mapping[int, int] | frozenset[int]]) -> list[Struct]:
    """Return tasks as the structs of a response."""
    return [
        messages.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks, key=string_rank)
    ]


def statuses(
    draft: Draft,
    member: StreamsMember,
    topology: Topology,
    configured: ConfiguredTopology,
    target: MemberTarget,
    request: Struct,
) -> list[Struct]:
    """Return the statuses of the group for the response."""
    group = draft.group
    updated = []
    if group.topology is not None and member.topology_epoch < topology.epoch:
        detail = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch"
            f" {topology.epoch}."
        )
        updated.append(status(Status.STALE_TOPOLOGY, detail))
    if target.delayed_by is not None:
        detail = f"Assignment delayed due to the configured {target.delayed_by}."
        updated.append(status(Status.ASSIGNMENT_DELAYED, detail))
    if configured.problem is not None:
        updated.append(status(configured.problem.status, configured.problem.detail))
    shutdown_by = group.soft.shutdown_by
    if shutdown_by is None and request.shutdown_application:
        shutdown_by = member.member_id
        draft.remember(lambda soft: request_shutdown(soft, member.member_id))
    if shutdown_by is not None:
        detail = (
            f"Streams group member {shutdown_by} encountered a fatal error and requested a shutdown for the entire"
            " application."
        )
        updated.append(status(Status.SHUTDOWN_APPLICATION, detail))
    return updated


def missing_tags(member: StreamsMember, tags: Sequence[str]) -> list[Struct]:
    """Return the status of a member that lacks tags by which standbys are distributed; [] if it has all."""
    missing = [tag for tag in tags if tag not in member.client_tags]
    if not missing:
        return []
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via"
        " 'client.tag.<tagKey>' in your Streams config."
    )
    return [status(Status.MISSING_CLIENT_TAGS, detail)]


def request_shutdown(soft: VolatileState, member_id: str) -> None:
    """Request the shutdown of all members of the application. The first member that requests it is named."""
    soft.shutdown_by = soft.shutdown_by or member_id


def status(code: Status, detail: str) -> Struct:
    return messages.Status(status_code=code, status_detail=detail)
