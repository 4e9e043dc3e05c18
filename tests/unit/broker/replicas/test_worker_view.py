"""The leader that a client is sent to: another worker of this broker, or another broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.process.placement import worker_of
from broker.replicas.worker_view import WorkerView


def view(leader: int, workers: int = 1, *, is_elsewhere: bool = True) -> WorkerView:
    """Return the view of broker 1."""
    config: Any = SimpleNamespace(node_id=1, num_workers=workers)
    found = SimpleNamespace(partitions={0: SimpleNamespace(leader=leader, leader_epoch=5)})
    metadata: Any = SimpleNamespace(image=SimpleNamespace(topics_by_name={"t": found}))
    partitions: Any = SimpleNamespace(is_elsewhere=lambda topic, index: is_elsewhere)
    return WorkerView(config, metadata, partitions)


@pytest.mark.parametrize(("leader", "named"), [(2, (2, 5)), (-1, None), (1, None)])
def test_a_client_is_sent_to_the_broker_that_leads(leader: int, named: tuple[int, int] | None) -> None:
    assert view(leader).other_leader("t", 0) == named


def test_a_client_is_sent_to_the_worker_that_has_the_partition() -> None:
    assert view(1, workers=4).other_leader("t", 0) == (1 + worker_of("t", 0, 4), 5)


def test_nobody_is_named_for_a_partition_of_this_process() -> None:
    assert view(1, is_elsewhere=False).other_leader("t", 0) is None
    assert view(1).other_leader(None, 0) is None
