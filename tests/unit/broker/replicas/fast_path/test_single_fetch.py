"""The fast path for Fetch of one partition returns what the handler would return, or leaves it to the handler."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.replicas.fast_path.single_fetch import fetch_single
from broker.requests.dispatcher import Waiting
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic
from protocol.records.builder import BatchBuilder
from runtime.deferred import Deferred
from storage.errors import LogOffline
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.network import answers_in, request_frame
from tests.support.offered import dispatcher_for, fast_path_of
from tests.support.scale import scaled

VERSIONS = range(11, 19)


@pytest.fixture
def broker(tmp_path):
    """Partition 0 has five batches of three records. Partition 1 is empty."""
    made = filled(tmp_path)
    yield made
    made.close()


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
    """The same, and no test writes to it."""
    made = filled(tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


def fields(version, offset, *, index=0, topic="t", topic_id=TOPIC_ID, session_id=0, session_epoch=-1, **more):
    """A request for one partition. An argument named after a field of the partition goes into the partition."""
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


def asked(broker, version, values):
    frame = memoryview(b"header" + FETCH.request.encode(version, FETCH.request(**values)))
    return fast_path_of(broker, fetch_single, version)(None, frame, 6, 77)


def by_fast_path(broker, version, values):
    """Return the response of the fast path, or None if it gives none."""
    chunks = asked(broker, version, values)
    return None if chunks is None else decoded(version, chunks)


def decoded(version, chunks):
    chunks = [chunks] if isinstance(chunks, bytes) else chunks
    data = b"".join(chunk.read() if isinstance(chunk, FetchSlice) else chunk for chunk in chunks)
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
        answer = by_fast_path(broker, version, values)
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
def test_any_request_is_answered_as_by_the_handler_or_left(shared_broker, version, offset, **more):
    """A client that does not wait always gets a response at once, from one of them."""
    values = fields(version, offset, **more)
    answer = by_fast_path(shared_broker, version, values)
    if answer is not None:
        assert answer == shared_broker.call(FETCH, version, **values)
        assert answer.responses[0].partitions[0].records


def test_errors_and_waits_are_left_to_the_handler(broker):
    """So are read_committed consumers, and partitions whose bytes are not in the page cache."""
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

    assert [by_fast_path(broker, 12, each) for each in left] == [None] * len(left)
    assert by_fast_path(broker, 13, fields(13, 0, topic_id=b"another topic id")) is None


def test_a_disk_that_fails_is_reported_by_the_handler(broker, monkeypatch):
    log = broker.partitions.get("t", 0).log
    monkeypatch.setattr(type(log), "read", lambda *args, **of: (_ for _ in ()).throw(LogOffline(log.path, "gone")))

    assert by_fast_path(broker, 12, fields(12, 0)) is None


def test_cold_pages_are_read_ahead_by_the_handler(broker, monkeypatch):
    """The log may remember a position in the file. That does not mean that its bytes are in the page cache."""
    assert by_fast_path(broker, 12, fields(12, 0)) is not None

    monkeypatch.setattr(FetchSlice, "is_cold", lambda self, now_ms: True)
    assert by_fast_path(broker, 12, fields(12, 0)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_of_one_partition_continue(broker, version):
    """Fast path and handler alternate. The responses are those of the handler alone, and the epochs go up."""
    opened = broker.call(FETCH, version, **fields(version, 0, session_epoch=0))
    other = broker.call(FETCH, version, **fields(version, 0, session_epoch=0))
    for epoch, offset in ((1, 3), (2, 6), (3, 15), (4, 12), (5, 0)):
        values = fields(version, offset, session_id=opened.session_id, session_epoch=epoch)
        alone = broker.call(FETCH, version, **{**values, "session_id": other.session_id})
        answer = by_fast_path(broker, version, values)
        if answer is None:
            assert offset == 15
            answer = broker.call(FETCH, version, **values)
        alone.session_id = opened.session_id
        assert answer == alone

    assert by_fast_path(broker, version, fields(version, 0, session_id=opened.session_id, session_epoch=5)) is None


def test_sessions_of_several_partitions_are_left_to_the_handler(broker):
    """The other partitions may have something to send too."""
    both = fields(12, 0, session_epoch=0)
    both["topics"][0].partitions.append(FetchPartition(partition=1, partition_max_bytes=1 << 20))
    opened = broker.call(FETCH, 12, **both)

    assert by_fast_path(broker, 12, fields(12, 3, session_id=opened.session_id, session_epoch=1)) is None
    assert by_fast_path(broker, 12, fields(12, 3, index=1, session_id=opened.session_id, session_epoch=1)) is None


def test_the_fast_path_adds_no_partition_to_a_session(broker):
    """The handler adds any partition other than the one that the session reads."""
    opened = broker.call(FETCH, 12, **fields(12, 0, index=1, session_epoch=0))

    assert by_fast_path(broker, 12, fields(12, 3, session_id=opened.session_id, session_epoch=1)) is None


def append(broker, index=1):
    builder = BatchBuilder()
    builder.append(broker.clock.now_ms(), None, b"new")
    broker.partitions.get("t", index).append(builder.build(), broker.clock.now_ms())


def fence(broker):
    broker.partitions.lead(broker.partitions.get("t", 1), 3)
    append(broker)


#: An event while a fetch of partition 1 waits, and whether the fetch is answered then.
EVENTS = {
    "a record": (append, True),
    "the deadline": (lambda broker: broker.advance(500), True),
    "the deadline, after it was looked at for nothing": (
        lambda broker: (broker.purgatory.check(broker.partitions.get("t", 1)), broker.advance(500)),
        True,
    ),
    "a record of another partition": (lambda broker: append(broker, 0), False),
    "another leader epoch": (fence, True),
    "the topic is deleted": (lambda broker: broker.partitions.delete("t"), True),
    "the disk fails": (lambda broker: broker.partitions.take_offline(broker.logs.directories[0]), True),
    "a shutdown": (lambda broker: broker.purgatory.expire_all(), True),
}


def answer_after(broker, version, values, event, by_fast_path):
    """Return the response to a fetch that waits until the event."""
    dispatcher = dispatcher_for(broker)
    frame = memoryview(request_frame(FETCH, version, 77, **values))[4:]
    connection = broker.context(FETCH, version).connection
    waiting = dispatcher.dispatch(connection, frame, again=not by_fast_path)
    assert isinstance(waiting, Waiting)
    assert isinstance(waiting.request, bytes) == by_fast_path
    event(broker)
    broker.settle()
    assert len(broker.purgatory) == (not waiting.deferred.done)
    return decoded(version, dispatcher.finish(connection, waiting)) if waiting.deferred.done else None


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("session", ["none", "new to it", "knows the offsets"])
def test_a_waiting_fetch_is_answered_as_by_the_handler(tmp_path, version, session, event):
    """Whatever happens meanwhile. A response in a session has only what is new.

    A deleted topic is the exception: a fetch by topic id gets the response that a new request would get.
    """
    happens, is_answered = EVENTS[event]
    answers = []
    for by_fast_path in (True, False):
        broker = filled(tmp_path / str(by_fast_path))
        of_session = {}
        if session != "none":
            opened = broker.call(FETCH, version, **fields(version, 0, index=1, session_epoch=0))
            of_session = {"session_id": opened.session_id, "session_epoch": 1}
        if session == "new to it":
            append(broker)
            broker.partitions.get("t", 1).delete_records(1)
        offset = broker.partitions.get("t", 1).high_watermark
        values = fields(version, offset, index=1, max_wait_ms=500, current_leader_epoch=0, **of_session)
        answer = answer_after(broker, version, values, happens, by_fast_path)
        assert (answer is not None) == is_answered
        if answer is not None:
            answer.session_id = 0
        answers.append(answer)
        if session != "none" and answer is not None and answer.error_code == 0:
            following = fields(version, offset, index=1, session_id=opened.session_id, session_epoch=2)
            assert broker.call(FETCH, version, **following).error_code == 0

    if event == "the topic is deleted" and version >= 13:
        (answered,) = answers[0].responses[0].partitions
        assert answered.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        answered.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "more", [{"min_bytes": 2}, {"min_bytes": 0}, {"max_bytes": 0}, {"isolation_level": 1}], ids=str
)
def test_other_waits_are_left_to_the_handler(broker, more):
    """So are clients that do not wait at all."""
    assert asked(broker, 12, fields(12, 15, **{"max_wait_ms": 500, **more})) is None


def test_awaited_records_are_sent_from_memory(broker, monkeypatch):
    """The response is one chunk: the batch that ends the wait is neither read from a file nor a chunk of its own."""
    chunks = []
    waiting = asked(broker, 12, fields(12, 0, index=1, max_wait_ms=500))
    waiting.add_done_callback(lambda done: chunks.extend(done.result()))
    monkeypatch.setattr(FetchSlice, "fileno", lambda self: pytest.fail("the file is read"))

    builder = BatchBuilder()
    builder.append(broker.clock.now_ms(), None, b"new")
    broker.partitions.get("t", 1).append(bytearray(builder.build()), broker.clock.now_ms())
    broker.settle()

    assert [bytes] == [type(chunk) for chunk in chunks]
    assert decoded(12, chunks).responses[0].partitions[0].high_watermark == 1


def test_a_disconnected_client_waits_no_more(broker):
    waiting = asked(broker, 12, fields(12, 15, max_wait_ms=500))
    assert isinstance(waiting, Deferred)
    assert len(broker.purgatory) == 1

    waiting.cancel()

    assert len(broker.purgatory) == 0


def test_a_newer_fetch_of_a_session_ends_the_waiting_one(broker):
    """The waiting one gets the error for an old epoch."""
    opened = broker.call(FETCH, 12, **fields(12, 15, session_epoch=0))
    values = fields(12, 15, session_id=opened.session_id, session_epoch=1)

    def overtake(broker):
        assert broker.call(FETCH, 12, **{**values, "max_wait_ms": 0}).error_code == 0
        append(broker, 0)

    answer = answer_after(broker, 12, {**values, "max_wait_ms": 500}, overtake, True)

    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
