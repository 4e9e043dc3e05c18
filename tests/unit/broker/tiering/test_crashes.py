"""The process ends at any step of copies and deletions: no offset is lost, and the next start cleans up."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.copying_broker import CopyingBroker
from tests.support.txn_broker import Crash
from tiered.segment import SegmentState

RECORDS = 12
#: Steps of the scenario beyond the last crash.
MOST_STEPS = 60


def scenario(broker: CopyingBroker) -> None:
    """Copy some segments, drop them locally, and delete half of them."""
    partition = broker.partition("t")
    broker.round(3)
    partition.delete_records(min(RECORDS // 2, partition.log.high_watermark))
    broker.round(3)


@pytest.mark.parametrize("kind", ["records", "objects"])
def test_crash_at_each_step(tmp_path: Path, kind: str) -> None:
    """`records`: behind an append to the metadata log. `objects`: before or behind a half of an object's storing."""
    for number in range(MOST_STEPS):
        broker = CopyingBroker(tmp_path / str(number))
        partition = broker.tiered(local_retention_bytes="1")
        broker.append(partition, RECORDS)
        if kind == "records":
            broker.crash_after = number
        else:
            broker.layout.crash_after = number
        crashed = True
        with suppress(Crash):
            scenario(broker)
            crashed = False
        broker.check_all_readable(partition)
        broker.layout.crash_after = None
        broker.restart()
        broker.check_all_readable(partition)
        scenario(broker)
        broker.round(2)
        broker.check_all_readable(partition)
        copies = broker.remote(partition)
        assert {each.state for each in copies} == {SegmentState.COPY_FINISHED}
        assert broker.layout.objects.keys() == {each.id for each in copies}, "an object without a record"
        assert partition.log.log_start_offset == RECORDS // 2
        assert len({each.start_offset for each in copies}) == len(copies)
        broker.close()
        if not crashed:
            assert number > 5
            return
    pytest.fail("the scenario has more steps than expected")
