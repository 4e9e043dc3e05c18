"""The plan file of load generators: positions of numbers in messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.comparison.plan import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    Plan,
    consumer,
    fetch,
    place,
    producer,
    waiting_consumer,
)
from protocol.headers import encode_response_header
from protocol.messages.fetch import FETCH, AbortedTransaction, FetchableTopicResponse, PartitionData
from protocol.messages.produce import PRODUCE, PartitionProduceResponse, TopicProduceResponse


def produce_answer(topic: str, index: int, error_code: int) -> bytes:
    partition = PartitionProduceResponse(index=index, error_code=error_code, base_offset=77)
    responses = [TopicProduceResponse(name=topic, partition_responses=[partition])]
    body = PRODUCE.response.encode(PRODUCE_VERSION, PRODUCE.response(responses=responses))
    return encode_response_header(PRODUCE, PRODUCE_VERSION, 5) + body


def fetch_answer(topic: str, error_code: int, records: bytes, aborted: list[AbortedTransaction] | None) -> bytes:
    partition = PartitionData(
        partition_index=3, error_code=error_code, high_watermark=9, aborted_transactions=aborted, records=records
    )
    response = FETCH.response(responses=[FetchableTopicResponse(topic=topic, partitions=[partition])])
    return encode_response_header(FETCH, FETCH_VERSION, 5) + FETCH.response.encode(FETCH_VERSION, response)


def test_a_position_is_where_two_values_differ() -> None:
    assert place(lambda value: b"head" + value.to_bytes(4, "big", signed=True) + b"tail", 4) == 4


def test_a_number_that_changes_other_bytes_is_rejected() -> None:
    """For example if a checksum changes with it."""
    with pytest.raises(AssertionError, match="not contiguous"):
        place(lambda value: value.to_bytes(4, "big", signed=True) + b"-" + bytes([value & 1]), 4)


def test_a_producers_error_is_found_in_the_response() -> None:
    [at] = producer("g", "a-topic", 2, b"records").errors_at

    assert produce_answer("a-topic", 2, 87)[at : at + 2] == b"\0\x57"
    assert produce_answer("a-topic", 2, 0)[at : at + 2] == b"\0\0"


@pytest.mark.parametrize("aborted", [None, []], ids=["null", "empty"])
def test_a_consumers_error_and_size_are_in_the_response(aborted: list[AbortedTransaction] | None) -> None:
    """Whether the broker sends an empty list of aborted transactions or null."""
    client = consumer("g", "a-topic", 3, 1000, batch=b"123456", records=2)
    assert client.fetching is not None
    answer = fetch_answer("a-topic", 3, b"x" * 258, aborted)

    at = client.fetching.records_at
    assert answer[at : at + 4] == (258).to_bytes(4, "big")
    assert [answer[at : at + 2] for at in client.errors_at] == [b"\0\0", b"\0\3"]
    assert (client.fetching.batch_bytes, client.fetching.batch_records) == (6, 2)


def test_a_consumers_offset_is_found_in_its_request() -> None:
    client = consumer("g", "a-topic", 3, 1000, batch=b"123456", records=2, max_wait_ms=500)
    assert client.fetching is not None
    assert isinstance(client.frame, bytes)
    at = client.fetching.offset_at

    assert client.frame[:at] + (1234).to_bytes(8, "big") + client.frame[at + 8 :] == fetch(
        "a-topic", [3], 1000, 500, 1234
    )
    assert client.fetching.follows


def test_a_plan_names_each_frame_once(tmp_path: Path) -> None:
    small = producer("small", "t", 0, b"records")
    clients = [replace(small, in_flight=2), replace(small, per_second=5), waiting_consumer("polls", "t", [0, 1], 500)]

    plan = json.loads(Plan("127.0.0.1:9092", 1.5, clients).write(tmp_path).read_text())

    assert (plan["address"], plan["seconds"]) == ("127.0.0.1:9092", 1.5)
    one, same, other = plan["clients"]
    assert one["frame"] == same["frame"] != other["frame"]
    assert Path(one["frame"]).read_bytes() == small.frame
    assert (one["in_flight"], same["per_second"], other["fetching"]) == (2, 5, None)
