"""Scripts for two brokers: drawn from a seed, run against both, and reduced to a few steps where the answers differ."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from protocol.records.compression import Codec
from storage.checkpoints import LOG_START_OFFSETS
from tests.support.brokers import RunningBroker
from tests.support.data_client import Refused
from tests.support.script_steps import (
    CANARY,
    OLD_MS,
    AddPartitions,
    Answer,
    Append,
    Configure,
    DeleteRecords,
    EpochEnd,
    Fetch,
    ListOffsets,
    Produce,
    Producers,
    ReadAll,
    RecreateTopic,
    Retain,
    Sequenced,
    Side,
    Step,
    wait_for_change,
)
from tests.support.spoiled import SPOILED
from tests.support.wire import Closed

MAX_PARTITIONS = 4
# ListOffsets: latest, earliest, of the largest timestamp, earliest local, last tiered, earliest to be tiered
NOTHING_FOUND = (0, -1, -1, -1)
NAMED_TIMESTAMPS = (-1, -2, -3, -4, -5, -6)

PLAIN_SETTINGS: dict[str, tuple[str, ...]] = {
    "internal.segment.bytes": ("2000", "5000", "20000", "1048576"),
    "index.interval.bytes": ("0", "100", "700", "4096"),
    "segment.ms": ("120000", "3600000", "604800000"),
    "max.message.bytes": ("900", "4000", "1048588"),
    "message.timestamp.before.max.ms": ("1000", "9223372036854775807"),
    "message.timestamp.after.max.ms": ("3600000", "1000"),
}
# Only from the start, with one interval, and for a topic that is not recreated: Apache Kafka does not start again
# with an index that has more entries than fit. Its recovery does not stop at a full index, and may use the settings
# of a deleted topic of the same name.
INDEX_BYTES = ("64", "300", "1048576")
SETTINGS_OF_KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": "9223372036854775807"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "reencoded": {},
}


@dataclass(frozen=True, slots=True)
class Script:
    """The topic's initial values, and the steps.

    `reencoded`: its compression.type is not the producers'; `stamped`: the broker sets its timestamps.
    """

    name: str
    partitions: int
    configs: dict[str, str]
    steps: tuple[Step, ...]
    reencoded: bool = False
    stamped: bool = False

    @property
    def changes_index_interval(self) -> bool:
        """Return whether the interval changes: Apache Kafka's recovery may use that of an earlier topic of the name."""
        return any(
            isinstance(step, RecreateTopic) or (isinstance(step, Configure) and step.key == "index.interval.bytes")
            for step in self.steps
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two brokers: the script up to there, and both answers."""

    steps: tuple[Step, ...]
    ours: Answer
    kafka: Answer

    def __str__(self) -> str:
        steps = "\n".join(f"    {step!r}," for step in self.steps)
        return f"the last of these steps is answered differently:\n{steps}\n  ours:  {self.ours}\n  kafka: {self.kafka}"


@dataclass(slots=True)
class _Producer:
    """The generator's knowledge of an idempotent producer, so that most of its batches are in order."""

    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    last: dict[int, Append] = field(default_factory=dict)


class Generator:
    """Random steps, the same for the same seed."""

    def __init__(self, seed: int, length: int) -> None:
        self._dice = random.Random(seed)
        self._seed = seed
        self._length = length
        self._now_ms = OLD_MS
        self._partitions = self._dice.randint(1, 2)
        self._kind = self._dice.choices(list(SETTINGS_OF_KINDS), (8, 2, 1, 2))[0]
        # With LogAppendTime the clock decides when a time index is full.
        self._small_indexes = self._dice.random() < 0.4 and self._kind != "stamped"
        self._producers: dict[int, _Producer] = {}
        self._numbers = itertools.count()

    def script(self) -> Script:
        dice = self._dice
        partitions = self._partitions
        configs = {key: dice.choice(values) for key, values in PLAIN_SETTINGS.items() if dice.random() < 0.4}
        if self._small_indexes:
            configs["segment.index.bytes"] = dice.choice(INDEX_BYTES)
        configs.update(SETTINGS_OF_KINDS[self._kind])
        if self._kind == "reencoded":
            # Compressors differ, and with them sizes: no segment is rolled by size, and no batch is too large.
            for key in ("internal.segment.bytes", "max.message.bytes", "segment.index.bytes"):
                configs.pop(key, None)
            configs["compression.type"] = dice.choice(("uncompressed", "gzip", "snappy", "lz4", "zstd"))
        steps = tuple(self._step() for _ in range(self._length))
        kind = self._kind
        return Script(f"script-{self._seed}", partitions, configs, steps, kind == "reencoded", kind == "stamped")

    def _step(self) -> Step:
        makers = {
            self._produce: 50,
            self._fetch: 16,
            self._list_offsets: 14,
            self._epoch_end: 1,
            self._producers_of: 2,
            self._delete_records: 4,
            self._add_partitions: 1,
            self._configure: 3,
            self._retain: 1,
            self._recreate: 0 if self._small_indexes else 0.7,
        }
        return self._dice.choices(list(makers), list(makers.values()))[0]()

    def _partition(self) -> int:
        """Return a partition, now and then a missing one."""
        return self._dice.randrange(self._partitions) if self._dice.random() < 0.98 else self._partitions + 3

    # ---- produce

    def _produce(self) -> Step:
        partitions = {self._partition() for _ in range(self._dice.choice((1, 1, 1, 1, 2, 3)))}
        return Produce(tuple(self._append(each) for each in sorted(partitions)), self._dice.choice((-1, -1, 1)))

    def _append(self, partition: int) -> Append:
        dice = self._dice
        slot = dice.choice((None, None, 0, 0, 1, 2))
        producer = None if slot is None else self._producers.setdefault(slot, _Producer())
        if producer is not None and partition in producer.last and dice.random() < 0.12:
            return producer.last[partition]  # sent again, as after a lost answer
        append = Append(
            partition,
            count=dice.choice((1, 1, 2, 5, 20, 60)),
            value_bytes=dice.choice((0, 10, 100, 100, 600)),
            codec=dice.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)).value,
            timestamps=tuple(self._timestamp() for _ in range(dice.choice((1, 1, 3, 8)))),
            dice=next(self._numbers),
            keyed=self._kind != "compacted" or dice.random() < 0.95,
            sequenced=None if slot is None else self._sequenced(slot, partition),
            spoiled=dice.choice(tuple(SPOILED)) if dice.random() < 0.05 else "",
        )
        if producer is not None and append.sequenced is not None and not append.spoiled:
            producer.last[partition] = append
            producer.sequences[partition] = append.sequenced.sequence + append.count
        return append

    def _sequenced(self, slot: int, partition: int) -> Sequenced:
        dice, producer = self._dice, self._producers[slot]
        sequence = producer.sequences.get(partition, 0)
        chance = dice.random()
        if chance < 0.04:
            producer.epoch += 1
            producer.sequences.clear()
            producer.last.clear()
            sequence = 0
        elif chance < 0.08:
            sequence += dice.choice((1, 7, -1, -3))  # a gap, or part of an earlier batch
        elif chance < 0.10:
            return Sequenced(slot, max(0, producer.epoch - 1), max(0, sequence))
        return Sequenced(slot, producer.epoch, max(0, sequence))

    def _timestamp(self) -> int:
        """Return a timestamp, mostly growing; sometimes equal, earlier, far off, none."""
        self._now_ms += self._dice.choice((0, 0, 1, 1, 50, 1000, 30_000))
        back = self._dice.choices((0, 1, 100, 90_000, 10**9), (20, 3, 3, 2, 1))[0]
        return -1 if self._dice.random() < 0.01 else self._now_ms - back

    # ---- reading

    def _offset(self) -> int:
        return self._dice.choice((0, self._dice.randint(0, 30), self._dice.randint(0, 3000)))

    def _fetch(self) -> Step:
        dice = self._dice
        partitions = {self._partition() for _ in range(dice.choice((1, 1, 2, 4)))}
        wanted = [(each, self._offset()) for each in partitions]
        dice.shuffle(wanted)
        limits = (1 << 20,) if self._kind in ("reencoded", "stamped") else (0, 1, 70, 500, 3000, 50_000, 1 << 20)
        return Fetch(tuple(wanted), dice.choice(limits), dice.choice((*limits, 1 << 30)), dice.random() < 0.3)

    def _list_offsets(self) -> Step:
        dice = self._dice
        named = [each for each in NAMED_TIMESTAMPS if self._kind != "stamped" or each != -3]
        given = (OLD_MS, self._now_ms, self._now_ms + 1, dice.randint(OLD_MS - 1000, self._now_ms + 1000), 0)
        timestamp = dice.choice(named) if self._kind == "stamped" or dice.random() < 0.4 else dice.choice(given)
        return ListOffsets(self._partition(), timestamp)

    def _epoch_end(self) -> Step:
        return EpochEnd(self._partition(), self._dice.choice((-1, 0, 0, 1, 5)))

    def _producers_of(self) -> Step:
        return Producers(self._partition())

    # ---- changes

    def _delete_records(self) -> Step:
        return DeleteRecords(self._partition(), self._dice.choice((-1, self._offset(), self._dice.randint(0, 100))))

    def _add_partitions(self) -> Step:
        if self._dice.random() < 0.7:
            self._partitions = min(MAX_PARTITIONS, self._partitions + 1)
        return AddPartitions(self._partitions)

    def _configure(self) -> Step:
        fixed: tuple[str, ...] = ("index.interval.bytes",) if self._small_indexes else ()
        if self._kind == "reencoded":
            fixed += ("internal.segment.bytes", "max.message.bytes")
        key = self._dice.choice([key for key in PLAIN_SETTINGS if key not in fixed])
        return Configure(key, self._dice.choice(PLAIN_SETTINGS[key]))

    def _retain(self) -> Step:
        dice = self._dice
        if dice.random() < 0.7 and self._kind != "reencoded":
            return Retain("retention.bytes", str(dice.choice((0, 1, 1000, 10_000))))
        return Retain("retention.ms", str(dice.choice((1, 10**14))))

    def _recreate(self) -> Step:
        self._partitions = self._dice.randint(1, 2)
        self._producers.clear()
        configs = SETTINGS_OF_KINDS[self._kind]
        if self._kind == "reencoded":
            configs = {"compression.type": "gzip"}
        return RecreateTopic(self._partitions, dict(configs))


