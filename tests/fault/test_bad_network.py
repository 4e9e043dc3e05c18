"""A network that cuts, delays, half closes and fragments, and a clock that jumps: nothing is lost.

Producers and consumers of two different clients keep running and record what they see (tests/support/history.py).
tests/support/checker.py checks the recorded history.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.brokers import HOST, OurBroker
from tests.support.fault_proxy import FaultProxy
from tests.support.history import History
from tests.support.history_load import stock_load
from tests.support.history_members import sessions
from tests.support.jumping_clock import HOUR_MS, JumpingBroker
from tests.support.ports import free_port
from tests.support.scale import scaled

PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
PATIENCE_S = 120
#: Longer than a busy machine delays members or their broker, and far shorter than the jumps of the clock.
SESSION_MS = 30_000


def test_nothing_is_lost_on_a_bad_network(tmp_path: Path, history: History) -> None:
    """Connections are cut, half closed, delayed and delivered byte by byte. Now and then all are cut at once."""
    port = free_port()
    with FaultProxy(port, seed=8) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"}
        broker = OurBroker(tmp_path / "broker", {**PROPERTIES, **advertised}, port=port)
        try:
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
            load.end(broker.port)
            assert broker.stop() == 0
            assert "Traceback" not in broker.output
        finally:
            broker.kill()


def test_a_clock_that_jumps_ends_nothing_but_transactions(tmp_path: Path, history: History) -> None:
    """An hour forward and back, repeatedly. As in Apache Kafka, transactions time out by the wall clock.

    Sessions do not: no member of a group loses its partitions.
    """
    # By default, as in Kafka, the broker rejects records with a timestamp more than an hour ahead.
    early = {"log.message.timestamp.after.max.ms": str(2 * HOUR_MS)}
    broker = JumpingBroker(tmp_path / "broker", {**PROPERTIES, **sessions(SESSION_MS), **early})
    try:
        load = stock_load(broker, history, session_ms=SESSION_MS)
        load.get_on(20)
        lives = [member.lives for member in load.members]
        for hours in [1, 0, -1, 0] * min(10, scaled(1)):
            broker.jump(hours * HOUR_MS)
            load.get_on(20)
        assert [member.lives for member in load.members] == lives
        load.end(broker.port)
        assert {producer.lives for producer in load.producers if not producer.transactional} == {1}
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.kill()
