"""The sources of a pipeline: topics, and static tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pybroker.pipeline.spec.parse import DeadLetter, EventTime, Parse
from pybroker.pipeline.values import SpecError, key


@dataclass(frozen=True, slots=True)
class Starting:
    """Where a stream without a checkpoint begins."""

    offsets: dict[str, dict[int, int | Literal["earliest", "latest"]]] | None = key(
        "topic: {partition: offset, or earliest, or latest}; each partition of each topic",
        None,
        example={"events": {0: 1200, 1: "earliest"}},
    )
    timestamp: str | None = key(
        "ISO 8601 (UTC by default), or milliseconds since 1970: the first record at or after that time; "
        "partitions without such a record begin at their end",
        None,
        example="2026-01-31T08:00:00Z",
    )

    def __post_init__(self) -> None:
        if (self.offsets is None) == (self.timestamp is None):
            raise SpecError("", "give either offsets or timestamp")
        for topic, partitions in (self.offsets or {}).items():
            for partition, offset in partitions.items():
                if partition < 0 or (isinstance(offset, int) and offset < 0):
                    raise SpecError(f"offsets.{topic}.{partition}", "neither may be below 0")
        if self.timestamp is not None:
            self.timestamp_ms()

    def timestamp_ms(self) -> int:
        """Return `timestamp` in milliseconds since 1970."""
        text = self.timestamp or ""
        if text.isdecimal():
            return int(text)
        try:
            when = datetime.fromisoformat(text)
        except ValueError as error:
            raise SpecError("timestamp", f"{text!r} is not a time such as 2026-01-31T08:00:00Z") from error
        return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Source:
    """Topics to read, and the format of their records."""

    topics: list[str] = key("topics by name; or give pattern or assign", [], example=["events"])
    pattern: str | None = key("a Java regular expression; topics that match later are added", None)
    assign: dict[str, list[int]] = key("topic: [partitions]: only these partitions", {}, example={"events": [0, 1]})
    starting: Literal["earliest", "latest"] | Starting = key(
        "where a stream without a checkpoint begins: earliest, latest, or a mapping", "earliest"
    )
    isolation: Literal["read_committed", "read_uncommitted"] = key(
        "whether only records of committed transactions are read", "read_committed"
    )
    max_per_trigger: int | None = key("the most records in a batch; no limit by default", None, example=250_000)
    on_data_loss: Literal["fail", "skip"] = key("when records were deleted before the query read them", "fail")
    parse: Parse = key("how to parse a value into columns", Parse)
    event_time: EventTime | None = key("the event time, which windows and deduplication need", None)
    dead_letter: DeadLetter | None = key(
        "the topic for records that cannot be parsed; without one they are dropped and counted", None
    )

    def __post_init__(self) -> None:
        if [bool(self.topics), self.pattern is not None, bool(self.assign)].count(True) != 1:
            raise SpecError("topics", "give either topics, pattern or assign")
        if self.max_per_trigger is not None and self.max_per_trigger < 1:
            raise SpecError("max_per_trigger", "has to be 1 or more")
        if isinstance(self.starting, Starting):
            self._check_offsets(self.starting)
        if self.dead_letter is not None and self.reads(self.dead_letter.topic):
            raise SpecError("dead_letter.topic", "is read by this source: its letters would return forever")

    def _check_offsets(self, starting: Starting) -> None:
        if starting.offsets is None:
            return
        if self.pattern is not None:
            raise SpecError("starting.offsets", "a pattern's topics are not known beforehand: give a timestamp")
        read = set(self.topics or self.assign)
        if unread := sorted(set(starting.offsets) - read):
            raise SpecError(f"starting.offsets.{unread[0]}", "is not among the topics that are read")
        if missing := sorted(read - set(starting.offsets)):
            raise SpecError("starting.offsets", f"does not name topic {missing[0]}")
        for topic, partitions in self.assign.items():
            if set(partitions) != set(starting.offsets[topic]):
                raise SpecError(f"starting.offsets.{topic}", f"has to name the partitions {partitions}")

    def reads(self, topic: str) -> bool:
        """Return whether a topic is read; False when Python cannot compile the pattern."""
        if self.pattern is None:
            return topic in self.topics or topic in self.assign
        try:
            return re.fullmatch(self.pattern, topic) is not None
        except re.error:
            return False

    def named_topics(self) -> dict[str, str]:
        """Return the named topics, each with its path below the source."""
        if self.assign:
            return {topic: f"assign.{topic}" for topic in self.assign}
        return {topic: f"topics[{index}]" for index, topic in enumerate(self.topics)}


@dataclass(frozen=True, slots=True)
class Table:
    """Static files as a table that streams can join: the files that exist when the pipeline starts."""

    format: str = key("a format of Spark: parquet, csv, json, text; or delta", example="csv")
    path: str = key("a file or folder", example="./pages.csv")
    schema: str | None = key(
        "in Spark's DDL; without one, Spark infers it from the files", None, example="path STRING, title STRING"
    )
    options: dict[str, str] = key("Spark's own, such as header", {})
