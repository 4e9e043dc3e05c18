"""Chooses the steps of clients of coordinators."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.coordination.clients import TransactionalClient
from tests.simulation.coordination.image import Places
from tests.simulation.metadata import TOPIC
from tests.simulation.transport import OLDER

#: This client takes the transactional id of the first one over.
SECOND = 12

if TYPE_CHECKING:
    from tests.simulation.coordination.world import CoordinatedWorld
    from tests.simulation.world import Step


def client_step(world: CoordinatedWorld, random: Random) -> Step | None:
    """Return a request of a client to a broker that believes it leads the partition, or None."""
    client = random.choice(list(world.clients.values()))
    places = Places(world.config.partitions)
    if not isinstance(client, TransactionalClient):
        verb = random.choice(("commit", "commit", "find", "find-transactional"))
        return _step(world, random, client.id, verb, places.offsets)
    if client.producer is None:
        if client.id == SECOND and random.random() < 0.8:
            return None
        return _step(world, random, client.id, "init", places.transactions)
    if client.ending is not None or random.random() < 0.3:
        verb = "commit" if client.may_commit and random.random() < 0.7 else "abort"
        return _step(world, random, client.id, "end", places.transactions, verb)
    chance = random.random()
    if chance < 0.03:
        return ("client", client.id, "restart", 0, 0)
    if chance < 0.2 and world.config.transactions != OLDER:
        return _step(world, random, client.id, "offsets", places.offsets)
    partition = random.randrange(places.data)
    if world.config.transactions == OLDER and partition not in client.joined:
        return _step(world, random, client.id, "join", places.transactions, partition)
    return _step(world, random, client.id, "produce", partition, partition)


def _step(
    world: CoordinatedWorld, random: Random, client_id: int, verb: str, index: int, argument: object = 0
) -> Step | None:
    leaders = [each for each, process in world.processes.items() if (TOPIC, index) in process.leaders.partitions]
    return ("client", client_id, verb, random.choice(leaders), argument) if leaders else None


def clock_step(world: CoordinatedWorld, random: Random) -> Step:
    """Return a step of a broker's wall clock; less than offsets are kept."""
    broker_id = random.randint(1, world.config.brokers)
    return ("clock", broker_id, random.choice((100, 5_000, 60_000, 3_600_000)), random.choice(("forwards", "back")))
