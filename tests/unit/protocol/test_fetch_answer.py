"""Hand-written Fetch response frames equal the schema's, byte for byte."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.fast_path.fetch_answer import PlainRow, answer_plain
from protocol.fetch_answer import (
    Aborted,
    Epoch,
    FetchAnswer,
    FetchedData,
    FetchedTopic,
    Node,
    fetch_encoder,
)
from protocol.framing import encode_response
from protocol.messages.fetch import FETCH
from protocol.schema import Chunk
from tests.support.fetch_answers import as_struct
from tests.support.scale import scaled

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBER = st.integers(0, (1 << 31) - 1)
RECORDS = st.binary(max_size=200) | st.sampled_from([126, 127, 128, 16_382, 16_383]).map(bytes)
TOPIC_IDS = st.binary(min_size=16, max_size=16)


@st.composite
def fetched(draw: st.DrawFn) -> FetchedData:
    """Return the response for a partition, with the rare epochs."""
    data = FetchedData(
        draw(st.integers(0, 1 << 30)),
        draw(st.integers(-1, 130)),
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(RECORDS),
        draw(st.none() | st.lists(st.builds(Aborted, INT64, INT64), max_size=3)),
    )
    data.diverging_epoch = draw(st.none() | st.builds(Epoch, NUMBER, st.integers(0, (1 << 63) - 1)))
    data.current_leader = draw(st.none() | st.builds(Epoch, NUMBER, NUMBER))
    return data


TOPICS = st.lists(
    st.builds(FetchedTopic, st.text(max_size=150), TOPIC_IDS, st.lists(fetched(), max_size=4)), max_size=3
) | st.builds(lambda topic_id, data: [FetchedTopic("t", topic_id, [data])], TOPIC_IDS, fetched())
NODES = st.lists(st.builds(Node, INT32, st.text(max_size=20), INT32, st.none() | st.text(max_size=9)), max_size=3)


def joined(chunks: bytes | list[Chunk]) -> bytes:
    if isinstance(chunks, bytes):
        return chunks
    return b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(19))
@settings(max_examples=scaled(25), deadline=None)
@given(
    topics=TOPICS, correlation_id=INT32, error_code=st.integers(-1, 130), session_id=NUMBER, nodes=NODES, wait=NUMBER
)
def test_hand_written_response_equals_the_schema(
    version: int,
    topics: list[FetchedTopic],
    correlation_id: int,
    error_code: int,
    session_id: int,
    nodes: list[Node],
    wait: int,
) -> None:
    """With all fields of a response; epochs and nodes in the versions that have them."""
    for topic in topics:
        for each in topic.partitions:
            if version < 12:
                each.diverging_epoch = each.current_leader = None
    answer = FetchAnswer(
        error_code, session_id if version >= 7 else 0, topics, nodes if version >= 16 else (), wait if version else 0
    )
    expected = joined(encode_response(FETCH, version, correlation_id, as_struct(answer)))
    encode = fetch_encoder(version)

    assert joined(encode(correlation_id, answer)) == expected
    assert joined(encode(correlation_id, as_struct(answer))) == expected


@settings(max_examples=scaled(60), deadline=None)
@given(
    version=st.sampled_from(range(13, 19)),
    topics=st.lists(
        st.tuples(TOPIC_IDS, st.lists(st.tuples(st.integers(0, 1 << 30), INT64, INT64, INT64, RECORDS), max_size=4)),
        max_size=3,
    ),
    correlation_id=INT32,
    session_id=NUMBER,
    in_memory=st.booleans(),
)
def test_plain_response_equals_the_schema(
    version: int,
    topics: list[tuple[bytes, list[tuple[int, int, int, int, bytes]]]],
    correlation_id: int,
    session_id: int,
    in_memory: bool,
) -> None:
    """A topic without partitions is omitted."""
    rows: list[tuple[bytes, list[PlainRow]]] = [
        (topic_id, [(*row[:4], row[4] if in_memory else memoryview(row[4]), len(row[4])) for row in found])
        for topic_id, found in topics
    ]
    answer = FetchAnswer(
        0,
        session_id,
        [
            FetchedTopic("", topic_id, [FetchedData(index, 0, *offsets, records) for index, *offsets, records in found])
            for topic_id, found in topics
            if found
        ],
    )
    expected = joined(encode_response(FETCH, version, correlation_id, as_struct(answer)))

    assert joined(answer_plain(correlation_id, session_id, rows)) == expected


@dataclass
class Slice:
    """Stands for a range of a file."""

    size: int

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_are_pieces_without_a_copy(version: int) -> None:
    """A slice of a file is never read here."""
    first, second = Slice(300), Slice(5)
    data = [FetchedData(0, records=first), FetchedData(1), FetchedData(2, records=second)]
    chunks = fetch_encoder(version)(7, FetchAnswer(0, 0, [FetchedTopic("t", bytes(16), data)]))

    assert chunks[1] is first
    assert chunks[3] is second
    assert int.from_bytes(bytes(chunks[0][:4]), "big") == sum(map(len, chunks)) - 4  # type: ignore[index]
    single = fetch_encoder(version)(7, FetchAnswer(0, 0, [FetchedTopic("t", bytes(16), data[:1])]))
    assert single[1] is first


def test_slices_of_a_plain_response_are_separate_pieces() -> None:
    """A slice between bytes is sent without a queue (broker/network/output_queue.py)."""
    first, second = Slice(300), Slice(5)
    rows: list[PlainRow] = [(0, 1, 1, 0, first, 300), (1, 1, 1, 0, second, 5)]

    pieces = answer_plain(7, 5, [(bytes(16), rows)])
    assert pieces[1::2] == [first, second]
    assert int.from_bytes(pieces[0][:4], "big") == sum(map(len, pieces)) - 4  # type: ignore[index,arg-type]
    head, piece, end = answer_plain(7, 5, [(bytes(16), rows[:1])])
    assert (type(head), piece, type(end)) == (bytes, first, bytes)
