"""A network that cuts, holds back, half closes and dribbles, a clock that jumps, a broker that sleeps: nothing is lost.

Producers and readers of two unlike clients go on through it, and write down what they see (tests/support/history.py);
what they wrote is checked by tests/support/checker.py.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.support.brokers import HOST, OurBroker, free_port
from tests.support.data_client import DataClient
from tests.support.fault_proxy import FaultProxy
from tests.support.history import History, Partition
from tests.support.history_clients import (
    REQUEST_TIMEOUT_MS,
    PythonProducer,
    PythonReader,
    RdkafkaProducer,
    RdkafkaReader,
)
from tests.support.history_load import HistoryLoad
from tests.support.jumping_clock import JumpingBroker
from tests.support.scale import scaled

PLACES: list[Partition] = [("plain", 0), ("plain", 1), ("moved", 0), ("moved", 1)]
PLAIN, MOVED = PLACES[:2], PLACES[2:]
PROPERTIES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
HOUR_MS = 3_600_000
PATIENCE_S = 120
#: Longer than clients wait for an answer, and than a session lasts.
SLEEP_S = REQUEST_TIMEOUT_MS / 1000 + 1


def clients(bootstrap: str, port: int, history: History) -> HistoryLoad:
    """Two idempotent and two transactional producers, and two readers of all that they write."""
    with DataClient(HOST, port) as client:
        for topic in ("plain", "moved"):
            client.create_topic(topic, 2)
    producers = [
        RdkafkaProducer("rd", bootstrap, PLAIN, history),
        PythonProducer("py", bootstrap, PLAIN, history),
        RdkafkaProducer("rd-tx", bootstrap, MOVED, history, transactional=True),
        PythonProducer("py-tx", bootstrap, MOVED, history, transactional=True),
    ]
    readers = [
        RdkafkaReader("rd-reader", bootstrap, PLACES, history),
        PythonReader("py-reader", bootstrap, PLACES, history),
    ]
    return HistoryLoad(history, producers, readers)


def test_nothing_is_lost_on_a_bad_network(tmp_path: Path, history: History) -> None:
    """Connections are cut, half closed, held up and handed over byte by byte; now and then all are cut at once."""
    port = free_port()
    with FaultProxy(port, seed=8) as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{HOST}:{proxy.port}"}
        broker = OurBroker(tmp_path / "broker", {**PROPERTIES, **advertised}, port=port)
        try:
            load = clients(f"{HOST}:{proxy.port}", port, history)
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
    """An hour forward and back, again and again. As in Apache Kafka a transaction's time is that of the wall clock."""
    # Records that are more than an hour early are refused unless told otherwise, which is Kafka's default.
    early = {"log.message.timestamp.after.max.ms": str(2 * HOUR_MS)}
    broker = JumpingBroker(tmp_path / "broker", {**PROPERTIES, **early})
    try:
        load = clients(broker.bootstrap, broker.port, history)
        for hours in [1, 0, -1, 0] * min(10, scaled(1)):
            broker.jump(hours * HOUR_MS)
            load.get_on(20)
        load.end(broker.port)
        assert {producer.lives for producer in load.producers if not producer.transactional} == {1}
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.kill()


def test_a_broker_that_sleeps_goes_on_where_it_was(tmp_path: Path, history: History) -> None:
    """SIGSTOP for longer than sessions, requests and transactions last, then SIGCONT."""
    broker = OurBroker(tmp_path / "broker", {**PROPERTIES, "group.min.session.timeout.ms": "1000"})
    try:
        load = clients(broker.bootstrap, broker.port, history)
        for _ in range(min(5, scaled(1))):
            load.get_on(20)
            os.kill(broker.pid, signal.SIGSTOP)
            time.sleep(SLEEP_S)
            os.kill(broker.pid, signal.SIGCONT)
            load.get_on(20)
        load.end(broker.port)
        assert broker.stop() == 0
        assert "Traceback" not in broker.output
    finally:
        broker.kill()
