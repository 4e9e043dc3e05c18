"""A whole broker loses power under load: every promise of docs/reference/durability.md holds, and nothing is invented.

One run of a broker is recorded call by call. For some moments, mostly just before a sync ends, the test rebuilds the
disk as it may have been left, and starts a broker on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from protocol.records.record import Record
from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import DataClient, Refused, batch
from tests.support.journaled_broker import Aftermath, JournaledBroker
from tests.support.scale import scaled

PARTITIONS = 2
CONFIGS = {"internal.segment.bytes": 8 * 1024, "segment.index.bytes": 1200, "index.interval.bytes": 512}
GROUP = "readers"
CUTS = min(100, scaled(6))
SECONDS = 1.5
# records that a partition may lose: none, fewer than five, any number
MODES = {"group-commit": 1, "every-5": 5, "page-cache": None}


@dataclass
class Known:
    """The acknowledged facts that clients know, with the moment at which they learnt them."""

    records: list[tuple[int, int, int, bytes]] = field(default_factory=list)  # moment, partition, offset, value
    commits: list[tuple[int, int]] = field(default_factory=list)
    made: list[tuple[int, str]] = field(default_factory=list)
    doomed: dict[str, int] = field(default_factory=dict)  # the moment before the deletion was requested
    deleted: list[tuple[int, str]] = field(default_factory=list)
    settings: list[tuple[int, int]] = field(default_factory=list)
    tried: set[bytes] = field(default_factory=set)


class Load:
    """Clients, each with a connection and a thread."""

    def __init__(self, broker: JournaledBroker) -> None:
        self.broker = broker
        self.known = Known()
        self.failures: list[BaseException] = []

    def run(self) -> None:
        works: list[Callable[[DataClient, int], None]] = [self.produce, self.produce_acks_1, self.commit, self.change]
        threads = [threading.Thread(target=self.repeat, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert not self.failures, self.failures

    def repeat(self, work: Callable[[DataClient, int], None]) -> None:
        try:
            until = time.monotonic() + SECONDS
            number = 0
            with DataClient(HOST, self.broker.port) as client:
                while time.monotonic() < until or number < 5:
                    number += 1
                    work(client, number)
        except BaseException as error:
            self.failures.append(error)

    def produce(self, client: DataClient, number: int) -> None:
        self.append(client, number, number % PARTITIONS)

    def produce_acks_1(self, client: DataClient, number: int) -> None:
        self.append(client, number, 0, acks=1)

    def append(self, client: DataClient, number: int, partition: int, acks: int = -1) -> None:
        value = b"%d-%d-%d:" % (acks, partition, number) + bytes(number % 300)
        self.known.tried.add(value)
        offset = client.produce("events", batch(value), partition, acks=acks)
        self.known.records.append((self.broker.moment(), partition, offset, value))

    def commit(self, client: DataClient, number: int) -> None:
        client.commit(GROUP, {("events", 0): number})
        self.known.commits.append((self.broker.moment(), number))

    def change(self, client: DataClient, number: int) -> None:
        """Create a topic, alter a setting, and delete an earlier topic."""
        known, moment = self.known, self.broker.moment
        client.create_topic(f"made-{number}")
        known.made.append((moment(), f"made-{number}"))
        client.set_topic_config("events", "retention.ms", str(10**9 + number))
        known.settings.append((moment(), number))
        if number > 3:
            known.doomed[f"made-{number - 3}"] = moment()
            client.delete_topic(f"made-{number - 3}")
            known.deleted.append((moment(), f"made-{number - 3}"))


@pytest.mark.parametrize("mode", MODES)
def test_broker_that_loses_its_power(mode: str, tmp_path: Path) -> None:
    """S12: records by flush.messages; topics, settings and deletions in any mode; offsets of groups as records."""
    flush_messages = MODES[mode]
    properties = {"log.index.size.max.bytes": "4096", "offsets.topic.num.partitions": "4"}
    if flush_messages is not None:
        properties["log.flush.interval.messages"] = str(flush_messages)
    with JournaledBroker(tmp_path / "live", properties) as broker:
        with DataClient(HOST, broker.port) as client:
            client.create_topic("events", PARTITIONS, CONFIGS)
            client.find_coordinator(GROUP)
        ready = broker.moment()
        load = Load(broker)
        load.run()
    assert "Traceback" not in broker.output
    aftermath = Aftermath(broker)
    random = Random(mode)
    syncs = [moment for moment in aftermath.syncs() if moment > ready]
    assert len(syncs) >= 5
    for number, moment in enumerate(sorted(random.sample(syncs, min(CUTS, len(syncs))))):
        directory = tmp_path / f"cut-{number}"
        aftermath.at(moment).cut(directory, random)
        check(directory, load.known, moment, flush_messages)


def check(directory: Path, known: Known, moment: int, flush_messages: int | None) -> None:
    with OurBroker(directory) as broker:
        with DataClient(HOST, broker.port) as client:
            check_metadata(client, known, moment)
            check_group(client, known, moment, strict=flush_messages == 1)
            for partition in range(PARTITIONS):
                client.produce("events", batch(b"next"), partition)
                check_records(client, known, moment, partition, flush_messages)
        assert broker.stop() == 0
        assert "Traceback" not in broker.output


def check_metadata(client: DataClient, known: Known, moment: int) -> None:
    topics = client.topics()
    for when, name in known.made:
        if when <= moment < known.doomed.get(name, moment + 1):
            assert name in topics, "a topic that was made is there"
    for when, name in known.deleted:
        if when <= moment:
            assert name not in topics, "a topic that was deleted is gone"
    settings = [number for when, number in known.settings if when <= moment]
    value = client.topic_config("events", "retention.ms")
    assert not settings or int(value) - 10**9 >= settings[-1], "a setting that was answered is in force"


def check_group(client: DataClient, known: Known, moment: int, *, strict: bool) -> None:
    deadline, found = time.monotonic() + 60, None
    while found is None:
        assert time.monotonic() < deadline
        with suppress(Refused):
            [found] = client.committed(GROUP, "events")
    commits = [number for when, number in known.commits if when <= moment]
    if strict and commits:
        assert found >= commits[-1], "an offset that was committed is there"
    assert found <= known.commits[-1][1] + 1, "no offset is there that nobody committed"


def check_records(client: DataClient, known: Known, moment: int, partition: int, flush_messages: int | None) -> None:
    found = {record.offset: bytes(record.value) for record in client.read_all("events", partition)}
    answered = {offset: value for when, each, offset, value in known.records if each == partition and when <= moment}
    assert set(found.values()) <= known.tried | {b"next"}, "nothing is there that nobody wrote"
    lost = [offset for offset in sorted(answered) if offset not in found]
    if flush_messages is not None:
        assert len(lost) < flush_messages, "answered records are there, but for those that flush.messages leaves open"
    if flush_messages == 1:
        assert all(found[offset] == value for offset, value in answered.items()), "records are what was written"


class EmptyBroker(DataClient):
    """A broker that lost everything."""

    def __init__(self) -> None: ...

    def read_all(self, topic: str, partition: int = 0) -> list[Record]:
        return []


def test_the_check_finds_what_is_missing() -> None:
    """A record is promised from the moment of its response."""
    known = Known(records=[(5, 0, 0, b"v")], tried={b"v"})
    check_records(EmptyBroker(), known, 4, 0, 1)
    with pytest.raises(AssertionError, match="answered"):
        check_records(EmptyBroker(), known, 5, 0, 1)
