"""The broker of a controller's process follows the log that the controller writes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.combined.shared_log import SharedLogObserver
from broker.controlling.metadata_reads import MetadataReads
from replication.observing import Endpoint
from runtime.timers import Timers
from storage.errors import LogOffline
from tests.support.fake_loop import FakeLoop


class Metadata:
    """Notes how far the log is applied."""

    def __init__(self) -> None:
        self.applied: list[int] = []
        self.failure: Exception | None = None
        self.last_offset = 4

    def advance(self, high_watermark: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.applied.append(high_watermark)


class Node:
    """A log of which `synced` records are on the disk, and its observer."""

    def __init__(self) -> None:
        self.turns: list[Callable[[], None]] = []
        self.metadata = Metadata()
        self.failures: list[str] = []
        self.changes: list[None] = []
        loop = FakeLoop()
        self.partition_log = SimpleNamespace(recovery_point=5, log_end_offset=5)
        metadata_log: Any = SimpleNamespace(partition_log=self.partition_log, epoch=2, end_offset=5)
        self.reads = MetadataReads(metadata_log, Timers(loop, loop.clock))
        metadata: Any = self.metadata
        self.observer = SharedLogObserver(
            1,
            Endpoint("localhost", 9093),
            metadata_log,
            self.reads,
            metadata,
            self.turns.append,
            lambda: self.changes.append(None),
            self.failures.append,
        )

    def sync(self, end: int) -> None:
        self.partition_log.log_end_offset = self.partition_log.recovery_point = end
        self.reads.advance()
        while self.turns:
            self.turns.pop(0)()


def test_only_what_is_on_the_disk_is_applied() -> None:
    """Another node's power failure takes nothing back that this broker has acted on."""
    node = Node()
    node.observer.start()
    node.partition_log.log_end_offset = 8
    node.reads.advance()
    assert (node.metadata.applied, node.turns) == ([5], [])
    node.sync(8)
    node.sync(9)
    assert node.metadata.applied == [5, 8, 9]
    assert len(node.changes) == 3


def test_a_closed_observer_applies_nothing() -> None:
    node = Node()
    node.observer.start()
    node.observer.close()
    node.sync(6)
    assert node.metadata.applied == [5]


def test_a_log_that_cannot_be_read_ends_the_node() -> None:
    node = Node()
    node.observer.start()
    node.metadata.failure = LogOffline("/data/__cluster_metadata-0", "no disk")
    node.sync(6)
    node.sync(7)
    (reason,) = node.failures
    assert "cannot be applied after offset 4" in reason


def test_the_start_ends_with_a_log_that_cannot_be_read() -> None:
    node = Node()
    node.metadata.failure = OSError("read")
    node.observer.start()
    assert len(node.failures) == 1
    node.observer.start()
    assert node.turns == []


@pytest.mark.parametrize("name", ["leader_id", "epoch", "high_watermark", "end_offset"])
def test_describes_the_quorum(name: str) -> None:
    expected = {"leader_id": 1, "epoch": 2, "high_watermark": 5, "end_offset": 5}
    assert getattr(Node().observer, name) == expected[name]
