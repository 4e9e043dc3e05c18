"""The shortcut for Fetch answers what the handler would answer, or leaves it to the handler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.single_fetch import fetch_single
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.builder import BatchBuilder
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.network import answers_in
from tests.support.scale import scaled

VERSIONS = range(11, 19)


@pytest.fixture
def broker(tmp_path):
    """Partition 0 has five batches of three records; partition 1 nothing."""
    return filled(tmp_path)


def filled(directory):
    broker = DataBroker(directory)
    partition = broker.topic(partitions=2)
    for _ in range(5):
        builder = BatchBuilder()
        for _ in range(3):
            builder.append(broker.clock.now_ms(), b"key", b"v" * 100)
        partition.append(builder.build(), broker.clock.now_ms())
    return broker


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory):
    """The same, which nobody writes to."""
    return filled(tmp_path_factory.mktemp("shared"))


def fields(version, offset, *, index=0, topic="t", topic_id=TOPIC_ID, session_id=0, session_epoch=-1, **more):
    """Of a request for one partition; what is named after a field of the partition goes there."""
    of_partition = ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
    wanted = {"partition_max_bytes": 1 << 20, **{name: more.pop(name) for name in of_partition if name in more}}
    named = {"topic": topic} if version < 13 else {"topic_id": topic_id}
    partition = FetchPartition(partition=index, fetch_offset=offset, **wanted)
    return {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [FetchTopic(**named, partitions=[partition])],
        **({"replica_id": -1} if version < 15 else {}),
        **more,
    }


def by_shortcut(broker, version, values):
    """What the shortcut answers, None where it does not."""
    frame = memoryview(b"header" + FETCH.request.encode(version, FETCH.request(**values)))
    chunks = fetch_single(broker, version, frame, 6, 77)
    if chunks is None:
        return None
    data = b"".join(chunk if isinstance(chunk, bytes) else chunk.read() for chunk in chunks)
    ((correlation_id, answer),) = answers_in(data, [(FETCH, version)])
    assert correlation_id == 77
    return answer


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "more",
    [{}, {"max_bytes": 100}, {"partition_max_bytes": 700}, {"current_leader_epoch": 0}, {"min_bytes": 1000}],
    ids=str,
)
def test_records_are_answered_as_by_the_handler(broker, version, more):
    """From any offset, within the limits."""
    for offset in (0, 1, 7, 14):
        values = fields(version, offset, **more)
        answer = by_shortcut(broker, version, values)
        if answer is None:
            assert more == {"min_bytes": 1000}
            assert offset > 6
            continue
        assert answer == broker.call(FETCH, version, **values)


@settings(max_examples=scaled(200), deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    offset=st.integers(-2, 17),
    index=st.integers(0, 2),
    max_bytes=st.integers(-1, 2500),
    partition_max_bytes=st.integers(-1, 2500),
    min_bytes=st.integers(-1, 2500),
    current_leader_epoch=st.integers(-2, 1),
    isolation_level=st.sampled_from([0, 0, 0, 1, 2]),
)
def test_whatever_is_asked_it_answers_as_the_handler_or_not_at_all(shared_broker, version, offset, **more):
    """A client that does not wait is always answered at once, by one of them."""
    values = fields(version, offset, **more)
    answer = by_shortcut(shared_broker, version, values)
    if answer is not None:
        assert answer == shared_broker.call(FETCH, version, **values)
        assert answer.responses[0].partitions[0].records


def test_what_has_an_error_or_waits_is_left_to_the_handler(broker):
    """And so is a reader of committed records, and a partition whose bytes are not in memory."""
    left = [
        fields(12, 0, topic="unknown"),
        fields(12, 0, index=1),
        fields(12, 0, index=2),
        fields(12, 15),
        fields(12, 16),
        fields(12, -1),
        fields(12, 0, current_leader_epoch=5),
        fields(12, 0, last_fetched_epoch=0),
        fields(12, 0, isolation_level=1),
        fields(12, 0, isolation_level=9),
        fields(12, 0, max_bytes=-1),
        fields(12, 0, partition_max_bytes=-1),
        fields(12, 0, min_bytes=5000),
        fields(12, 0, session_epoch=0),
        fields(12, 0, session_id=5, session_epoch=1),
        fields(12, 0, session_id=5),
    ]

    assert [by_shortcut(broker, 12, each) for each in left] == [None] * len(left)
    assert by_shortcut(broker, 13, fields(13, 0, topic_id=b"another topic id")) is None


def test_a_disk_that_fails_is_told_by_the_handler(broker, monkeypatch):
    log = broker.partitions.get("t", 0).log
    monkeypatch.setattr(type(log), "read", lambda *args, **of: (_ for _ in ()).throw(LogOffline(log.path, "gone")))

    assert by_shortcut(broker, 12, fields(12, 0)) is None


def test_what_is_cold_is_read_ahead_by_the_handler(broker, monkeypatch):
    """What was appended not long ago is not asked about."""
    monkeypatch.setattr(FetchSlice, "is_cold", lambda self: True)
    assert by_shortcut(broker, 12, fields(12, 0)) is not None

    for partition in broker.partitions:
        partition.log._forget_positions()
    assert by_shortcut(broker, 12, fields(12, 0)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_of_one_partition_go_on(broker, version):
    """Shortcut and handler in turn: the same answers as from the handler alone, and the epochs go up."""
    opened = broker.call(FETCH, version, **fields(version, 0, session_epoch=0))
    other = broker.call(FETCH, version, **fields(version, 0, session_epoch=0))
    for epoch, offset in ((1, 3), (2, 6), (3, 15), (4, 12), (5, 0)):
        values = fields(version, offset, session_id=opened.session_id, session_epoch=epoch)
        alone = broker.call(FETCH, version, **{**values, "session_id": other.session_id})
        answer = by_shortcut(broker, version, values)
        if answer is None:
            assert offset == 15
            answer = broker.call(FETCH, version, **values)
        alone.session_id = opened.session_id
        assert answer == alone

    assert by_shortcut(broker, version, fields(version, 0, session_id=opened.session_id, session_epoch=5)) is None


def test_sessions_of_several_partitions_are_left_to_the_handler(broker):
    """What else they read may have something to say as well."""
    both = fields(12, 0, session_epoch=0)
    both["topics"][0].partitions.append(FetchPartition(partition=1, partition_max_bytes=1 << 20))
    opened = broker.call(FETCH, 12, **both)

    assert by_shortcut(broker, 12, fields(12, 3, session_id=opened.session_id, session_epoch=1)) is None
    assert by_shortcut(broker, 12, fields(12, 3, index=1, session_id=opened.session_id, session_epoch=1)) is None


def test_a_session_does_not_take_up_a_partition_on_the_way(broker):
    """Another partition than the one it reads is added by the handler."""
    opened = broker.call(FETCH, 12, **fields(12, 0, index=1, session_epoch=0))

    assert by_shortcut(broker, 12, fields(12, 3, session_id=opened.session_id, session_epoch=1)) is None
