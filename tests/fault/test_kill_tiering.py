"""A broker is killed at each step of copies and deletions in remote storage: nothing is lost, and nothing is left."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import killed_tier
from tests.support.brokers import HOST
from tests.support.data_client import batch
from tests.support.eventually import eventually
from tests.support.scale import SCALE
from tests.support.tiered_brokers import TieredOurs, remote_directory
from tests.support.tiered_client import TieredClient, remote_files, remote_starts
from tiered.segment import SegmentState

RECORDS = 12
#: Unit tests crash at all steps. The small sizes kill one process in a copy, and one in a deletion.
STEPS: Sequence[str] = ("half", "deleted") if SCALE <= 1 else killed_tier.STEPS
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": 1048576,
    "internal.segment.bytes": 1000,
    "local.retention.bytes": 1,
}
VALUES = [b"%d" % number * 200 for number in range(RECORDS)]


class KilledBroker(TieredOurs):
    """It ends at `step` of the tier's work, while that is set."""

    step: str | None = None

    def _command(self, config: Path) -> list[str]:
        if self.step is None:
            return super()._command(config)
        return [sys.executable, killed_tier.__file__, self.step, str(config)]


def fill(broker: KilledBroker) -> None:
    with TieredClient(HOST, broker.port) as client:
        client.create_topic("t", 1, TOPIC)
        for value in VALUES:
            client.produce("t", batch(value))


def await_copies(broker: KilledBroker) -> list[int]:
    """Wait until all closed segments are copied, and are not on the disk any more; return their start offsets."""
    with TieredClient(HOST, broker.port) as client:
        eventually(lambda: client.special("t"), until=lambda special: special[3] == special[4] + 1 > RECORDS - 4)
    return remote_starts(remote_directory(broker.directory / "remote"), "t")


def final_states(client: TieredClient) -> dict[int, list[SegmentState]]:
    """Return the last state of each attempt to copy a segment, by start offset."""
    last: dict[bytes, SegmentState] = {}
    starts: dict[bytes, int] = {}
    for _, event in client.metadata_events()["t", 0]:
        last[event.id] = SegmentState(event.state)
        starts.setdefault(event.id, getattr(event, "start_offset", -1))
    found: dict[int, list[SegmentState]] = {}
    for each, state in last.items():
        found.setdefault(starts[each], []).append(state)
    return found


@pytest.mark.parametrize("step", STEPS)
def test_killed_at(tmp_path: Path, step: str) -> None:
    remote = remote_directory(tmp_path / "remote")
    with KilledBroker(tmp_path) as broker:
        is_deletion = step.startswith("delet")
        if is_deletion:
            fill(broker)
            await_copies(broker)
        broker.stop()
        broker.step = step
        broker.start()
        if is_deletion:
            with TieredClient(HOST, broker.port) as client:
                client.delete_records("t", 0, RECORDS // 2)
        else:
            fill(broker)
        assert broker.wait() == -signal.SIGKILL
        broker.step = None
        broker.start()
        first = RECORDS // 2 if is_deletion else 0
        starts = eventually(
            lambda: await_copies(broker), until=lambda found: found and found[0] <= first < found[1], message=step
        )
        with TieredClient(HOST, broker.port) as client:
            assert client.bounds("t") == (first, RECORDS)
            assert client.values("t") == VALUES[first:]
            finished = dict.fromkeys(starts, SegmentState.COPY_FINISHED)
            eventually(
                lambda: {
                    start: state
                    for start, states in final_states(client).items()
                    for state in states
                    if state is not SegmentState.DELETE_FINISHED
                },
                equal_to=finished,
            )
        names = {name.partition(".")[2] for name in remote_files(remote, "t")}
        assert names == {"log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"}
        assert len(remote_files(remote, "t")) == len(names) * len(starts)
        assert "Traceback" not in broker.output
