"""Measure a controller with 100 brokers and 10,000 partitions: `python -m bench controller [--only ours]`.

pybroker's controller, then Apache Kafka's, each alone on the first core; the brokers are simulated on the second
(bench/comparison/simulated_brokers.py): they register, send heartbeats every two seconds, and fetch the metadata log.
Partitions have three replicas. One broker leads 1,000 of them, and some of the others.

    at rest    heartbeats alone; then with fetches, and the record every 500 ms that shows brokers that they are current
    fence      the leader asks to be fenced; elect: it is in sync again, and is elected where it is preferred
    end        the leader begins a controlled shutdown, and then a new process of it sends nothing more
    alter      leaders change in-sync sets (AlterPartition), each with one request in flight

Times are in ms: until the request is answered, until the first broker has all changes, and until the last one has
them; medians, and the best of the rounds, which shows most on a machine with other work. Processor time is the
controller's, from /proc. A JVM needs some rounds until it is fast: the first ones (`--warm`) do not count.

    --brokers 100 --partitions 10000 --rounds 20 --warm 5 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import uvloop

from bench.compare import show
from bench.comparison import machine
from bench.comparison.brokers import on_first_core, start_again
from bench.comparison.controllers import KINDS, SESSION_S
from bench.comparison.figures import rounded
from bench.comparison.simulated_cluster import LED, PER_TOPIC, Moved, SimulatedCluster
from bench.comparison.usage import cpu_seconds, memory_mb
from metadata.partition_registration import PartitionRegistration
from protocol.messages.alter_partition import RequestTopicData
from tests.support.brokers import RunningBroker

_SETTLED_S = 2
_ALTERED = (1, 50)

#: Name of the load, and of the figure with its unit.
Name = tuple[str, str]


class Measured:
    """The figures of one controller, by their names in order."""

    def __init__(self, controller: RunningBroker, options: argparse.Namespace) -> None:
        self.figures: dict[Name, float] = {}
        self._controller = controller
        self._options = options
        self._used = 0.0

    def run(self) -> None:
        """Measure all."""
        uvloop.run(self._run_with_brokers())
        self._measure_start()

    async def _run_with_brokers(self) -> None:
        options = self._options
        self._take("start", "MB of memory", memory_mb(self._controller.pid))
        async with SimulatedCluster.started(self._controller.port, options.brokers) as cluster:
            await self._create(cluster)
            for name in options.loads:
                await _LOADS[name](self, cluster)
        self._take("after all of it", "MB of memory", memory_mb(self._controller.pid))

    def _take(self, load: str, what: str, value: float) -> None:
        self.figures[load, what] = value
        print(f"{self._controller.kind}: {load}, {what}: {rounded(value)}", file=sys.stderr, flush=True)

    def _cpu_s(self) -> float:
        """Return the processor time of the controller since the last call."""
        before, self._used = self._used, cpu_seconds(self._controller.pid)
        return self._used - before

    # ---- loads

    async def _create(self, cluster: SimulatedCluster) -> None:
        """Create the topics one after the other."""
        options = self._options
        self._cpu_s()
        began = time.perf_counter()
        await cluster.create(LED, PER_TOPIC)
        for number in range(options.partitions // PER_TOPIC - 1):
            await cluster.create(f"t{number}", PER_TOPIC)
        self._take("create", "s until all is answered", time.perf_counter() - began)
        await cluster.everybody_knows(options.partitions)
        self._take("create", "s until all brokers know", time.perf_counter() - began)
        self._take("create", "CPU s", self._cpu_s())
        self._take("create", "MB of memory", memory_mb(self._controller.pid))

    async def rest(self, cluster: SimulatedCluster) -> None:
        """Let the brokers send heartbeats alone, and then fetch, too."""
        seconds = self._options.seconds
        for name in ("heartbeats alone", "with fetches"):
            cluster.rest()
            cluster.beat()
            if name == "with fetches":
                for each in cluster.brokers.values():
                    each.follow()
            await asyncio.sleep(_SETTLED_S)
            self._cpu_s()
            before = sum(each.fetch_count for each in cluster.brokers.values())
            await asyncio.sleep(seconds)
            fetches = sum(each.fetch_count for each in cluster.brokers.values()) - before
            self._take("at rest", f"% of a core, {name}", 100 * self._cpu_s() / seconds)
            if fetches:
                self._take("at rest", "fetches a second", fetches / seconds)
            cluster.forget()

    async def fence(self, cluster: SimulatedCluster) -> None:
        """Move the leaders away and back, some times."""
        away: list[tuple[Moved, float]] = []
        back: list[tuple[Moved, float]] = []
        for _ in range(self._options.warm + self._options.rounds):
            away.append(await self._timed(cluster.fence))
            await cluster.unfence_leader()
            await cluster.join_in_sync_replicas()
            back.append(await self._timed(cluster.elect_preferred))
        self._times("fence", away[self._options.warm :])
        self._times("elect", back[self._options.warm :])

    async def _timed(self, move: Callable[[], Awaitable[Moved]]) -> tuple[Moved, float]:
        self._cpu_s()
        return await move(), self._cpu_s()

    async def end_leader(self, cluster: SimulatedCluster) -> None:
        """End the leader in order, and then without a word. A new process follows each time its session is over."""
        self._times("shut down", [await self._timed(cluster.shut_down)])
        await asyncio.sleep(SESSION_S + 1)
        await self._start_leader(cluster)
        silent = await cluster.fall_silent()
        self._take("session", "ms beyond it, the last broker", silent.last_ms - 1000 * SESSION_S)
        await self._start_leader(cluster)

    @staticmethod
    async def _start_leader(cluster: SimulatedCluster) -> None:
        await cluster.start_leader()
        await cluster.join_in_sync_replicas()
        await cluster.elect_preferred()

    def _times(self, name: str, rounds: Sequence[tuple[Moved, float]]) -> None:
        def take(what: str, of: Callable[[Moved], float]) -> None:
            values = [of(each) for each, _ in rounds]
            self._take(name, f"ms, {what}", statistics.median(values))
            if len(values) > 1:
                self._take(name, f"ms, {what}, best", min(values))

        take("answered", lambda each: each.answered_ms)
        take("first broker", lambda each: each.first_ms)
        take("last broker", lambda each: each.last_ms)
        self._take(name, "CPU ms", 1000 * statistics.median(used for _, used in rounds))

    async def alter(self, cluster: SimulatedCluster) -> None:
        """Change in-sync sets back and forth, some partitions a request, one request a broker at a time."""
        cluster.forget()
        load = [_Alterations(cluster, each) for each in cluster.brokers]
        tasks = [asyncio.create_task(each.run()) for each in load]
        for size in _ALTERED:
            for each in load:
                each.size = size
            await asyncio.sleep(self._options.seconds)  # until the code is warm
            self._cpu_s()
            before, began = sum(each.count for each in load), time.perf_counter()
            await asyncio.sleep(self._options.seconds)
            changed, took, used = sum(each.count for each in load) - before, time.perf_counter() - began, self._cpu_s()
            name = f"alter, {size} partition{'' if size == 1 else 's'} a request"
            self._take(name, "partitions a second", changed / took)
            self._take(name, "CPU us a partition", 1e6 * used / max(changed, 1))
        for each in load:
            each.is_over = True
        await asyncio.gather(*tasks)

    def _measure_start(self) -> None:
        self._take("start again", "s until it answers", start_again(self._controller))
        time.sleep(_SETTLED_S)
        self._take("start again", "CPU s", cpu_seconds(self._controller.pid))
        self._take("start again", "MB of memory", memory_mb(self._controller.pid))


class _Alterations:
    """A broker that takes the last follower of its partitions out of the in-sync set, and puts it in again.

    `size` is the number of partitions in a request, `count` that of changes so far.
    """

    def __init__(self, cluster: SimulatedCluster, broker_id: int) -> None:
        self.size = 1
        self.count = 0
        self.is_over = False
        self._cluster = cluster
        self._broker = cluster.brokers[broker_id]
        self._led = {
            (topic_id, number): each
            for topic_id, partitions in cluster.led_by(broker_id).items()
            for number, each in partitions.items()
        }

    async def run(self) -> None:
        """Change them until `is_over`."""
        while not self.is_over:
            assert self._led, "the controller refuses all changes"
            for at in range(0, len(self._led), self.size):
                if not self.is_over:
                    await self._change(list(self._led)[at : at + self.size])

    async def _change(self, keys: Sequence[tuple[bytes, int]]) -> None:
        topics = []
        for topic_id, found in itertools.groupby(sorted(keys), key=lambda key: key[0]):
            partitions = [self._cluster.proposal(key[1], self._led[key], _other(self._led[key])) for key in found]
            topics.append(RequestTopicData(topic_id=topic_id, partitions=partitions))
        for topic in (await self._broker.alter(topics)).topics:
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                if each.error_code:  # a broker was fenced, because the machine was too busy for its heartbeats
                    del self._led[key]
                    continue
                self._led[key] = self._led[key]._replace(isr=tuple(each.isr), partition_epoch=each.partition_epoch)
                self.count += 1


_LOADS: dict[str, Callable[[Measured, SimulatedCluster], Awaitable[None]]] = {
    "fence": Measured.fence,
    "alter": Measured.alter,
    "rest": Measured.rest,  # when a JVM has compiled its code
    "end": Measured.end_leader,
}


def _other(partition: PartitionRegistration) -> tuple[int, ...]:
    """Return the other of both in-sync sets."""
    replicas = partition.replicas
    return replicas if len(partition.isr) < len(replicas) else replicas[:-1]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="a controller, here and in Apache Kafka")
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=10_000, help="a multiple of 1,000")
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=_LOADS, default=_LOADS, help=", ".join(_LOADS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args(argv)
    kinds = [KINDS[options.only]] if options.only else list(KINDS.values())
    print(f"{machine.description()}\n", flush=True)
    found: list[dict[Name, float]] = []
    with tempfile.TemporaryDirectory(prefix="controller-") as scratch:
        for kind in kinds:
            with on_first_core():
                controller = kind(Path(scratch) / kind.kind)
            try:
                measured = Measured(controller, options)
                measured.run()
            finally:
                controller.kill()
            found.append(measured.figures)
    for load, what in found[0]:
        values = [figures[load, what] for figures in found]
        show(load, what, values, more_is_better=what.endswith("a second"))


if __name__ == "__main__":
    main(sys.argv[1:])
