"""The quick answer to a heartbeat: it is given only if nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.coordinators.group.coordinator import OFFSETS_TOPIC
from broker.handlers import consumer_group_heartbeat as handler
from coordinator.group.shard import TimerKey
from metadata.features import GROUP_VERSION
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT
from protocol.schema import Struct
from tests.support.offered import handler_of
from tests.support.txn_broker import TxnBroker

VERSIONS = (0, 1)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TxnBroker]:
    broker = TxnBroker(tmp_path)
    broker.create("t", partitions=2)
    broker.topics.ensure(OFFSETS_TOPIC)
    broker.settle()
    yield broker
    broker.close()


def join(broker: TxnBroker, member_id: str = "m", instance_id: str | None = None) -> dict[str, Any]:
    """Join a group; return the fields of the member's later heartbeats."""
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "instance_id": instance_id}
    news: dict[str, Any] = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    answer = broker.call(CONSUMER_GROUP_HEARTBEAT, 1, **fields, **news, member_epoch=0)
    assert answer.error_code == ErrorCode.NONE
    return {**fields, "member_epoch": answer.member_epoch}


def unchanged(
    broker: TxnBroker, version: int, *, client_id: str = "client", host: str = "127.0.0.1", **fields: Any
) -> Struct | None:
    """Return the quick answer, or None if the heartbeat needs a decision."""
    found: list[Struct] = []
    stay = handler.answer_if_unchanged

    def noted(*args: Any) -> Struct | None:
        answer = stay(*args)
        if answer is not None:
            found.append(answer)
        return answer

    context = broker.context(CONSUMER_GROUP_HEARTBEAT, version, client_id)
    context.connection.client_host = host
    request = CONSUMER_GROUP_HEARTBEAT.request(**fields)
    with patch.object(handler, "answer_if_unchanged", noted), patch.object(handler, "serve", lambda *_: None):
        handler_of(broker, CONSUMER_GROUP_HEARTBEAT)(context, request)
    return found[0] if found else None


def session_ends_ms(broker: TxnBroker) -> float:
    deadline_ms = broker.groups.timers.deadline_ms(TimerKey("session", "g", "m"))
    assert deadline_ms is not None
    return deadline_ms


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("instance_id", [None, "i"])
def test_unchanged_heartbeat_equals_that_of_the_handler(
    broker: TxnBroker, version: int, instance_id: str | None
) -> None:
    """The session is extended."""
    who = join(broker, instance_id=instance_id)
    ends = []
    answers = []
    for way in (unchanged, broker_call):
        broker.advance(1_000)
        answers.append(way(broker, version, **who))
        ends.append(session_ends_ms(broker))
    assert answers[0] is not None
    assert answers[0] == answers[1]
    assert ends[1] == ends[0] + 1_000


def broker_call(broker: TxnBroker, version: int, **fields: Any) -> Struct:
    return broker.call(CONSUMER_GROUP_HEARTBEAT, version, **fields)


@pytest.mark.parametrize(
    "other",
    [
        {"member_epoch": 0},
        {"member_epoch": -1},
        {"member_epoch": 7},
        {"member_id": "other"},
        {"group_id": "other"},
        {"group_id": ""},
        {"instance_id": "i"},
        {"topic_partitions": []},
        {"client_id": "another"},
        {"host": "127.0.0.2"},
    ],
)
def test_other_members_or_fields_need_a_decision(broker: TxnBroker, other: dict[str, Any]) -> None:
    who = join(broker)
    before = session_ends_ms(broker)
    broker.advance(1_000)
    assert unchanged(broker, 1, **{**who, **other}) is None
    assert session_ends_ms(broker) == before


def leave_no_protocol(broker: TxnBroker) -> None:
    broker.controller.image.features[GROUP_VERSION] = 0


@pytest.mark.parametrize(
    "change",
    [
        lambda broker: join(broker, "another"),
        lambda broker: broker.create("u"),
        lambda broker: broker.groups.stop(),
        leave_no_protocol,
    ],
    ids=["member", "topic", "stop", "feature"],
)
def test_changed_groups_need_a_decision(broker: TxnBroker, change: Callable[[TxnBroker], object]) -> None:
    who = join(broker)
    assert unchanged(broker, 1, **who) is not None
    change(broker)
    assert unchanged(broker, 1, **who) is None


def test_interval_follows_the_configuration(broker: TxnBroker) -> None:
    who = join(broker)
    first = unchanged(broker, 1, **who)
    broker.controller.alter_config(ResourceType.GROUP, "g", {"consumer.heartbeat.interval.ms": "6000"})
    broker.settle()
    second = unchanged(broker, 1, **who)
    assert first is not None
    assert second is not None
    assert (first.heartbeat_interval_ms, second.heartbeat_interval_ms) == (5_000, 6_000)
