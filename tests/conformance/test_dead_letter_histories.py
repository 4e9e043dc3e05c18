"""Random histories of share groups with dead-letter queues (KIP-1191): the same states and letters as Apache Kafka."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from protocol.records.compression import Codec
from tests.support.brokers import RunningBroker
from tests.support.brokers_of_4_4 import BROKERS_OF_4_4, needs_4_4
from tests.support.data_client import Refused, batch
from tests.support.dead_letters import ENABLED
from tests.support.eventually import eventually
from tests.support.scale import scaled
from tests.support.settled import wait_for_changes
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of

pytestmark = needs_4_4

SEEDS = min(scaled(4), 100)
STEPS = 60
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
ARCHIVING, FINAL = 3, (2, 4)
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
#: The ends of topics' names: in the order of the checks, none, of the broker itself, without the flag, without the
#: prefix, created beforehand, and not created.
QUEUES = ("", "__{}", "dlq.{}.plain", "{}.enabled", "dlq.{}.enabled", "dlq.{}.new")
WEIGHTS = (1, 1, 1, 1, 6, 3)


class Side:
    """One broker with a group of one member, a topic, and its queues."""

    def __init__(self, broker: RunningBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.client: ShareClient = member_of(broker, name)
        for pattern, settings in (("dlq.{}.plain", {}), ("{}.enabled", ENABLED), ("dlq.{}.enabled", ENABLED)):
            self.client.create_topic(pattern.format(name), 1, settings)
        self.client.join(name)
        self.client.share_fetch(wait_ms=0)

    def configure(self, **settings: str) -> None:
        self.client.configure(**settings)
        wait_for_changes(self.broker)

    def acquire(self, **limits: int) -> list[tuple[int, int, int]]:
        """Fetch. Kafka answers with nothing if it finds that the log has lost records: then fetch once more."""
        return self.client.acquire(wait_ms=100, **limits) or self.client.acquire(wait_ms=100, **limits)

    def states(self) -> tuple[int, int, list[tuple[int, ...]]]:
        """Return what the share coordinator has, once no letter is on its way: the first record that is not final, the
        count of final ones behind it, and the states.

        Kafka archives records in one write or in several, as it happens. So the stored start offset may be lower.
        """

        def read() -> tuple[list[str], list[tuple[int, ...]]]:
            found = self.client.read()
            batches = [tuple(map(int, each.split(", "))) for each in re.findall(r"\(([^()]+)\)", found)]
            return [*found.split()[:3], *self.client.summarize().split()], batches

        def is_settled(found: tuple[list[str], list[tuple[int, ...]]]) -> bool:
            words, batches = found
            return words[2] == words[6] and all(state != ARCHIVING for _, _, state, _ in batches)

        words, batches = eventually(read, until=is_settled, timeout_s=60)
        assert words[0] == words[3] == "NONE"
        start, complete = int(words[2]), int(words[7])
        while batches and batches[0][0] == start and batches[0][2] in FINAL:
            [(_, last, _, _), *batches] = batches
            start, complete = last + 1, complete - (last + 1 - start)
        return start, complete, batches

    def letters(self) -> list[Any]:
        """Return the records of all queues. Their order is left out: Kafka writes letters at the same time."""
        found = []
        for pattern in QUEUES[2:]:
            queue = pattern.format(self.name)
            with suppress(Refused):
                letters = [(each.headers, each.key, each.value) for each in self.client.read_all(queue)]
                found.append((queue, sorted(letters, key=lambda letter: letter[0])))
        return found


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningBroker]]:
    home = tmp_path_factory.mktemp("letters")
    started: list[RunningBroker] = []
    try:
        for kind, start in BROKERS_OF_4_4.items():
            started.append(start(home / kind, SHARE_PROPERTIES))
        yield started
    finally:
        for broker in started:
            broker.kill()


class History:
    """Draws steps, and takes each at both brokers. `acquired`: the offsets that the member has."""

    def __init__(self, sides: list[Side], seed: int) -> None:
        self.sides = sides
        self.draw = random.Random(seed)
        self.acquired: dict[int, None] = {}
        self.ends = [0]  # of the batches in the log
        self.lines: list[str] = []

    def each(self, what: str, act: Callable[[Side], Any], wait_s: float = 0) -> Any:
        """Act at both brokers; fail unless they answer the same, Kafka after a while."""
        ours, kafka = self.sides
        expected = act(ours)
        self.lines.append(f"{what}: {expected}")
        found = act(kafka)
        if wait_s and found != expected:
            with suppress(AssertionError):
                found = eventually(lambda: act(kafka), equal_to=expected, timeout_s=wait_s)
            found = act(kafka)
        assert found == expected, "\n".join(["", *self.lines[-14:], f"  kafka: {found}"])
        return expected

    def step(self) -> None:
        draw = self.draw
        steps = [self.produce, self.fetch, self.acknowledge, self.delete, self.configure, self.delete_queue, self.leave]
        [step] = draw.choices(steps, [4, 6, 9, 2, 2, 1, 1])
        step()
        self.check()

    def check(self) -> None:
        """Compare what the share coordinators and the queues have."""
        self.each("states", Side.states, wait_s=10)
        self.each("letters", Side.letters, wait_s=10)

    def produce(self) -> None:
        count = self.draw.randint(1, 5)
        key = self.draw.choice([None, b"k"])
        values = [b"v%d" % (self.ends[-1] + number) for number in range(count)]
        codec = self.draw.choice([Codec.NONE, Codec.GZIP])
        self.each("produce", lambda side: side.client.produce(side.name, batch(*values, key=key, codec=codec)))
        self.ends.append(self.ends[-1] + count)

    def fetch(self) -> None:
        limits = {"mode": 1, "most": self.draw.randint(1, 4)} if self.draw.random() < 0.5 else {}
        found = self.each(f"fetch {limits}", lambda side: side.acquire(**limits))
        self.acquired |= dict.fromkeys(offset for first, last, _ in found for offset in range(first, last + 1))

    def acknowledge(self) -> None:
        """Acknowledge records of the member, and rarely others, with a type each."""
        offsets = sorted(self.acquired)
        if not offsets:
            return
        if self.draw.random() < 0.1:
            offsets = list(range(offsets[-1] + 1))
        begin = self.draw.randrange(len(offsets))
        chosen = offsets[begin : begin + self.draw.randint(1, 5)]
        kinds = self.draw.choices([ACCEPT, RELEASE, REJECT, RENEW], [3, 5, 5, 1], k=len(chosen))
        batches = [(offset, offset, [kind]) for offset, kind in zip(chosen, kinds, strict=True)]
        if chosen[-1] - chosen[0] == len(chosen) - 1:
            [form] = self.draw.choices(["records", "types", "range"], [4, 1, 2])
            if form != "records":
                kinds = kinds if form == "types" else kinds[:1] * len(chosen)
                batches = [(chosen[0], chosen[-1], kinds if form == "types" else kinds[:1])]
        for offset, kind in zip(chosen, kinds, strict=True):
            if kind != RENEW:
                self.acquired.pop(offset, None)
        is_renewal = RENEW in kinds
        self.each(f"acknowledge {batches}", lambda side: side.client.acknowledge(*batches, renew=is_renewal))

    def delete(self) -> None:
        """Remove whole batches: of a batch that it keeps in part, Kafka delivers the removed records, too."""
        before = self.draw.choice(self.ends)
        self.each(f"delete records before {before}", lambda side: _deleted(side, before))

    def configure(self) -> None:
        [queue] = self.draw.choices(QUEUES, WEIGHTS)
        settings = {
            "errors_deadletterqueue_topic_name": queue,
            "errors_deadletterqueue_copy_record_enable": self.draw.choice(["true", "false"]),
            "share_delivery_count_limit": str(self.draw.randint(2, 3)),
        }
        may_create = self.draw.choice(["true", "false"])

        def configure(side: Side) -> str | None:
            side.client.set_cluster_config(AUTO_CREATE, may_create)
            try:
                side.configure(**{key: value.format(side.name) for key, value in settings.items()})
            except Refused as error:
                return str(error)
            return None

        self.each(f"configure {settings}, create {may_create}", configure)

    def delete_queue(self) -> None:
        queue = self.draw.choice(["dlq.{}.new", "dlq.{}.enabled"])

        def delete(side: Side) -> None:
            with suppress(Refused):
                side.client.delete_topic(queue.format(side.name))
            wait_for_changes(side.broker)

        self.each(f"delete {queue}", delete)

    def leave(self) -> None:
        """End the share session: the records of the member are available again."""
        self.acquired.clear()
        self.each("leave", lambda side: side.client.share_fetch(epoch=-1))
        self.each("return", lambda side: side.client.share_fetch(wait_ms=0, most=0))


def _deleted(side: Side, before: int) -> Any:
    try:
        return side.client.delete_records(side.name, 0, before)
    except Refused as error:
        return str(error)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_states_and_letters_equal_those_of_kafka(seed: int, brokers: list[RunningBroker]) -> None:
    """Acknowledgements of all types, used up deliveries, removed records, other settings, queues that are refused."""
    sides = [Side(broker, f"h{seed}") for broker in brokers]
    history = History(sides, seed)
    for _ in range(STEPS):
        history.step()
    for side in sides:
        side.client.close()


def test_locks_end_as_in_kafka(brokers: list[RunningBroker]) -> None:
    """Of records that the log has lost meanwhile, too: those from the start of the log on get letters."""
    sides = [Side(broker, "locks") for broker in brokers]
    history = History(sides, 0)
    settings = {
        "errors_deadletterqueue_topic_name": "dlq.locks.enabled",
        "errors_deadletterqueue_copy_record_enable": "true",
        "share_delivery_count_limit": "2",
        "share_record_lock_duration_ms": "1000",
    }
    history.each("configure", lambda side: side.configure(**settings))
    for _ in range(3):
        history.produce()
    *_, middle, end = history.ends
    for attempt in (1, 2):
        acquired = history.each("fetch", Side.acquire)
        assert [count for _, _, count in acquired] == [attempt] * len(acquired)
        if attempt == 2:
            history.each("delete", lambda side: _deleted(side, middle))
        time.sleep(1.5)  # longer than the locks, on purpose: the expiry of locks is what is tested
        history.check()
    history.produce()
    history.each("fetch", Side.acquire)
    history.each("acknowledge", lambda side: side.client.acknowledge((end, end, [REJECT])))
    history.check()
