"""The fast path for Fetch of many partitions returns what the handler alone would return."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.replicas.fast_path.plain_fetch import plain_fetch
from broker.requests.context import PartlyServed
from broker.requests.dispatcher import Waiting
from protocol.messages.fetch import FETCH, FetchPartition, FetchTopic, ForgottenTopic
from protocol.schema import Struct
from storage.fetch_slice import FetchSlice
from tests.support.data_broker import TOPIC_ID, DataBroker
from tests.support.fetching import append
from tests.support.network import answers_in, request_frame
from tests.support.offered import dispatcher_for, fast_path_of
from tests.support.scale import scaled

VERSIONS = range(13, 19)
OTHER_ID = b"other-topic-id-b"
PARTITIONS = 4


class Side:
    """Partition i of "t" has i batches; there is another topic, "other". `by_handler` switches fast paths off."""

    def __init__(self, directory: Path, version: int, *, by_handler: bool) -> None:
        self.version = version
        self.broker = DataBroker(directory)
        self.broker.topic(partitions=PARTITIONS)
        self.broker.topic("other", topic_id=OTHER_ID)
        for index in range(PARTITIONS):
            for _ in range(index):
                append(self.broker, index=index)
        append(self.broker, topic="other")
        self.dispatcher = dispatcher_for(self.broker)
        prepared = self.dispatcher._prepare(FETCH.key << 16 | version)
        assert prepared is not None
        if by_handler:
            prepared.fast_path = None
        self.waiting: Any = None

    def fetch(self, **fields: Any) -> Struct | None:
        """Return the response, or None while the request waits."""
        frame = bytearray(request_frame(FETCH, self.version, 77, **fields)[4:])
        self.waiting = self.dispatcher.dispatch(None, memoryview(frame))  # type: ignore[arg-type]
        return self.answer()

    def answer(self) -> Struct | None:
        found = self.waiting
        while isinstance(found, Waiting):
            if not found.deferred.done:
                return None
            found = self.dispatcher.finish(None, found)  # type: ignore[arg-type]
        chunks = [found] if isinstance(found, bytes) else found
        data = b"".join(chunk.read() if isinstance(chunk, FetchSlice) else bytes(chunk) for chunk in chunks)
        ((correlation_id, answer),) = answers_in(data, [(FETCH, self.version)])
        assert correlation_id == 77
        return answer

    def fetched_bytes(self) -> list[int]:
        return [partition.log.fetched_bytes for partition in self.broker.partitions]


def wanted(*of: tuple[int, int], topic_id: bytes = TOPIC_ID, max_bytes: int = 1 << 20, **more: int) -> Struct:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **more)
        for index, offset in of
    ]
    return FetchTopic(topic_id=topic_id, partitions=partitions)


def fields(*topics: Struct, **more: Any) -> dict[str, Any]:
    return {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "session_epoch": -1,
        "topics": list(topics),
        **more,
    }


@pytest.fixture(params=VERSIONS)
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    short, handler = (
        Side(tmp_path / name, request.param, by_handler=by_handler)
        for name, by_handler in (("short", False), ("handler", True))
    )
    yield short, handler
    short.broker.close()
    handler.broker.close()


def both(sides: tuple[Side, Side], **values: Any) -> Struct | None:
    """Return the responses of both sides without their session ids, which differ."""
    sessions = values.pop("sessions", (0, 0))
    answers = [
        side.fetch(**{**values, "session_id": session_id}) for side, session_id in zip(sides, sessions, strict=True)
    ]
    return _same(answers)


def _same(answers: list[Struct | None]) -> Struct | None:
    first, second = answers
    if first is not None and second is not None:
        second.session_id = first.session_id
    assert first == second
    return first


def served_shortly(side: Side, **values: Any) -> bool:
    """Return whether the fast path itself answers."""
    serve = fast_path_of(side.broker, plain_fetch, side.version)
    frame = memoryview(bytearray(FETCH.request.encode(side.version, FETCH.request(**values))))
    try:
        return serve(None, frame, 0, 7) is not None
    except PartlyServed:
        return False


def test_records_of_many_partitions_are_answered(sides: tuple[Side, Side]) -> None:
    """They belong to two topics. One partition among them has no new records."""
    values = fields(wanted((0, 0), (1, 0), (2, 3), (3, 9)), wanted((0, 1), topic_id=OTHER_ID))
    answer = both(sides, **values)

    assert answer is not None
    assert [len(topic.partitions) for topic in answer.responses] == [4, 1]
    assert served_shortly(sides[0], **values)
    assert not served_shortly(sides[0], **{**values, "min_bytes": 5000, "max_wait_ms": 1})


@pytest.mark.parametrize(
    "values",
    [
        fields(wanted((0, 0), (9, 0), (2, 0))),
        fields(wanted((0, 0), (2, 0)), wanted((0, 0), topic_id=b"?" * 16)),
        fields(wanted((1, 0), (2, 0), current_leader_epoch=5)),
        fields(wanted((1, 0), (2, 0), last_fetched_epoch=0)),
        fields(wanted((1, 7), (2, 0))),
        fields(wanted((1, -1), (2, 0))),
        fields(wanted((2, 0), (2, 3))),
        fields(wanted((2, 0)), wanted((2, 3))),
        fields(wanted((1, 0), (2, 0), max_bytes=-1)),
        fields(wanted((1, 0), (2, 0)), max_bytes=-1),
        fields(wanted((1, 0), (2, 0)), isolation_level=1),
        fields(wanted((1, 0), (2, 0)), isolation_level=7),
        fields(wanted((1, 0), (2, 0)), rack_id="r"),
        fields(wanted((1, 0), (2, 0)), session_epoch=3),
        fields(wanted((1, 0), (2, 0)), session_epoch=0),
        fields(),
    ],
    ids=str,
)
def test_anything_unusual_is_left_to_the_handler(sides: tuple[Side, Side], values: dict[str, Any]) -> None:
    assert not served_shortly(sides[0], **values)
    both(sides, **values)


def test_offline_log_is_left_to_the_handler(sides: tuple[Side, Side]) -> None:
    for side in sides:
        directory = side.broker.logs.directories[0]
        directory.fail("broken")
        side.broker.partitions.take_offline(directory)
    values = fields(wanted((1, 0), (2, 0)))

    assert not served_shortly(sides[0], **values)
    both(sides, **values)


def test_cold_pages_are_left_to_the_handler(sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler has a thread read them first."""
    monkeypatch.setattr(FetchSlice, "is_cold", lambda self, now_ms: True)
    assert not served_shortly(sides[0], **fields(wanted((1, 0), (2, 0))))


