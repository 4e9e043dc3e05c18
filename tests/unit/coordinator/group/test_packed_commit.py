"""The bytes of a commit's records, all at once, are those of one after the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.packed_commit import MOST_RECORDS, pack_commit
from coordinator.group.records import CommittedOffset, GroupRecord, OffsetRecord
from protocol.records.builder import BatchBuilder, plain_batch

TOPIC_ID = b"0123456789abcdef"
COMMITTED = CommittedOffset(5, 3, "", 1_700_000_000_000, topic_id=TOPIC_ID)

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)
commits = st.lists(
    st.builds(
        lambda name, topic, partition, offset, epoch, time: OffsetRecord(
            name, topic, partition, COMMITTED._replace(offset=offset, leader_epoch=epoch, commit_timestamp_ms=time)
        ),
        st.sampled_from(["g", "group-2"]),
        names,
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**62),
    ),
    min_size=1,
    max_size=MOST_RECORDS,
)


@given(commits)
def test_packed_records_are_what_a_builder_makes(records: list[OffsetRecord]) -> None:
    packed = pack_commit(records)
    assert packed is not None

    builder = BatchBuilder()
    builder.extend(1_700_000_000_123, [(record.key, record.value) for record in records])
    assert plain_batch(packed, len(records), 1_700_000_000_123) == builder.build()


PLAIN = OffsetRecord("g", "t", 0, COMMITTED)


@pytest.mark.parametrize(
    "other",
    [
        PLAIN._replace(committed=None),
        PLAIN._replace(committed=COMMITTED._replace(metadata="m")),
        PLAIN._replace(committed=COMMITTED._replace(expire_timestamp_ms=9)),
        PLAIN._replace(committed=COMMITTED._replace(topic_id=bytes(16))),
        GroupRecord("g", None),
    ],
)
def test_records_that_are_not_that_plain_are_left_to_others(other: OffsetRecord | GroupRecord) -> None:
    assert pack_commit([PLAIN]) is not None
    assert pack_commit([PLAIN, other]) is None


def test_more_records_than_have_deltas_of_a_byte_are_left_to_others() -> None:
    assert pack_commit([PLAIN] * MOST_RECORDS) is not None
    assert pack_commit([PLAIN] * (MOST_RECORDS + 1)) is None
