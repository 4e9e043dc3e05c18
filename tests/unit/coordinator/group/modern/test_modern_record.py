"""The common parts of the records of consumer, streams and share groups."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.records import ConsumerRecord
from coordinator.group.kinds import parse_record
from coordinator.group.share.records import ShareGroupRecord
from coordinator.group.streams.records import StreamsRecord

RECORDS = (ConsumerRecord, StreamsRecord, ShareGroupRecord)


@pytest.mark.parametrize("record", RECORDS)
def test_tombstones_of_all_types_round_trip(record: type[ConsumerRecord | StreamsRecord | ShareGroupRecord]) -> None:
    for record_type, kind in record.kinds.items():
        written = record.tombstone("g", record_type, "m" if kind.item else "")
        assert int.from_bytes(written.key[:2], "big") == record_type
        assert written.value is None
        assert parse_record(written.key, None) == written


@pytest.mark.parametrize("record", RECORDS)
def test_a_members_state_is_deleted_before_the_member(
    record: type[ConsumerRecord | StreamsRecord | ShareGroupRecord],
) -> None:
    """A log that ends in between has no target and no state of an unknown member."""
    written = record.member_tombstones("g", "m")
    assert [each.record_type for each in written] == [record.current_type, record.target_type, record.member_type]
    assert all(each.item == "m" for each in written)


def test_no_type_belongs_to_two_kinds_of_groups() -> None:
    types = [record_type for record in RECORDS for record_type in record.kinds]
    assert sorted(types) == sorted(set(types))
