"""Running clusters, kept as pickles: a schedule begins with a copy of one."""

from __future__ import annotations

import pickle
from functools import cache
from io import BytesIO
from typing import Any

from protocol.schema import Api, Struct, StructType
from replication.lifecycle import LifecycleState
from tests.simulation.metadata import TOPIC
from tests.simulation.transport import Config
from tests.simulation.world import World


def _world(config: Config) -> World:
    """Return a cluster that does not run yet. Coordinators are imported with the first cluster that has them."""
    if not config.transactions:
        return World(config)
    from tests.simulation.coordination.world import CoordinatedWorld

    return CoordinatedWorld(config)


@cache
def _started(config: Config) -> bytes:
    """Return a cluster whose brokers run and whose partitions have leaders."""
    world = _world(config)
    for broker_id in world.disks:
        world.start(broker_id)
    world.settle(12)
    assert all(each.life.state is LifecycleState.RUNNING for each in world.processes.values())
    ids = list(world.disks)
    placed = [
        ((TOPIC, index), tuple(ids[(index + each) % len(ids)] for each in range(3)))
        for index in range(config.partitions)
    ]
    world.controller.in_transactions = config.in_transactions
    world.controller.create(placed)
    world.settle(5)
    assert all(not len(each.assignments) for each in world.processes.values())
    world.detach()
    kept = BytesIO()
    _Keeper(kept, pickle.HIGHEST_PROTOCOL).dump(world)
    return kept.getvalue()


#: APIs and types of messages, by the number that stands for each.
_shared: list[Any] = []


def _get_shared(index: int) -> Any:
    return _shared[index]


def _get_struct(index: int, values: tuple[Any, ...]) -> Struct:
    found: StructType = _shared[index]
    return found.new(**dict(zip((each.name for each in found.fields), values, strict=True)))


class _Keeper(pickle.Pickler):
    """Pickles the values of messages, whose classes are made at run time."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Struct):
            values = tuple(getattr(value, each.name) for each in value.struct_type.fields)
            return _get_struct, (self._index(value.struct_type), values)
        return (_get_shared, (self._index(value),)) if isinstance(value, Api) else NotImplemented

    @staticmethod
    def _index(value: object) -> int:
        if value not in _shared:
            _shared.append(value)
        return _shared.index(value)


def start(config: Config) -> World:
    """Return a running cluster."""
    found = pickle.loads(_started(config))
    assert isinstance(found, World)
    found.attach()
    return found


def forget_started() -> None:
    """Start clusters again, after a function was patched."""
    _started.cache_clear()
