"""Random histories of a classic group on two brokers at the same time, compared answer by answer.

The test drives members by hand, each on a connection of its own (a *slot*); requests may park. After each step both
brokers must have given the same slots the same answers. A script ends early if Apache Kafka chooses by a hash table
(the next leader after the leader of several members left), or leaves a client without an answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.leave_group import LEAVE_GROUP
from protocol.messages.offset_commit import OFFSET_COMMIT
from protocol.messages.offset_delete import OFFSET_DELETE
from protocol.messages.offset_fetch import (
    OFFSET_FETCH,
)
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Api, Struct
from tests.support.brokers import RunningBroker
from tests.support.group_side import ADMIN, NOBODY, SLOTS, Side, Slot, Step
from tests.support.groups import subscription

QUIET_S = 0.04
LATE_S = 10.0
PARKING = (JOIN_GROUP, SYNC_GROUP)
INSTANCES = ("red", "blue")


class Difference(Exception):
    """The first difference of the brokers: the steps so far, and both answers to the last."""

    def __init__(self, steps: Sequence[str], ours: object, kafka: object) -> None:
        listed = "\n".join(f"    {step}" for step in steps)
        super().__init__(f"\n{listed}\n  ours:  {ours}\n  kafka: {kafka}")


class History:
    """One running script: each step depends on the answers before."""

    def __init__(self, ours: Side, kafka: Side, seed: int) -> None:
        self._sides = ours, kafka
        self._dice = random.Random(seed)
        self._slots = [Slot() for _ in range(SLOTS + 1)]
        self._said: list[str] = []
        self._is_open = True

    def run(self, steps: int) -> int:
        """Take at most so many steps; return their number. Raises Difference."""
        for number in range(steps):
            if not self._is_open:
                return number
            step = self._next()
            self._said.append(str(step))
            if step.api is HANG_UP:
                for side in self._sides:
                    side.hang_up(step.slot)
                self._slots[step.slot].parked = False
                time.sleep(QUIET_S)
                continue
            for side in self._sides:
                side.send(step)
            self._slots[step.slot].parked = True
            self._compare()
        return steps

    # -- answers -----------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Wait until both brokers are quiet and have answered the same slots."""
        found: tuple[dict[int, Struct], dict[int, Struct]] = {}, {}
        deadline = time.monotonic() + LATE_S
        patience = time.monotonic() + LATE_S / 5
        while True:
            got = False
            for side, answers in zip(self._sides, found, strict=True):
                more = side.receive(QUIET_S / 2)
                answers.update(more)
                got = got or bool(more)
            parks = all(api in PARKING for side in self._sides for api, _ in side.expected.values())
            if not got and parks and found[0].keys() == found[1].keys() and self._is_parked_alike():
                break
            if time.monotonic() > patience and found[0].keys() > found[1].keys() and self._is_only_told_here(found):
                self._is_open = False
                return
            if time.monotonic() > deadline:
                raise Difference(tuple(self._said), *({slot: repr(a) for slot, a in each.items()} for each in found))
        for slot in sorted(found[0]):
            for side, answers in zip(self._sides, found, strict=True):
                side.name_ids(slot, answers[slot], self._slots[slot])
        if self._leaders_differ(found):
            self._is_open = False
            return
        for slot in sorted(found[0]):
            ours, kafka = (side.told(answers[slot]) for side, answers in zip(self._sides, found, strict=True))
            if ours != kafka:
                raise Difference(tuple(self._said), ours, kafka)
            self._learn(slot, found[0][slot])

    def _is_parked_alike(self) -> bool:
        """Return whether both groups look the same: an unanswered request may wait, or may still be on its way."""
        if not any(side.expected for side in self._sides):
            return True
        ours, kafka = (side.told(side.describe()) for side in self._sides)
        return ours == kafka

    def _is_only_told_here(self, found: tuple[dict[int, Struct], dict[int, Struct]]) -> bool:
        """Return whether only our broker answers: a member that waits for an assignment gets an error here if another
        client removes it, and never from Apache Kafka.
        """
        return all(
            found[0][slot].struct_type is SYNC_GROUP.response
            and found[0][slot].error_code == ErrorCode.UNKNOWN_MEMBER_ID
            for slot in found[0].keys() - found[1].keys()
        )

    def _leaders_differ(self, found: tuple[dict[int, Struct], dict[int, Struct]]) -> bool:
        for slot in found[0]:
            if found[0][slot].struct_type is JOIN_GROUP.response:
                leaders = {
                    side.names.get(answers[slot].leader, answers[slot].leader)
                    for side, answers in zip(self._sides, found, strict=True)
                }
                if len(leaders) > 1:
                    return True
        return False

    def _learn(self, slot: int, answer: Struct) -> None:
        me, side = self._slots[slot], self._sides[0]
        me.parked = False
        if answer.struct_type is JOIN_GROUP.response:
            name = side.names.get(answer.member_id, "")
            if name and name not in me.known:
                me.known.append(name)
            if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                me.member = name
            if answer.error_code == ErrorCode.NONE:
                me.generation, me.protocol = answer.generation_id, answer.protocol_name
                me.is_leader = answer.leader == answer.member_id
                me.needs_sync = True
        elif answer.struct_type is SYNC_GROUP.response:
            me.needs_sync = False

    # -- steps -------------------------------------------------------------------------------------------------------

    def _next(self) -> Step:
        dice = self._dice
        free = [index for index in range(SLOTS) if not self._slots[index].parked]
        parked = [index for index in range(SLOTS) if self._slots[index].parked]
        if parked and dice.random() < 0.04:
            slot = dice.choice(parked)
            return Step(slot, HANG_UP, 0, "hangs up", lambda side: {})
        if not free or dice.random() < 0.3:
            return dice.choice(
                (self._describe, self._fetch, self._commit_from_outside, self._delete_offsets, self._delete)
            )()
        slot = dice.choice(free)
        me = self._slots[slot]
        if me.needs_sync and dice.random() < 0.6:
            return self._sync(slot)
        makers = {
            self._join: 45,
            self._sync: 8,
            self._heartbeat: 14,
            self._leave: 8,
            self._commit: 16,
        }
        return dice.choices(list(makers), list(makers.values()))[0](slot)

    def _member(self, slot: int) -> str:
        """Return the slot's own id, mostly."""
        me, dice = self._slots[slot], self._dice
        if dice.random() < 0.9:
            return me.member
        others = [name for each in self._slots for name in each.known]
        return dice.choice(("", NOBODY, *others))

    def _generation(self, slot: int) -> int:
        generation = self._slots[slot].generation
        return generation if self._dice.random() < 0.9 else self._dice.choice((-1, 0, generation - 1, generation + 1))

    def _instance(self, slot: int) -> str | None:
        return self._slots[slot].instance if self._dice.random() < 0.93 else self._dice.choice((None, *INSTANCES))

    def _join(self, slot: int) -> Step:
        me, dice = self._slots[slot], self._dice
        version = dice.choice((0, 1, 3, 4, 5, 6, 7, 8, 9, 9, 9))
        if not me.member and not me.known:
            me.instance = dice.choice((None, None, None, *INSTANCES))
        member = self._member(slot) if dice.random() < 0.85 else ""
        instance = self._instance(slot) if version >= 5 else None
        kind = "consumer" if dice.random() < 0.96 else dice.choice(("", "connect"))
        names = dice.choice(
            (("range",), ("range",), ("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ())
        )
        if len(names) < 2 and dice.random() < 0.7:
            names = ("range",)
        own_topic = dice.random() < 0.8
        session_ms = 30_000 if dice.random() < 0.97 else dice.choice((0, -1, 1, 1 << 30))

        def build(side: Side) -> dict[str, Any]:
            data = subscription(side.topic if own_topic else "another")
            return {
                "group_id": side.group_id,
                "member_id": side.ids[member],
                "session_timeout_ms": session_ms,
                "rebalance_timeout_ms": 60_000,
                "group_instance_id": instance,
                "protocol_type": kind,
                "protocols": [{"name": name, "metadata": data} for name in names],
            }

        said = f"as {member or 'newcomer'!r} {instance or ''} {kind} {names} topic={own_topic} session={session_ms}"
        return Step(slot, JOIN_GROUP, version, said, build)

    def _sync(self, slot: int) -> Step:
        me, dice = self._slots[slot], self._dice
        version = dice.choice((0, 2, 3, 4, 5, 5))
        member, generation, instance = self._member(slot), self._generation(slot), self._instance(slot)
        kind = "consumer" if dice.random() < 0.96 else dice.choice((None, "connect"))
        name = me.protocol if dice.random() < 0.96 else dice.choice((None, "other"))
        gives = me.is_leader if dice.random() < 0.95 else not me.is_leader
        members = [each.member for each in self._slots if each.member and dice.random() < 0.95] if gives else []

        def build(side: Side) -> dict[str, Any]:
            return {
                **_member_fields(side, member, generation, instance),
                "protocol_type": kind,
                "protocol_name": name,
                "assignments": [{"member_id": side.ids[each], "assignment": each.encode()} for each in members],
            }

        said = f"as {member!r} {instance or ''} generation {generation} {kind} {name} gives {members}"
        return Step(slot, SYNC_GROUP, version, said, build)

    def _heartbeat(self, slot: int) -> Step:
        version = self._dice.choice((0, 2, 3, 4))
        member, generation, instance = self._member(slot), self._generation(slot), self._instance(slot)

        def build(side: Side) -> dict[str, Any]:
            return _member_fields(side, member, generation, instance)

        return Step(slot, HEARTBEAT, version, f"as {member!r} {instance or ''} generation {generation}", build)

    def _leave(self, slot: int) -> Step:
        dice = self._dice
        version = dice.choice((0, 2, 3, 4, 5))
        members = [(self._member(slot), self._instance(slot))]
        if version >= 3 and dice.random() < 0.3:
            members.append((self._member(dice.randrange(SLOTS)), dice.choice((None, *INSTANCES))))

        def build(side: Side) -> dict[str, Any]:
            given = [{"member_id": side.ids[name], "group_instance_id": instance} for name, instance in members]
            return {"group_id": side.group_id, "member_id": given[0]["member_id"], "members": given}

        return Step(slot, LEAVE_GROUP, version, f"of {members}", build)

    # -- offsets and groups ------------------------------------------------------------------------------------------

    def _commit(self, slot: int) -> Step:
        return self._offsets(slot, self._member(slot), self._generation(slot), self._instance(slot))

    def _commit_from_outside(self) -> Step:
        return self._offsets(ADMIN, "", self._dice.choice((-1, -1, -1, 0)), None)

    def _offsets(self, slot: int, member: str, generation: int, instance: str | None) -> Step:
        dice = self._dice
        version = dice.choice((2, 4, 5, 6, 7, 8, 9, 10))
        # Such a commit to a missing group leaves an invisible group in Kafka.
        notes = ("", "note", None, *(("x" * 4097,) if generation >= 0 else ()))
        partitions = [
            (dice.choice((0, 1, 1, 2, -1)), dice.choice((0, 5, 1 << 40, -1)), dice.choice(notes))
            for _ in range(dice.choice((1, 1, 2)))
        ]
        name = dice.choice(("own", "own", "own", "unheard"))
        retention_ms = dice.choice((-1, 1 << 40))

        def build(side: Side) -> dict[str, Any]:
            listed = [
                {"partition_index": index, "committed_offset": offset, "committed_metadata": metadata}
                for index, offset, metadata in partitions
            ]
            return {
                "group_id": side.group_id,
                "generation_id_or_member_epoch": generation,
                "member_id": side.ids[member],
                "group_instance_id": instance,
                "retention_time_ms": retention_ms,
                "topics": [{**_topic(side, name), "partitions": listed}],
            }

        said = f"as {member!r} {instance or ''} generation {generation} {name} {str(partitions)[:80]}"
        return Step(slot, OFFSET_COMMIT, version, said, build)

    def _fetch(self) -> Step:
        dice = self._dice
        version = dice.choice((1, 2, 5, 6, 7, 8, 9, 10))
        everything = version >= 2 and dice.random() < 0.4
        indexes = dice.choice(([0, 1], [0], [0, 1, 7, -1], []))
        names = dice.choice((["own"], ["own", "unheard"], ["unheard"]))
        others = dice.random() < 0.4

        def build(side: Side) -> dict[str, Any]:
            wanted = [{**_topic(side, each), "partition_indexes": indexes} for each in names]
            named = [{"name": each["name"], "partition_indexes": indexes} for each in wanted]
            groups = [side.group_id, *(("unheard", side.group_id, "") if others else ())]
            return {
                "group_id": side.group_id,
                "topics": None if everything else named,
                "groups": [{"group_id": each, "topics": None if everything else wanted} for each in groups],
                "require_stable": True,
            }

        return Step(ADMIN, OFFSET_FETCH, version, f"{'all' if everything else (names, indexes)} {others}", build)

    def _delete_offsets(self) -> Step:
        indexes = self._dice.choice(([0], [0, 1], [9], []))
        name = self._dice.choice(("own", "own", "unheard"))

        def build(side: Side) -> dict[str, Any]:
            partitions = [{"partition_index": index} for index in indexes]
            topic = side.topic if name == "own" else name
            return {"group_id": side.group_id, "topics": [{"name": topic, "partitions": partitions}]}

        return Step(ADMIN, OFFSET_DELETE, 0, f"{name} {indexes}", build)

    def _describe(self) -> Step:
        version = self._dice.choice((0, 3, 4, 5, 6))

        def build(side: Side) -> dict[str, Any]:
            return {"groups": [side.group_id, "unheard-of"], "include_authorized_operations": True}

        return Step(ADMIN, DESCRIBE_GROUPS, version, "", build)

    def _delete(self) -> Step:
        if self._dice.random() < 0.7:
            return self._describe()
        version = self._dice.choice((0, 1, 2))
        twice = self._dice.random() < 0.3

        def build(side: Side) -> dict[str, Any]:
            return {"groups_names": [side.group_id, *([side.group_id] if twice else ())]}

        return Step(ADMIN, DELETE_GROUPS, version, f"{'twice' if twice else ''}", build)


def _member_fields(side: Side, member: str, generation: int, instance: str | None) -> dict[str, Any]:
    return {
        "group_id": side.group_id,
        "generation_id": generation,
        "member_id": side.ids[member],
        "group_instance_id": instance,
    }


def _topic(side: Side, name: str) -> dict[str, Any]:
    """Return the fields that name the script's topic ("own") or a missing one."""
    if name == "own":
        return {"name": side.topic, "topic_id": side.topic_id}
    return {"name": name, "topic_id": b"?" * 16}


#: not an API: the client disconnects
HANG_UP = Api(key=-1, name="HangUp", versions="0", flexible="none", request=[], response=[])


def play(brokers: Sequence[RunningBroker], name: str, seed: int, steps: int) -> int:
    """Play the script of a seed; return the number of its steps. Raises Difference."""
    sides = [Side(broker, name, f"{name}-topic") for broker in brokers]
    try:
        for side in sides:
            side.prepare()
        return History(sides[0], sides[1], seed).run(steps)
    finally:
        for side in sides:
            side.close()