def generate(seed: int, length: int) -> Script:
    """Return the script of a seed."""
    return Generator(seed, length).script()


class Twins:
    """Two running brokers that get the same requests."""

    def __init__(self, ours: RunningBroker, kafka: RunningBroker) -> None:
        self.ours = ours
        self.kafka = kafka
        #: scripts that ran without a difference
        self.scripts: list[Script] = []
        self._attempts = itertools.count(1)

    def start(self) -> None:
        """Start the brokers that do not run."""
        for broker in (self.ours, self.kafka):
            if not broker.is_running:
                broker.start()

    def stop(self) -> None:
        for broker in (self.ours, self.kafka):
            assert broker.stop() in (0, 143)

    def kill(self) -> None:
        for broker in (self.ours, self.kafka):
            broker.kill()

    def await_retention(self) -> None:
        """Wait until all expired records are deleted, and the log start offsets would survive a kill."""
        for broker in (self.ours, self.kafka):
            side = Side(broker, CANARY)
            side.await_retention()
            side.client.close()
            checkpoint = broker.log_dir / LOG_START_OFFSETS
            for _ in range(2):  # the second begins after the first has ended
                wait_for_change(checkpoint)

    def compare(self, script: Script) -> Difference | None:
        """Run a script on both; None where the answers agree. A difference is reduced to few steps."""
        steps = (*script.steps, *(ReadAll(index) for index in range(MAX_PARTITIONS)))
        found = self._first_difference(script, steps, script.name)
        if found is not None:
            return self._smaller(script, found)
        self.scripts.append(script)
        return None

    def _first_difference(self, script: Script, steps: Sequence[Step], topic: str) -> Difference | None:
        sides = [
            Side(broker, topic, reencoded=script.reencoded, stamped=script.stamped)
            for broker in (self.ours, self.kafka)
        ]
        try:
            for side in sides:
                side.create(script.partitions, script.configs)
            for number, step in enumerate(steps, 1):
                ours, kafka = (_answer(step, side) for side in sides)
                if ours != kafka and not _is_meant(step, ours, kafka):
                    return Difference(tuple(steps[:number]), ours, kafka)
        finally:
            for side in sides:
                side.client.close()
        return None

    def _smaller(self, script: Script, found: Difference) -> Difference:
        """Leave out unnecessary steps: halves, quarters, ... single steps, from the end to the start."""
        size = len(found.steps) // 2
        while size:
            for end in self._ends(found, size):
                fewer = found.steps[: max(0, end - size)] + found.steps[end:]
                again = self._first_difference(script, fewer, f"{script.name}-{next(self._attempts)}")
                if again is not None:
                    found = again
            size //= 2
        return found

    @staticmethod
    def _ends(found: Difference, size: int) -> Iterator[int]:
        return iter(range(len(found.steps) - 1, 0, -size))


def _is_meant(step: Step, ours: Answer, kafka: Answer) -> bool:
    """Return whether a difference is intended (docs/decisions/interchange.md).

    A look-up by time searches the first segment whose largest timestamp is late enough. If the records that were late
    enough are deleted, Apache Kafka finds nothing, and our broker continues with the next segment.
    """
    return (
        isinstance(step, ListOffsets)
        and step.timestamp >= 0
        and kafka == NOTHING_FOUND
        and isinstance(ours, tuple)
        and ours[0] == 0
    )


def _answer(step: Step, side: Side) -> Answer:
    try:
        return step.run(side)
    except Closed:
        side.reconnect()
        return "the connection is closed"
    except (AssertionError, Refused) as error:
        return f"{type(error).__name__}: {error}"
