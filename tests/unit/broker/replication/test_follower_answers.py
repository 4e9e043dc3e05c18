"""How the records of an answer to a follower are sent: read, or as slices of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.fetch_slice import FetchSlice
from tests.support.producing import batch
from tests.unit.broker.replication.follower_client import FollowerClient, ManyPartitions


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ManyPartitions]:
    made = ManyPartitions(tmp_path, 3)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        ({0: 20_000, 1: 20_000}, bytes),
        ({0: 1_000, 1: 1_000, 2: 60_000}, bytes),
        ({0: 20_000, 2: 50_000}, FetchSlice),
        ({1: 20_000}, FetchSlice),
    ],
)
def test_small_records_of_several_partitions_are_read(
    broker: ManyPartitions, sizes: dict[int, int], kind: type
) -> None:
    """One call sends them; each slice of a file would take two."""
    follower = FollowerClient(broker)
    follower.settle()
    for index, size in sizes.items():
        broker.led[index].append(batch(value=bytes(size)), broker.clock.now_ms())
    follower.send()
    assert follower._waiting is not None
    answer = follower._waiting.result()
    assert [type(data.records) for topic in answer.topics for data in topic.partitions] == [kind] * len(sizes)
    found = follower.receive()
    assert {index: data.error_code for index, data in found.items() if data.records} == dict.fromkeys(sizes, 0)
    assert all(len(found[index].records) > size for index, size in sizes.items())
