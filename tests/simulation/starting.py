"""Running clusters, kept as pickles: a schedule begins with a copy of one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any

from metadata.framing import MetadataRecord
from metadata.partition_registration import PartitionRegistration
from protocol.schema import Api, Struct, StructType
from replication.followed_log import EpochEnd
from replication.lifecycle import LifecycleState
from replication.observing import Endpoint
from tests.simulation.metadata import TOPIC, BrokerState, TopicId, Written
from tests.simulation.network import Route
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
    world.controller.create(placed)
    world.settle(5)
    assert all(not len(each.assignments) for each in world.processes.values())
    world.detach()
    kept = BytesIO()
    _Keeper(kept, pickle.HIGHEST_PROTOCOL).dump(world)
    return kept.getvalue()


#: Values that never change, by the number that stands for each in all copies.
_shared: list[Any] = []
_numbers: dict[Any, int] = {}
_VALUES = (Api, BrokerState, Config, Endpoint, EpochEnd, PartitionRegistration, Route, TopicId, Written)


def _get_shared(index: int) -> Any:
    return _shared[index]


def _get_struct(index: int, values: tuple[Any, ...]) -> Struct:
    found: Callable[..., Struct] = _shared[index]
    return found(*values)


class _Keeper(pickle.Pickler):
    """Pickles the values of messages, whose classes are made at run time."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = value.struct_type.fields
            return _get_struct, (
                self._index(_maker(value.struct_type)),
                tuple(getattr(value, each.name) for each in fields),
            )
        if isinstance(value, _VALUES):
            return _get_shared, (self._index(value, (type(value), value)),)
        return (_get_shared, (self._index(value),)) if isinstance(value, MetadataRecord) else NotImplemented

    @staticmethod
    def _index(value: object, key: object = None) -> int:
        """Return the number of a value; `key` is what equal values have in common, by default nothing."""
        key = id(value) if key is None else key
        if key not in _numbers:
            _numbers[key] = len(_shared)
            _shared.append(value)
        return _numbers[key]


@cache
def _maker(struct_type: StructType) -> Callable[..., Struct]:
    """Return a function that makes a value of all its fields in order."""
    names = [each.name for each in struct_type.fields]
    new = struct_type.new
    return lambda *values: new(**dict(zip(names, values, strict=True)))


def start(config: Config) -> World:
    """Return a running cluster."""
    found = pickle.loads(_started(config._replace(in_transactions=False, two_steps=(), reads_late=False)))
    assert isinstance(found, World)
    found.config = config
    found.controller.in_transactions = config.in_transactions
    found.attach()
    return found


def forget_started() -> None:
    """Start clusters again, after a function was patched."""
    _started.cache_clear()
