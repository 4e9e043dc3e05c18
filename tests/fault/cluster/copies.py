"""A copier with transactions, as a part of a cluster's load: its copy is exact."""

from __future__ import annotations

from confluent_kafka import TopicPartition

from tests.conformance.replacement_load import COPY, Copier, committed_consumer, values
from tests.fault.cluster.nodes import Cluster
from tests.support.brokers import HOST
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.history import History
from tests.support.history_load import PLAIN

_PATIENCE_S = 120


class Copies:
    """Copies the topic "plain" of a running cluster, with the offsets of a group in the same transactions."""

    def __init__(self, running: Cluster, history: History) -> None:
        self._bootstrap = running.bootstrap
        with DataClient(HOST, running.brokers[1].port) as client:
            client.create_topic(COPY, 2, replicas=3)
        running.wait_for_all_in_sync(COPY)
        self._copier = Copier("copier", running.bootstrap, PLAIN, history)
        self._copier.start()

    def go_on(self, count: int) -> None:
        """Wait until so many more records are copied."""
        wanted = self._copier.done + count

        def behind() -> int:
            self._copier.check()
            return max(0, wanted - self._copier.done)

        eventually(behind, "progress of the copier", equal_to=0, timeout_s=_PATIENCE_S, interval_s=0.05)

    def end(self) -> None:
        """Wait until all is copied, and compare. Nobody writes to the topic meanwhile."""
        asking = committed_consumer(self._bootstrap, self._copier.name)
        for topic, index in PLAIN:
            place = TopicPartition(topic, index)
            end = asking.get_watermark_offsets(place, _PATIENCE_S)[1]

            def left(place: TopicPartition = place, end: int = end) -> int:
                self._copier.check()
                return max(0, end - int(asking.committed([place], _PATIENCE_S)[0].offset))

            eventually(left, f"the copier commits {end} of {place}", equal_to=0, timeout_s=_PATIENCE_S, interval_s=0.1)
        asking.close()
        self._copier.finish()
        assert values(self._bootstrap, COPY) == values(self._bootstrap, "plain")
