"""Group requests with absurd values: each gets Apache Kafka's error, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.messages.delete_groups import DELETE_GROUPS
from protocol.messages.describe_groups import DESCRIBE_GROUPS
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.join_group import JOIN_GROUP, JoinGroupRequestProtocol
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OFFSET_DELETE, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OFFSET_FETCH, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SYNC_GROUP, SyncGroupRequestAssignment
from tests.support.groups import subscription
from tests.support.pairs import Pair
from tests.support.settled import wait_for_coordinator

TOPIC = "orders"
LONGEST = "g" * 32_767
NAMES = {"empty": "", "longest": LONGEST, "odd": "gr\u00f6\u00dfe \u2603/:\n"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("groups"), {"offsets.topic.num.partitions": "1"})
    made.create_topics({TOPIC: 2})
    for broker in made.brokers:
        wait_for_coordinator(broker)
    yield made
    made.close()


def _join(group: str, **fields: Any) -> dict[str, Any]:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC))]
    return {
        "group_id": group,
        "member_id": "nobody",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": protocols,
        **fields,
    }


def _commit(group: str, metadata: str | None = "", **fields: Any) -> dict[str, Any]:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    return {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **fields}


def _requests(group: str) -> list[tuple[Any, int, dict[str, Any]]]:
    deleted = OffsetDeleteRequestTopic(name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    wanted = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    return [
        (JOIN_GROUP, 9, _join(group)),
        (JOIN_GROUP, 5, _join(group, group_instance_id="")),
        (SYNC_GROUP, 5, {"group_id": group, "generation_id": 1, "member_id": "nobody", "protocol_type": "consumer"}),
        (HEARTBEAT, 4, {"group_id": group, "generation_id": 1, "member_id": "nobody"}),
        (LEAVE_GROUP, 5, {"group_id": group, "members": [MemberIdentity(member_id="nobody")]}),
        (LEAVE_GROUP, 2, {"group_id": group, "member_id": "nobody"}),
        (DESCRIBE_GROUPS, 6, {"groups": [group]}),
        (DESCRIBE_GROUPS, 3, {"groups": [group, group]}),
        (OFFSET_FETCH, 9, {"groups": [OffsetFetchRequestGroup(group_id=group, topics=wanted)]}),
        (OFFSET_FETCH, 9, {"groups": [OffsetFetchRequestGroup(group_id=group, topics=None)]}),
        (OFFSET_DELETE, 0, {"group_id": group, "topics": [deleted]}),
        (DELETE_GROUPS, 2, {"groups_names": [group]}),
        (OFFSET_COMMIT, 9, _commit(group)),
        (OFFSET_COMMIT, 9, _commit(group, generation_id_or_member_epoch=7, member_id="nobody")),
        (OFFSET_COMMIT, 2, _commit(group)),
        (OFFSET_FETCH, 9, {"groups": [OffsetFetchRequestGroup(group_id=group, topics=wanted)]}),
        (DESCRIBE_GROUPS, 6, {"groups": [group]}),
        (DELETE_GROUPS, 2, {"groups_names": [group]}),
        (FIND_COORDINATOR, 3, {"key": group}),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_strange_group_ids(pair: Pair, name: str) -> None:
    """An empty id, one of the longest length, and characters that no topic may have; the same steps for each."""
    for api, version, fields in _requests(NAMES[name]):
        ours, kafka = pair.ask(api, version, **fields)
        if api is FIND_COORDINATOR:
            ours, kafka = ours.error_code, kafka.error_code
        assert ours == kafka, f"{api.name} v{version} {str(fields)[:200]}\n  ours:  {ours}\n  kafka: {kafka}"


@pytest.mark.parametrize(
    "fields",
    [
        {"session_timeout_ms": 5_999},
        {"session_timeout_ms": 1_800_001},
        {"session_timeout_ms": -1},
        {"session_timeout_ms": 2**31 - 1},
        {"rebalance_timeout_ms": -1},
        {"rebalance_timeout_ms": 2**31 - 1},
        {"rebalance_timeout_ms": 0},
        {"protocol_type": ""},
        {"protocols": []},
        {"protocols": [JoinGroupRequestProtocol(name="", metadata=b"")]},
        {"member_id": "m" * 32_767},
        {"member_id": "", "group_instance_id": "i" * 32_767},
        {"member_id": "", "group_instance_id": "bad instance!"},
        {"member_id": "", "group_instance_id": ""},
        {"member_id": "", "group_instance_id": "."},
    ],
    ids=lambda each: str(each)[:60],
)
def test_absurd_joins(pair: Pair, fields: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Time-outs out of bounds, illegal instance ids, unknown members."""
    group = f"absurd-{abs(hash(request.node.name)) % 10**8}"
    answers = pair.ask(JOIN_GROUP, 9, **_join(group, **fields))
    ours, kafka = (
        each
        if isinstance(each, str)
        else (each.error_code, each.generation_id, each.protocol_name, bool(each.member_id))
        for each in answers
    )
    assert ours == kafka


@pytest.mark.parametrize("size", [4096, 4097, 9_000])
def test_oversized_metadata_of_offsets(pair: Pair, size: int) -> None:
    """offset.metadata.max.bytes, counted as Java counts characters."""
    for character in ("x", "\u00fc", "\U0001f600"):
        text = character * (size // len(character.encode("utf-16-le")) * 2)
        pair.same(OFFSET_COMMIT, 9, **_commit(f"metadata-{size}", text))


def test_oversized_assignments(pair: Pair) -> None:
    """A generation that no batch can hold: its members get the error, and the group continues."""

    def run(broker: Any) -> list[Any]:
        client = pair.client(broker)
        joined = client.call(
            JOIN_GROUP, 3, **{k: v for k, v in _join("big", member_id="").items() if "instance" not in k}
        )
        found: list[Any] = [(joined.error_code, joined.generation_id)]
        for size in (2_000_000, 10):
            assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))]
            synced = client.call(
                SYNC_GROUP,
                4,
                group_id="big",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=assignments,
            )
            described = client.call(DESCRIBE_GROUPS, 5, groups=["big"]).groups[0]
            found.append((synced.error_code, len(synced.assignment), described.group_state))
        beat = client.call(HEARTBEAT, 3, group_id="big", generation_id=joined.generation_id, member_id=joined.member_id)
        return [*found, beat.error_code]

    ours, kafka = pair.each(run)
    assert ours == kafka
