"""Clients that write down what they do, as the load of a test: they get on, and in the end nothing is wrong in it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.support.brokers import HOST
from tests.support.checker import check
from tests.support.history import History, read_history
from tests.support.history_clients import HistoryClient, HistoryProducer, HistoryReader
from tests.support.txn_client import TxnClient

_PATIENCE_S = 120


class HistoryLoad:
    """Producers, and readers of all that they write; they work from now on."""

    def __init__(
        self, history: History, producers: Sequence[HistoryProducer], readers: Sequence[HistoryReader]
    ) -> None:
        self.history = history
        self.producers = producers
        self.readers = readers
        for each in self.clients:
            each.start()

    @property
    def clients(self) -> list[HistoryClient]:
        """All of them."""
        return [*self.producers, *self.readers]

    def get_on(self, count: int, clients: Sequence[HistoryClient] | None = None) -> None:
        """Wait until each of these, of all unless told, has had so many more values acknowledged, or has seen them."""
        waited_for = self.clients if clients is None else clients
        wanted = [each.done + count for each in waited_for]
        deadline = time.monotonic() + _PATIENCE_S
        while behind := [each for each, least in zip(waited_for, wanted, strict=True) if each.done < least]:
            for each in self.clients:
                each.check()
            assert time.monotonic() < deadline, f"{[(each.name, each.done) for each in behind]} do not get on"
            time.sleep(0.05)

    def end(self, port: int) -> None:
        """Let all come to their ends; there has to be no anomaly in what they saw. `port`: of the broker."""
        for producer in self.producers:
            producer.finish()
        ids = [producer.name for producer in self.producers if producer.transactional]
        if ids:
            with TxnClient(HOST, port) as client:
                for transactional_id in ids:  # whatever it has left open ends now
                    client.init_patiently(transactional_id)
        for reader in self.readers:
            reader.finish()
        self.history.close()
        assert [str(anomaly) for anomaly in check(read_history(self.history.path))] == []
