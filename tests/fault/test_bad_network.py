"""A network that cuts, delays, half closes and fragments, and a clock that jumps: nothing is lost.

Producers and consumers of two different clients keep running and record what they see (tests/support/history.py).
tests/support/checker.py checks the recorded history.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

from tests.fault.proxy import Proxy, until_one_ends
from tests.support.brokers import HOST, OurBroker
from tests.support.history import History
from tests.support.history_load import stock_load
from tests.support.history_members import sessions
from tests.support.jumping_clock import HOUR_MS, JumpingBroker
from tests.support.ports import free_port
from tests.support.scale import scaled

_PIECE = 1 << 16
#: at most so many bytes of a connection are passed one by one
_DRIBBLE = 2_000
_HELD_S = 0.2
#: how long the other direction of a half-closed connection stays open, at most
_HALF_OPEN_S = 1.0


class FaultProxy(Proxy):
    """A proxy with faults, which `done` counts. A connection that is opened while `faulty` is False has none."""

    def __init__(self, target: int, seed: int) -> None:
        self.faulty = True
        self.done: Counter[str] = Counter()
        self._chance = random.Random(seed)
        super().__init__(target)

    async def relay(
        self,
        client: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
        broker: asyncio.StreamReader,
        answers: asyncio.StreamWriter,
    ) -> None:
        await until_one_ends(self._pass(client, requests), self._pass(broker, answers), others_s=_HALF_OPEN_S)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass bytes in one direction until its end or a half close; ConnectionError cuts both directions."""
        faulty, chance = self.faulty, self._chance
        dribble = _DRIBBLE if faulty and chance.random() < 0.2 else 0
        left = chance.randrange(200, 40_000) if faulty and chance.random() < 0.5 else None
        half = chance.random() < 0.3
        while data := await source.read(_PIECE):
            if left is not None and len(data) >= left:
                data = data[:left]
            if faulty and chance.random() < 0.02:
                self.done["held back"] += 1
                await asyncio.sleep(chance.uniform(0, _HELD_S))
            while dribble and data:
                self.done["single bytes"] += 1
                target.write(data[:1])
                data, dribble = data[1:], dribble - 1
                if left is not None:
                    left -= 1
                await asyncio.sleep(0)
            target.write(data)
            await target.drain()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    self.done["half closed" if half else "cut"] += 1
                    if not half:
                        raise ConnectionResetError
                    break
        if target.can_write_eof():
            target.write_eof()


PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
PATIENCE_S = 120
#: Longer than a busy machine delays members or their broker, and far shorter than the jumps of the clock.
SESSION_MS = 30_000


def test_nothing_is_lost_on_a_bad_network(tmp_path: Path, history: History) -> None:
    """Connections are cut, half closed, delayed and delivered byte by byte. Now and then all are cut at once."""
    port = free_port()
    with FaultProxy(port, seed=8) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"}
        with OurBroker(tmp_path / "broker", {**PROPERTIES, **advertised}, port=port) as broker:
            load = stock_load(broker, history, bootstrap=f"{HOST}:{proxy.port}")
            for _ in range(min(100, scaled(2))):
                load.get_on(50)
                proxy.cut_all()
            kinds = {"cut", "half closed", "held back", "single bytes"}
            deadline = time.monotonic() + PATIENCE_S
            while not kinds <= set(proxy.done):
                assert time.monotonic() < deadline, proxy.done
                load.get_on(10)
                proxy.cut_all()
            proxy.faulty = False
            proxy.cut_all()
            load.end(broker.bootstrap)
            assert broker.stop() == 0
            assert "Traceback" not in broker.output


def test_a_clock_that_jumps_ends_nothing_but_transactions(tmp_path: Path, history: History) -> None:
    """An hour forward and back, repeatedly. As in Apache Kafka, transactions time out by the wall clock.

    Sessions do not: no member of a group loses its partitions.
    """
    # By default, as in Kafka, the broker rejects records with a timestamp more than an hour ahead.
    early = {"log.message.timestamp.after.max.ms": str(2 * HOUR_MS)}
    with JumpingBroker(tmp_path / "broker", {**PROPERTIES, **sessions(SESSION_MS), **early}) as broker:
        load = stock_load(broker, history, session_ms=SESSION_MS)
        load.get_on(20)
        lives = [member.lives for member in load.members]
        for hours in [1, 0, -1, 0] * min(10, scaled(1)):
            broker.jump(hours * HOUR_MS)
            load.get_on(20)
        assert [member.lives for member in load.members] == lives
        load.end(broker.bootstrap)
        assert {producer.lives for producer in load.producers if not producer.transactional} == {1}
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
