"""Two members of a classic group: their requests to the coordinator, and its answers."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.data import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.data.consumer_protocol import ConsumerProtocolAssignmentTopicPartition
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from protocol.schema import Message
from tools.data.decoders import offsets_decoder
from tools.wire.traces.client import Client, Exchange
from tools.wire.traces.fields import walk
from tools.wire.traces.files import dumped, segment
from tools.wire.traces.stage import TOPIC, Stage
from tools.wire.traces.steps import Step, rows_of

_GROUP = "shop"
_PROTOCOL = "range"
_PARTITIONS = 4
_VERSION = 1
_VERSION_BYTES = 2


def trace() -> Generator[Step, None, None]:
    """Yield the steps: one member joins, then another one, and the first leaves."""
    with Stage(_PARTITIONS) as stage:
        first, second = stage.client("first"), stage.client("second")
        found = first.ask(FIND_COORDINATOR, key_type=0, coordinator_keys=[_GROUP])
        yield from found.steps("first", "Which broker coordinates the group?")
        wanted = first.ask(JOIN_GROUP, expected=ErrorCode.MEMBER_ID_REQUIRED, **_join(""))
        yield from wanted.steps(
            "first", "It has no member id yet.", "MEMBER_ID_REQUIRED: the broker assigns one (KIP-394)."
        )
        one = wanted.answer.member_id
        joined = first.ask(JOIN_GROUP, **_join(one))
        yield _embedded("JoinGroup's metadata: the subscription", ConsumerProtocolSubscription, _subscription())
        yield from joined.steps(
            "first", answer_about="As the only member it leads generation 1 and gets the list of members."
        )
        yield from _synced(first, joined, one, _assignments([one]), "first")
        other = second.ask(JOIN_GROUP, expected=ErrorCode.MEMBER_ID_REQUIRED, **_join("")).answer.member_id
        waiting = second.send(JOIN_GROUP, **_join(other))
        beat = _until_rebalance(first, joined.answer.generation_id, one)
        yield from beat.steps(
            "first", "Meanwhile the second has sent JoinGroup, which waits.", "REBALANCE_IN_PROGRESS: join again."
        )
        again = first.ask(JOIN_GROUP, **_join(one))
        yield from again.steps("first", answer_about="All have joined: generation 2 begins.")
        yield from second.receive(waiting).steps(
            "second", answer_about="A follower gets the leader's id and no list of members."
        )
        generation = again.answer.generation_id
        shared = _assignments([one, other])
        # the follower's request is sent first, and waits for the leader's
        follower = second.send(SYNC_GROUP, **_sync(generation, other, {}))
        yield from _synced(first, again, one, shared, "first")
        yield from second.receive(follower).steps("second", answer_about="Its part of the leader's assignment.")
        for name, client, member in (("first", first, one), ("second", second, other)):
            beat = client.ask(HEARTBEAT, group_id=_GROUP, generation_id=generation, member_id=member)
            yield from beat.steps(name)
        leave = first.ask(LEAVE_GROUP, group_id=_GROUP, members=[MemberIdentity(member_id=one)])
        yield from leave.steps("first", "The next heartbeats of the others get REBALANCE_IN_PROGRESS.")
        log = segment(stage.partition("__consumer_offsets-0"))
        about = "GroupMetadata records, shown by pybroker dump-log --offsets-decoder: one for each stable generation."
        rows = tuple(dumped(log, offsets_decoder, records_only=True))
        yield Step("append", "append: the group in __consumer_offsets", about, rows)


def _join(member: str) -> dict[str, Any]:
    protocol = JoinGroupRequestProtocol(name=_PROTOCOL, metadata=_subscription())
    timeouts = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000}
    return {"group_id": _GROUP, "member_id": member, "protocol_type": "consumer", "protocols": [protocol], **timeouts}


def _sync(generation: int, member: str, assignments: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "group_id": _GROUP,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": _PROTOCOL,
        "assignments": [
            SyncGroupRequestAssignment(member_id=name, assignment=each) for name, each in assignments.items()
        ],
    }


def _synced(
    leader: Client, joined: Exchange, member: str, assignments: Mapping[str, bytes], who: str
) -> Iterator[Step]:
    exchange = leader.ask(SYNC_GROUP, **_sync(joined.answer.generation_id, member, assignments))
    for number, assignment in enumerate(assignments.values(), 1):
        title = f"SyncGroup's assignment {number} of {len(assignments)}"
        yield _embedded(title, ConsumerProtocolAssignment, assignment)
    yield from exchange.steps(who, "The leader assigned the partitions; the broker distributes the assignment.")


def _until_rebalance(client: Client, generation: int, member: str) -> Exchange:
    """Return the first heartbeat that is answered with a rebalance; earlier ones are not shown."""
    while True:
        beat = client.ask(
            HEARTBEAT,
            expected=ErrorCode.REBALANCE_IN_PROGRESS,
            group_id=_GROUP,
            generation_id=generation,
            member_id=member,
        )
        if beat.answer.error_code:
            return beat


def _subscription() -> bytes:
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + ConsumerProtocolSubscription.encode(
        _VERSION, ConsumerProtocolSubscription(topics=[TOPIC])
    )


def _assignments(members: Sequence[str]) -> dict[str, bytes]:
    """Assign partitions by ranges: an equal number for each member, in order."""
    share = _PARTITIONS // len(members)
    found = {}
    for number, member in enumerate(members):
        partitions = list(range(number * share, (number + 1) * share))
        topic = ConsumerProtocolAssignmentTopicPartition(topic=TOPIC, partitions=partitions)
        body = ConsumerProtocolAssignment.encode(_VERSION, ConsumerProtocolAssignment(assigned_partitions=[topic]))
        found[member] = _VERSION.to_bytes(_VERSION_BYTES, "big") + body
    return found


def _embedded(title: str, message: Message, data: bytes) -> Step:
    """Return a step with bytes that only members interpret: a version, then the message."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    rows = rows_of(walk(message, version, data, _VERSION_BYTES), data)
    return Step("embedded", title, f"{message.name} v{version}: data that members exchange.", rows)
