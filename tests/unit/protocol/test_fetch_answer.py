"""Fetch's answer by hand is the schema's, byte by byte."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.fetch_answer import (
    Aborted,
    Epoch,
    FetchAnswer,
    FetchedData,
    FetchedTopic,
    Node,
    as_struct,
    fetch_encoder,
)
from protocol.framing import encode_response
from protocol.messages.fetch import FETCH
from protocol.schema import Chunk
from tests.support.scale import scaled

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DATA = st.builds(
    FetchedData,
    st.integers(0, 1 << 30),
    st.integers(-1, 130),
    INT64,
    INT64,
    INT64,
    st.binary(max_size=200),
    st.none() | st.lists(st.builds(Aborted, INT64, INT64), max_size=3),
)
TOPIC_IDS = st.binary(min_size=16, max_size=16)
TOPICS = st.lists(
    st.builds(FetchedTopic, st.text(max_size=150), TOPIC_IDS, st.lists(DATA, max_size=4)), max_size=3
) | st.builds(lambda topic_id, data: [FetchedTopic("t", topic_id, [data])], TOPIC_IDS, DATA)


def joined(chunks: list[Chunk]) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(4, 19))
@settings(max_examples=scaled(25), deadline=None)
@given(
    topics=TOPICS,
    correlation_id=st.integers(-(1 << 31), (1 << 31) - 1),
    error_code=st.integers(-1, 130),
    session_id=st.integers(0, 1 << 30),
)
def test_by_hand_is_by_schema(
    version: int, topics: list[FetchedTopic], correlation_id: int, error_code: int, session_id: int
) -> None:
    answer = FetchAnswer(error_code, session_id if version >= 7 else 0, topics)
    expected = joined(encode_response(FETCH, version, correlation_id, as_struct(answer)))
    encode = fetch_encoder(version)

    assert joined(encode(correlation_id, answer)) == expected
    assert joined(encode(correlation_id, as_struct(answer))) == expected


@dataclass
class Slice:
    """Stands for a piece of a file."""

    size: int

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_stand_among_the_pieces_as_they_are(version: int) -> None:
    """A slice of a file is never read here."""
    first, second = Slice(300), Slice(5)
    data = [FetchedData(0, records=first), FetchedData(1), FetchedData(2, records=second)]
    chunks = fetch_encoder(version)(7, FetchAnswer(0, 0, [FetchedTopic("t", bytes(16), data)]))

    assert chunks[1] is first
    assert chunks[3] is second
    assert int.from_bytes(bytes(chunks[0][:4]), "big") == sum(map(len, chunks)) - 4  # type: ignore[index]
    single = fetch_encoder(version)(7, FetchAnswer(0, 0, [FetchedTopic("t", bytes(16), data[:1])]))
    assert single[1] is first


def test_what_is_rare_is_told_by_the_schema() -> None:
    """Diverging epochs, leaders, and where those are."""
    data = FetchedData(3)
    data.diverging_epoch = Epoch(4, 99)
    data.current_leader = Epoch(6, 1)
    answer = FetchAnswer(0, 5, [FetchedTopic("t", bytes(16), [data])], False, [Node(1, "h", 9092, None)])
    response, _ = FETCH.response.decode(17, joined(fetch_encoder(17)(7, answer))[9:])

    [partition] = response.responses[0].partitions
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (4, 99)
    assert (partition.current_leader.leader_epoch, partition.current_leader.leader_id) == (6, 1)
    assert (response.node_endpoints[0].host, response.node_endpoints[0].port) == ("h", 9092)