def test_fetch_that_waits_is_answered_with_the_next_records(sides: tuple[Side, Side]) -> None:
    """Nothing is read twice before they arrive. Without any the response comes at the deadline."""
    values = fields(wanted((0, 0), (1, 3)), max_wait_ms=500)
    assert both(sides, **values) is None
    for side in sides:
        append(side.broker, index=1)
        side.broker.settle()
    answer = _same([side.answer() for side in sides])
    assert answer is not None
    assert [len(each.records) > 0 for each in answer.responses[0].partitions] == [False, True]

    assert both(sides, **fields(wanted((0, 0), (1, 6)), max_wait_ms=500)) is None
    for side in sides:
        side.broker.advance(500)
    answer = _same([side.answer() for side in sides])
    assert answer is not None
    assert [len(each.records) for each in answer.responses[0].partitions] == [0, 0]
    assert sides[0].fetched_bytes() == sides[1].fetched_bytes()


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 12), max_size=PARTITIONS),  # asked: offsets
        st.lists(st.integers(0, PARTITIONS - 1), max_size=2),  # appended before it
        st.lists(st.integers(0, PARTITIONS - 1), max_size=1),  # appended while it waits
        st.sampled_from([0, 0, 500]),  # wait
        st.sampled_from([1, 1, 1, 0, 500, 2000]),  # least bytes
        st.sampled_from([1 << 20, 1 << 20, 400, 900, 0]),  # most bytes
        st.sampled_from([0, 0, 0, 0, 1]),  # forgotten partitions
    ),
    max_size=8,
)


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(version=st.sampled_from([13, 18]), steps=STEPS)
def test_sessions_are_the_same_step_by_step(
    tmp_path_factory: pytest.TempPathFactory, version: int, steps: list[Any]
) -> None:
    """Responses, epochs, the order of partitions, what is sent again, and the counted bytes."""
    root = tmp_path_factory.mktemp("session")
    sides = Side(root / "short", version, by_handler=False), Side(root / "handler", version, by_handler=True)
    try:
        everything = wanted(*[(index, 0) for index in range(PARTITIONS)])
        opened = [side.fetch(**fields(everything, session_epoch=0)) for side in sides]
        sessions = tuple(answer.session_id for answer in opened if answer is not None)
        _same(opened)
        for epoch, (asked, before, meanwhile, wait, least, most, forgotten) in enumerate(steps, start=1):
            for side in sides:
                for index in before:
                    append(side.broker, index=index)
                side.broker.settle()
            topics = [wanted(*asked.items())] if asked else []
            gone = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])] if forgotten else []
            values = fields(
                *topics,
                max_wait_ms=wait,
                min_bytes=least,
                max_bytes=most,
                session_epoch=epoch,
                forgotten_topics_data=gone,
            )
            if both(sides, sessions=sessions, **values) is not None:
                continue
            for side in sides:
                for index in meanwhile:
                    append(side.broker, index=index)
                side.broker.settle()
                side.broker.advance(wait)
            assert _same([side.answer() for side in sides]) is not None
        assert sides[0].fetched_bytes() == sides[1].fetched_bytes()
    finally:
        for side in sides:
            side.broker.close()
