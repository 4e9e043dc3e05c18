"""Chooses the steps of a schedule, and the weights of faults in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import Any, TypeVar

from tests.simulation.metadata import TOPIC
from tests.simulation.transport import FETCH, ISR, OBSERVE
from tests.simulation.world import Step, World

T = TypeVar("T")

#: Faults and their weights, beside those of ordinary steps.
FAULTS = {
    "lose": 6, "limbo": 1.5, "cut": 3, "kill": 3, "power": 3, "stop": 2, "pause": 2, "flush": 2, "checkpoint": 2,
    "fill": 0.5, "hold": 2, "failover": 1, "snapshot": 1, "elect": 5, "unclean": 0.4, "trim": 1,
    "reassign": 2, "cancel": 1, "fail_dir": 0.7, "move": 2, "stall": 2, "clock": 1,
}  # fmt: skip


#: Faults that are dangerous together. Each schedule has those of one theme, often.
THEMES = (
    (),
    ("elect", "cut"),
    ("kill", "lose", "limbo"),
    ("power", "limbo", "checkpoint"),
    ("stop", "power", "elect"),
    ("lose", "limbo", "elect"),
    ("hold", "failover", "snapshot"),
    ("trim", "pause", "cut"),
    ("power", "unclean"),
    ("pause", "cut", "elect"),
    ("reassign", "cancel", "elect"),
    ("reassign", "power", "lose"),
    ("move", "fail_dir", "lose"),
    ("move", "fail_dir", "stop", "reassign"),
    ("stall", "power", "elect"),
    ("clock", "lose", "elect"),
)

#: Steps that clusters with coordinators do not have: losses of records, after which little can be checked.
WITHOUT_COORDINATORS = ("fill", "unclean")
WITH_COORDINATORS = ("clock",)


class Chooser:
    """Chooses steps. The weights of faults are drawn once for each schedule, and many faults are left out."""

    def __init__(self, random: Random, world: World) -> None:
        self._random = random
        self._world = world
        weights = {"go": 60.0, "write": 12.0, "tick": 4.0, "start": 5.0, "resume": 2.0, "heal": 2.0, "commit": 3.0}
        weights |= {"unstall": 2.0, "repair": 2.0}
        is_coordinated = world.config.transactions > 0
        if is_coordinated:
            weights |= {"client": 40.0, "write": 1.0, "settle": 12.0}
        for fault, weight in FAULTS.items():
            if random.random() < (0.2 if is_coordinated else 0.5):
                weights[fault] = weight * random.choice((0.5, 1.0, 2.0))
        for fault in THEMES[random.randrange(len(THEMES))]:
            weights[fault] = FAULTS[fault] * 3
        for name in WITHOUT_COORDINATORS if is_coordinated else WITH_COORDINATORS:
            weights.pop(name, None)
        #: Partitions of clients, which they write to and delete records from.
        self._data = world.config.partitions - 2 * is_coordinated
        self._choose_go = self._go
        self._all = self._table(weights)
        del weights["go"]
        #: Exchanges that seldom move: by source and kind.
        slow = random.choice((0.0, 0.1, 0.3))
        self._slow = {(each, kind) for each in world.disks for kind in (OBSERVE, ISR, FETCH) if random.random() < slow}
        self._others = self._table(weights)

    def _table(self, weights: dict[str, float]) -> tuple[list[Callable[[], Step | None]], list[float]]:
        methods = {"go": self._choose_go}
        chosen = [methods.get(name) or getattr(self, f"_{name}") for name in weights]
        return chosen, list(accumulate(weights.values()))

    def next(self) -> Step:
        """Return a step that can be carried out."""
        random = self._random.random
        methods, bounds = self._all
        while True:
            choose = methods[bisect_right(bounds, random() * bounds[-1])]
            step = choose()
            if step is not None:
                return step
            if choose is self._choose_go:
                methods, bounds = self._others

    def _one_of(self, found: Sequence[T]) -> T:
        return found[int(self._random.random() * len(found))]

    def _go(self) -> Step | None:
        random, matters = self._random.random, self._world.matters
        found = list(self._world.network.exchanges.items())
        for last in range(len(found) - 1, -1, -1):
            index = int(random() * (last + 1))
            route, each = found[index]
            found[index] = found[last]
            if matters(route, each) and ((route.source, route.kind) not in self._slow or random() < 0.1):
                return ("go", *route)
        return None

    # -- each returns a step, or None if it can do nothing now ---------------------------------------------------------

    def _running(self, name: str, *arguments: object) -> Step | None:
        found = [each for each in self._world.processes if each not in self._world.paused]
        return (name, self._one_of(found), *arguments) if found else None

    def _partition(self) -> int:
        return self._random.randrange(self._world.config.partitions)

    def _data_partition(self) -> int:
        return self._random.randrange(self._data)

    def _write(self) -> Step | None:
        partition = self._data_partition()
        leaders = [
            each
            for each, process in self._world.processes.items()
            if (TOPIC, partition) in process.leaders.partitions and process.serves and each not in self._world.paused
        ]
        acks = self._one_of(("all", "all", "all", "one"))
        return ("write", self._one_of(leaders), partition, acks) if leaders else None

    def _tick(self) -> Step:
        return ("tick", self._one_of((100, 500, 1000, 2000, 4000, 10_000)))

    def _start(self) -> Step | None:
        found = [each for each in self._world.disks if each not in self._world.processes]
        return ("start", self._one_of(found)) if found else None

    def _stop(self) -> Step | None:
        return self._running("stop")

    def _kill(self) -> Step | None:
        return self._running("kill")

    def _power(self) -> Step | None:
        return ("kill", self._random.randint(1, self._world.config.brokers), self._one_of((0, 0, 1, 2)))

    def _pause(self) -> Step | None:
        return self._running("pause")

    def _resume(self) -> Step | None:
        paused = sorted(self._world.paused)
        return ("resume", self._one_of(paused)) if paused else None

    def _flush(self) -> Step | None:
        return self._running("flush")

    def _checkpoint(self) -> Step | None:
        return self._running("checkpoint")

    def _fill(self) -> Step | None:
        return self._running("fill", self._partition())

    def _trim(self) -> Step | None:
        partition = self._data_partition()
        leaders = [
            each for each, process in self._world.processes.items() if (TOPIC, partition) in process.leaders.partitions
        ]
        if not leaders:
            return None
        broker_id = self._one_of(leaders)
        leader = self._world.processes[broker_id].leaders.partitions[TOPIC, partition]
        first, end = leader.log.log_start_offset, leader.state.high_watermark
        return ("trim", broker_id, partition, self._random.randint(first + 1, end)) if first < end else None

    def _lose(self) -> Step | None:
        routes = [each for each in self._world.network.exchanges if each.source not in self._world.paused]
        kind = self._one_of(sorted({each.kind for each in routes})) if routes else ""
        routes = [each for each in routes if each.kind == kind]
        how = self._one_of(("request", "response", "response", "limbo", "limbo"))
        return ("lose", *self._one_of(routes), how) if routes else None

    def _limbo(self) -> Step | None:
        count = len(self._world.network.limbo)
        return ("limbo", self._random.randrange(count)) if count else None

    def _cut(self) -> Step:
        return ("cut", *self._random.sample(range(self._world.config.brokers + 1), 2))

    def _heal(self) -> Step | None:
        return ("heal",) if self._world.network.cut else None

    def _hold(self) -> Step | None:
        return None if self._world.controller.holds else ("hold",)

    def _commit(self) -> Step | None:
        return ("commit",) if self._world.controller.holds else None

    def _failover(self) -> Step:
        return ("failover", self._random.randrange(3))

    def _snapshot(self) -> Step | None:
        controller = self._world.controller
        return ("snapshot",) if controller.committed > controller.log.start else None

    def _elect(self) -> Step | None:
        partition = self._partition()
        state = self._world.controller.image.partitions[TOPIC, partition]
        found = [each for each in state.isr or state.eligible_leader_replicas if each != state.leader]
        return ("elect", partition, self._one_of(found)) if found else None

    def _reassign(self) -> Step:
        ids = range(1, self._world.config.brokers + 1)
        return ("reassign", self._partition(), *self._random.sample(ids, self._one_of((2, 3, 3))))

    def _cancel(self) -> Step | None:
        moving = [key[1] for key, each in self._world.controller.image.partitions.items() if each.is_reassigning]
        return ("cancel", self._one_of(moving)) if moving else None

    def _fail_dir(self) -> Step:
        return ("fail_dir", self._random.randint(1, self._world.config.brokers), self._random.randrange(2))

    def _repair(self) -> Step | None:
        found = [each for each, disk in self._world.disks.items() if disk.failed - disk.repaired]
        return ("repair", self._one_of(found)) if found else None

    def _move(self) -> Step | None:
        return self._running("move", self._partition())

    def _stall(self) -> Step | None:
        return self._running("stall")

    def _unstall(self) -> Step | None:
        stalled = sorted(self._world.stalled)
        return ("unstall", self._one_of(stalled)) if stalled else None

    def _unclean(self) -> Step | None:
        return None if self._world.controller.unclean_allowed else ("unclean",)

    # -- clusters with coordinators -----------------------------------------------------------------------------------

    def _settle(self) -> Step:
        return ("settle", 1)

    def _client(self) -> Step | None:
        from tests.simulation.coordination.choices import client_step

        world: Any = self._world
        return client_step(world, self._random)

    def _clock(self) -> Step:
        from tests.simulation.coordination.choices import clock_step

        world: Any = self._world
        return clock_step(world, self._random)
