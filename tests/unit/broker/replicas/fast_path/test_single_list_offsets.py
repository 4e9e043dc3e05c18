"""The fast path for ListOffsets returns what the handler would return, or leaves it to the handler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.replicas.fast_path.single_list_offsets import list_single
from protocol.messages.list_offsets import LIST_OFFSETS, ListOffsetsPartition, ListOffsetsTopic
from protocol.records.builder import BatchBuilder
from protocol.schema import Struct
from tests.support.data_broker import DataBroker
from tests.support.network import answers_in
from tests.support.offered import fast_path_of
from tests.support.scale import scaled

VERSIONS = range(6, 12)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataBroker]:
    """Partition 0 begins at offset 3 and ends at 15; an open transaction has its last three records. 1 is empty."""
    broker = DataBroker(tmp_path_factory.mktemp("broker"))
    partition = broker.topic(partitions=2)
    for number in range(5):
        builder = BatchBuilder()
        if number == 4:
            builder.producer_id, builder.producer_epoch, builder.base_sequence = 7, 0, 0
            builder.transactional = True
        for _ in range(3):
            builder.append(broker.clock.now_ms(), b"key", b"v" * 100)
        partition.append(builder.build(), broker.clock.now_ms())
    partition.delete_records(3)
    yield broker
    broker.close()


def fields(version: int, timestamp: int, *, topic: str = "t", index: int = 0, epoch: int = -1, **more: Any) -> Any:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
    return {"replica_id": -1, "topics": [ListOffsetsTopic(name=topic, partitions=[wanted])], **more}


def by_fast_path(broker: DataBroker, version: int, values: dict[str, Any]) -> Struct | None:
    """Return the response of the fast path, or None if it gives none."""
    frame = memoryview(b"header" + LIST_OFFSETS.request.encode(version, LIST_OFFSETS.request(**values)))
    fast_path = fast_path_of(broker, list_single, version)
    assert fast_path is not None
    found = fast_path(None, frame, 6, 77)  # type: ignore[arg-type]
    if found is None:
        return None
    ((correlation_id, answer),) = answers_in(found, [(LIST_OFFSETS, version)])
    assert correlation_id == 77
    return answer


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("timestamp", "isolation", "offset"), [(-1, 0, 15), (-1, 1, 12), (-2, 0, 3), (-2, 1, 3)])
def test_ends_are_answered(broker: DataBroker, version: int, timestamp: int, isolation: int, offset: int) -> None:
    values = fields(version, timestamp, isolation_level=isolation)
    answer = by_fast_path(broker, version, values)
    assert answer is not None
    assert answer.topics[0].partitions[0].offset == offset
    assert answer == broker.call(LIST_OFFSETS, version, **values)


@settings(max_examples=scaled(100), deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    timestamp=st.integers(-6, 2),
    topic=st.sampled_from(["t", "t", "t", "unknown", ""]),
    index=st.integers(-1, 2),
    epoch=st.integers(-2, 1),
    isolation_level=st.integers(-1, 2),
)
def test_any_request_is_answered_as_by_the_handler_or_left(
    broker: DataBroker, version: int, timestamp: int, **more: Any
) -> None:
    values = fields(version, timestamp, **more)
    answer = by_fast_path(broker, version, values)
    if answer is not None:
        assert answer == broker.call(LIST_OFFSETS, version, **values)
        assert answer.topics[0].partitions[0].error_code == 0


def test_failures_are_left_to_the_handler(tmp_path: Path) -> None:
    """A partition whose directory has failed."""
    broker = DataBroker(tmp_path)
    broker.topic()
    assert by_fast_path(broker, 11, fields(11, -2)) is not None
    broker.partitions.take_offline(broker.logs.directories[0])
    assert [by_fast_path(broker, 11, fields(11, end)) for end in (-1, -2)] == [None, None]
    assert broker.call(LIST_OFFSETS, 11, **fields(11, -2)).topics[0].partitions[0].error_code
    broker.close()


def test_versions_before_tagged_fields_have_no_fast_path(broker: DataBroker) -> None:
    assert [version for version in range(12) if fast_path_of(broker, list_single, version) is not None] == list(
        VERSIONS
    )
