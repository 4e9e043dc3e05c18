"""Seeded schedules: a random choice of steps. Each schedule draws its own cluster and its own weights of faults."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from random import Random
from typing import NamedTuple

from tests.simulation.chooser import Chooser
from tests.simulation.own_controller import quiet
from tests.simulation.scripts import script, scripts
from tests.simulation.starting import start
from tests.simulation.transport import FETCH, ISR, LIFE, NEWER, OBSERVE, OLDER, Config
from tests.simulation.violation import Violation
from tests.simulation.wholeness import trouble, trouble_of_directories
from tests.simulation.world import Step, World, carry_out

#: The steps of a schedule; the share of schedules after which the cluster must recover, and how long it may take.
LENGTHS = (60, 100, 200)
RECOVERED = 0.2
#: The share of schedules that begin with a stored script; how many of its steps are left out, and how many others
#: follow: each of them may lead away from its dangerous state.
FROM_SCRIPTS = 0.2
LEFT_OUT = (0, 0, 1, 2)
LENGTHS_AFTER_SCRIPTS = (0, 10, 100)
MOST_ROUNDS = 80
#: One seed of so many has transactions and groups: the last one.
COORDINATED = 16
#: After that many rounds without faults the controller knows which directories have failed.
CALM_ROUNDS = 24
RECOVER: Step = ("recover",)
#: The cycles of some worlds together make that many objects.
COLLECTED = 50_000


class Failure(NamedTuple):
    """A schedule in which an invariant does not hold."""

    seed: int
    config: Config
    steps: tuple[Step, ...]
    check: str
    message: str

    @property
    def script(self) -> str:
        return script(self.config, self.steps, f"seed {self.seed}: {self.message}")


def has_own_controller(seed: int) -> bool:
    """Half of all schedules, and half of those with coordinators, have pybroker's own controller."""
    return (seed ^ seed // COORDINATED) % 2 == 1


def configure(random: Random, *, is_coordinated: bool) -> Config:
    """Draw a cluster."""
    protocol = random.choice((OLDER, NEWER, NEWER)) if is_coordinated else 0
    return Config(
        brokers=random.choice((3, 3, 3, 4)),
        min_isr=random.choice((1, 2, 2)),
        partitions=random.choice((1, 1, 1, 2)) + 2 * bool(protocol),
        in_transactions=random.random() < 0.25,
        reads_late=random.random() < 0.2,
        two_steps=random.choice(((), (FETCH,), (ISR, FETCH), (ISR,), (OBSERVE, LIFE))),
        transactions=protocol,
    )


def begin(seed: int, random: Random, own_controller: bool | None = None) -> tuple[Config, tuple[Step, ...]]:
    """Draw a cluster and the first steps: none, or most of a stored script, which leads to a dangerous state.

    A RECOVER among them belongs to the end of the schedule.
    """
    if own_controller is None:
        own_controller = has_own_controller(seed)
    config, steps = _begin(seed, random)
    return config._replace(own_controller=own_controller), steps


def _begin(seed: int, random: Random) -> tuple[Config, tuple[Step, ...]]:
    is_coordinated = seed % COORDINATED == COORDINATED - 1
    found = [each for each in scripts().values() if (each[0].transactions > 0) == is_coordinated]
    if random.random() >= FROM_SCRIPTS or not found:
        return configure(random, is_coordinated=is_coordinated), ()
    config, steps = random.choice(found)
    left_out = random.sample(range(len(steps)), random.choice(LEFT_OUT)) if len(steps) > 2 else []
    return config, tuple(each for index, each in enumerate(steps) if index not in left_out)


def recover(world: World) -> None:
    """End all faults. The cluster must then become whole. Raises Violation."""
    world.heal()
    world.commit()
    for broker_id in world.disks:
        world.resume(broker_id)
        world.unstall(broker_id)
        world.start(broker_id)
    if any(disk.failed for disk in world.disks.values()):
        world.settle(CALM_ROUNDS)
        failed = trouble_of_directories(world)
        if failed is not None:
            raise Violation("D replicas in failed directories", failed)
    for broker_id in world.failed_disks:
        world.kill(broker_id)
    for each in world.disks.values():
        each.repair()
    for broker_id in world.disks:
        world.start(broker_id)
    found: str | None = ""
    for count in range(MOST_ROUNDS):
        world.finish_clients()
        world.settle(1 if not world.config.transactions else 2)
        for broker_id in world.disks:
            world.start(broker_id)  # one that was stopping has stopped
        found = trouble(world) or world.open_transaction()
        if found is None:
            return
        if count == MOST_ROUNDS // 2:
            world.unclean()
    raise Violation("L the cluster recovers", found or "")


@contextmanager
def many() -> Iterator[None]:
    """Run many schedules in less time: the log is silenced once, and several worlds are collected together."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED, *before[1:])
    try:
        with quiet():
            yield
    finally:
        gc.set_threshold(*before)


def run(seed: int, own_controller: bool | None = None) -> Failure | None:
    """Run the schedule of a seed. Return how it failed, or None. Any exception of a state machine is a failure, too.

    `own_controller`: whether pybroker's own controller is active; None: as the seed says.
    """
    with quiet():
        return _run(seed, own_controller)


def _run(seed: int, own_controller: bool | None) -> Failure | None:
    random = Random(seed)
    config, first = begin(seed, random, own_controller)
    steps: list[Step] = []
    try:
        world = start(config)
        chooser = Chooser(random, world)
        for step in first:
            if step != RECOVER:
                steps.append(step)
                carry_out(world, step)
        for _ in range(random.choice(LENGTHS_AFTER_SCRIPTS if first else LENGTHS)):
            step = chooser.next()
            steps.append(step)
            carry_out(world, step)
        if RECOVER in first or random.random() < RECOVERED:
            steps.append(RECOVER)
            recover(world)
    except Exception as found:
        return Failure(seed, config, tuple(steps), *_name(found))
    return None


def _name(found: Exception) -> tuple[str, str]:
    name = found.name if isinstance(found, Violation) else f"E {type(found).__name__}"
    return name, str(found) if isinstance(found, Violation) else f"{name}: {found}"


def describe(seed: int) -> str:
    """Return a digest of all steps of a seed's schedule and of the logs at its end."""
    with quiet():
        return _describe(seed)


def _describe(seed: int) -> str:
    random = Random(seed)
    config, first = begin(seed, random)
    world = start(config)
    chooser = Chooser(random, world)
    found: list[object] = [(step, carry_out(world, step)) for step in first if step != RECOVER]
    for _ in range(random.choice(LENGTHS_AFTER_SCRIPTS if first else LENGTHS)):
        step = chooser.next()
        found.append((step, carry_out(world, step)))
    for disk in world.disks.values():
        found += [(log.entries, log.epochs, log.high_watermark, log.flushed) for log in disk.logs.values()]
    found.append(world.controller.image.partitions)
    return sha256(repr(found).encode()).hexdigest()


def replay(config: Config, steps: tuple[Step, ...]) -> tuple[str, str] | None:
    """Carry out given steps; those that are not possible are left out. Return the check that fails and its message."""
    with quiet():
        return _replay(config, steps)


def _replay(config: Config, steps: tuple[Step, ...]) -> tuple[str, str] | None:
    try:
        world = start(config)
        for step in steps:
            if step == RECOVER:
                recover(world)
            else:
                carry_out(world, step)
    except Exception as found:
        return _name(found)
    return None
