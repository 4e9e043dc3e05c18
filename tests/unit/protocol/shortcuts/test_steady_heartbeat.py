"""The hand-written codec of ConsumerGroupHeartbeat equals the schema, and ignores requests with more fields."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.framing import encode_response
from protocol.headers import decode_request_header, encode_request_header
from protocol.messages.consumer_group_heartbeat import CONSUMER_GROUP_HEARTBEAT, TopicPartitions
from protocol.shortcuts.steady_heartbeat import SteadyHeartbeats

VERSIONS = (0, 1)
REQUEST, RESPONSE = CONSUMER_GROUP_HEARTBEAT.request, CONSUMER_GROUP_HEARTBEAT.response
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
text = st.text(st.characters(codec="utf-8"), max_size=140)


def frame(version: int, client_id: str | None = "client", **fields: Any) -> memoryview:
    body = REQUEST.encode(version, REQUEST(**{"group_id": "g", "member_id": "m", "member_epoch": 3, **fields}))
    return memoryview(encode_request_header(CONSUMER_GROUP_HEARTBEAT, version, 77, client_id) + body)


@given(st.sampled_from(VERSIONS), st.none() | text, text, text, INT32, st.none() | text)
def test_what_it_reads_is_what_the_schema_reads(
    version: int, client_id: str | None, group: str, member: str, epoch: int, instance: str | None
) -> None:
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": instance}
    steady = SteadyHeartbeats(version).read(frame(version, client_id, **fields))
    assert steady is not None
    assert {name: getattr(steady, name) for name in fields} == fields
    assert steady.client_id == (client_id or "")


@given(st.sampled_from(VERSIONS), text, INT32, INT32, INT32)
def test_what_it_answers_is_what_the_schema_answers(
    version: int, member: str, epoch: int, interval_ms: int, correlation_id: int
) -> None:
    steady = SteadyHeartbeats(version).read(frame(version, member_id=member, member_epoch=epoch))
    assert steady is not None
    response = RESPONSE(member_id=member, member_epoch=epoch, heartbeat_interval_ms=interval_ms)
    expected = encode_response(CONSUMER_GROUP_HEARTBEAT, version, correlation_id, response)
    assert [steady.answer(correlation_id, interval_ms)] == expected


@pytest.mark.parametrize(
    "more",
    [
        {"rack_id": "r"},
        {"rack_id": ""},
        {"rebalance_timeout_ms": 5},
        {"subscribed_topic_names": []},
        {"server_assignor": "uniform"},
        {"topic_partitions": []},
        {"topic_partitions": [TopicPartitions(topic_id=b"i" * 16, partitions=[1])]},
        {"subscribed_topic_regex": "t.*"},
    ],
)
def test_requests_that_say_more_are_left_alone(more: dict[str, Any]) -> None:
    for version in (1,) if "subscribed_topic_regex" in more else VERSIONS:
        assert SteadyHeartbeats(version).read(frame(version, **more)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_that_are_cut_are_left_alone(version: int) -> None:
    whole = frame(version)
    for size in range(8, len(whole)):
        assert SteadyHeartbeats(version).read(whole[:size]) is None


@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_any_bytes_that_it_reads_the_schema_reads_alike(version: int, noise: bytes) -> None:
    data = bytearray(frame(version, instance_id="instance"))
    for place, value in zip(noise[::2], noise[1::2], strict=False):
        data[8 + place % (len(data) - 8)] = value
    steady = SteadyHeartbeats(version).read(memoryview(data))
    if steady is not None:
        header = decode_request_header(data)
        request, _ = REQUEST.decode(version, bytes(data), header.position)
        names = ("group_id", "member_id", "member_epoch", "instance_id")
        assert request == REQUEST(**{name: getattr(steady, name) for name in names})
        assert steady.client_id == (header.client_id or "")


def test_a_request_is_read_once_where_it_was_learned() -> None:
    heads = SteadyHeartbeats(0)
    first, second = heads.read(frame(0)), heads.read(frame(0))
    assert first is not None
    assert second is not None
    assert first is not second
    heads.learn(second)
    assert heads.read(frame(0)) is second
    assert heads.read(frame(0, "another")) is not second
