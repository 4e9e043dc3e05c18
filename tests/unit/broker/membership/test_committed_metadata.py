"""A member applies the metadata log, whatever a change of it does in the member."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.committed_metadata import CommittedMetadata
from broker.membership.observed_log import CommittedRecord
from metadata.delta import Delta
from metadata.features import MAX_METADATA_VERSION
from metadata.framing import encode_record, new_record
from protocol.messages.cluster_metadata import TopicRecord


def test_a_change_that_fails_does_not_end_the_next_ones(caplog: pytest.LogCaptureFixture) -> None:
    """It would stand still, and go on to lead its partitions."""
    names = ["first", "second"]
    values = [
        encode_record(new_record(MAX_METADATA_VERSION, TopicRecord, name=name, topic_id=name.encode().ljust(16)))
        for name in names
    ]
    log: Any = SimpleNamespace(
        newest_snapshot=lambda: None,
        read=lambda begin, end: [CommittedRecord(at, 1, 0, values[at]) for at in range(begin, end)],
    )
    metadata = CommittedMetadata(log)
    published: list[Delta] = []

    def publish(delta: Delta) -> None:
        published.append(delta)
        if len(published) == 1:
            raise ZeroDivisionError

    metadata.publish_to(publish)
    for end in (1, 2):
        assert metadata.advance(end)
    assert [each.message for each in caplog.records] == ["A change of the metadata is not in force as a whole"]
    assert len(published) == 2
    assert sorted(metadata.image.topics_by_name) == names
