"""Clients that note their actions as the load of a test: they make progress, and their history has no anomaly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.brokers import HOST, RunningBroker
from tests.support.checker import check
from tests.support.data_client import DataClient
from tests.support.eventually import eventually
from tests.support.history import History, Partition, ReadAll, read_history
from tests.support.history_clients import (
    ABORTED,
    HistoryClient,
    HistoryProducer,
    HistoryReader,
    PythonProducer,
    PythonReader,
    RdkafkaProducer,
    RdkafkaReader,
)
from tests.support.history_members import HistoryMember, PythonMember, RdkafkaMember
from tests.support.scale import SCALE

#: The shortest round of a producer, in seconds, where a test mostly waits, for sessions that expire or for brokers that
#: start: meanwhile a faster load only takes processor time.
LIGHT_S = 0.02 if SCALE > 1 else 0.1
_PATIENCE_S = 120
#: The topics of stock clients: one written outside of transactions, one in them.
PLAIN: list[Partition] = [("plain", 0), ("plain", 1)]
MOVED: list[Partition] = [("moved", 0), ("moved", 1)]


class HistoryLoad:
    """Running producers, readers of all partitions, and members of groups that read the same."""

    def __init__(
        self,
        history: History,
        producers: Sequence[HistoryProducer],
        readers: Sequence[HistoryReader],
        members: Sequence[HistoryMember] = (),
    ) -> None:
        self.history = history
        self.producers = producers
        self.readers = readers
        self.members = members
        for each in self.clients:
            each.start()

    @property
    def clients(self) -> list[HistoryClient]:
        """Return all clients."""
        return [*self.producers, *self.readers, *self.members]

    def check(self) -> None:
        """Raise the failure of any client."""
        for each in self.clients:
            each.check()

    def get_on(self, count: int, clients: Sequence[HistoryClient] | None = None) -> None:
        """Wait until each of these clients, by default each one, has `count` more acknowledged or read values."""
        waited_for = self.clients if clients is None else clients
        wanted = [each.done + count for each in waited_for]

        def behind() -> list[tuple[str, int]]:
            self.check()
            return [(each.name, each.done) for each, least in zip(waited_for, wanted, strict=True) if each.done < least]

        eventually(behind, "progress of clients", equal_to=[], timeout_s=_PATIENCE_S, interval_s=0.05)

    def end(self, bootstrap: str) -> None:
        """End all clients; their history must have no anomaly. `bootstrap`: of brokers that all work."""
        for producer in self.producers:
            producer.finish()
        for producer in self.producers:
            if producer.transactional:
                end_transaction(bootstrap, producer.name)
        for group in {member.group for member in self.members}:
            self._read_all(bootstrap, group)
        for reader in (*self.readers, *self.members):
            reader.finish()
        self.history.close()
        assert [str(anomaly) for anomaly in check(read_history(self.history.path))] == []

    def _read_all(self, bootstrap: str, group: str) -> None:
        """Wait until a group has committed the ends of all that its members read."""
        config = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
        asking = Consumer(config)
        places = [TopicPartition(*place) for place in self.members_of(group)[0].partitions]
        ends = [asking.get_watermark_offsets(place, _PATIENCE_S)[1] for place in places]

        def behind() -> list[TopicPartition]:
            self.check()
            committed = asking.committed(places, _PATIENCE_S)
            return [found for found, end in zip(committed, ends, strict=True) if found.offset < end]

        try:
            eventually(behind, f"{group} commits {ends}", equal_to=[], timeout_s=_PATIENCE_S, interval_s=0.05)
        finally:
            asking.close()
        self.history.note(*(ReadAll(group, place.topic, place.partition) for place in places))

    def members_of(self, group: str) -> list[HistoryMember]:
        """Return the members of a group."""
        return [member for member in self.members if member.group == group]


def end_transaction(bootstrap: str, transactional_id: str) -> None:
    """End a transaction that is still open: init_transactions does that."""
    Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id}).init_transactions(_PATIENCE_S)


def stock_load(
    broker: RunningBroker,
    history: History,
    *,
    bootstrap: str | None = None,
    configs: Mapping[str, object] | None = None,
    least_s: float = 0.005,
    session_ms: int | None = None,
    aborted: float = ABORTED,
    replicas: int = 1,
    are_ready: Callable[[], None] = lambda: None,
) -> HistoryLoad:
    """Start two idempotent and two transactional producers, and two readers of all partitions, of two client libraries.

    `bootstrap`: address of the clients, if it is not the broker's; `configs`, `replicas`: of the topics; `least_s`: the
    shortest round of a producer; `aborted`: the share of aborted transactions; `are_ready` waits until all brokers know
    the topics. `session_ms` adds two groups of two members with such sessions, one of the classic protocol and one of
    KIP-848, which the broker must allow (`history_members.sessions`).
    """
    with DataClient(HOST, broker.port) as client:
        for topic in ("plain", "moved"):
            client.create_topic(topic, 2, configs, replicas=replicas)
    are_ready()
    bootstrap = bootstrap or broker.bootstrap
    places = PLAIN + MOVED
    producers: list[HistoryProducer] = [
        RdkafkaProducer("rd", bootstrap, PLAIN, history, least_s=least_s),
        PythonProducer("py", bootstrap, PLAIN, history, least_s=least_s),
        RdkafkaProducer("rd-tx", bootstrap, MOVED, history, least_s=least_s, transactional=True, aborted=aborted),
        PythonProducer("py-tx", bootstrap, MOVED, history, least_s=least_s, transactional=True, aborted=aborted),
    ]
    readers: list[HistoryReader] = [
        RdkafkaReader("rd-reader", bootstrap, places, history),
        PythonReader("py-reader", bootstrap, places, history),
    ]
    members: list[HistoryMember] = []
    if session_ms is not None:
        members += [
            RdkafkaMember("rd-classic", bootstrap, places, history, group="classic", session_ms=session_ms),
            PythonMember("py-classic", bootstrap, places, history, group="classic", session_ms=session_ms),
        ]
        for name in ("rd-modern", "rd-modern-2"):
            options: dict[str, Any] = {"group": "modern", "session_ms": session_ms, "protocol": "consumer"}
            members.append(RdkafkaMember(name, bootstrap, places, history, **options))
    return HistoryLoad(history, producers, readers, members)
