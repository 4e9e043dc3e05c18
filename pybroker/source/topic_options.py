"""Options of the source `pybroker`, which are those of Spark's Kafka source.

kafka.* (client_properties.py); one of subscribe, subscribePattern, assign;
startingOffsets, endingOffsets, startingTimestamp, endingTimestamp, startingOffsetsByTimestamp,
endingOffsetsByTimestamp, startingOffsetsByTimestampStrategy; failOnDataLoss, minPartitions, maxRecordsPerPartition,
maxOffsetsPerTrigger, includeHeaders. One option is ours: `columns`, a comma-separated list. All others are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pybroker.source.bounds import (
    EARLIEST,
    LATEST,
    OFFSET,
    TIMESTAMP,
    Bound,
    Bounds,
    TopicPartition,
    at_offset,
    at_time,
)
from pybroker.source.client_properties import PREFIX, read_client_properties
from pybroker.source.columns import chosen_columns
from pybroker.source.errors import UnusableOption
from pybroker.source.partition_options import assigned_partitions, offsets_by_partition

_OPTIONS = (
    *("subscribe", "subscribePattern", "assign"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    *("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    *("failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "includeHeaders", "columns"),
)
_NAMES = {name.lower(): name for name in _OPTIONS}
_PLACES = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True)
class TopicOptions:
    """The topics of a query, and what it reads of them. `assigned`: only these partitions."""

    properties: Mapping[str, str]
    topics: list[str] | None
    pattern: str | None
    assigned: list[TopicPartition] | None
    start: Bounds
    end: Bounds
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None

    @property
    def wanted(self) -> dict[str, Any]:
        """Return the topics in the form of requests to the reader process."""
        return {
            "properties": dict(self.properties),
            "topics": self.topics,
            "pattern": self.pattern,
            "assigned": self.assigned,
        }


def read_options(given: Mapping[str, str], *, streaming: bool | None) -> TopicOptions:
    """Parse options; their names are case-insensitive. `streaming` is None while unknown. Errors: UnusableOption."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in _NAMES and not name.startswith(PREFIX):
            raise UnusableOption(f"there is no option {name!r}: the options are kafka.* and {', '.join(_OPTIONS)}")
    properties = read_client_properties(options)
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in options]
    if len(ways) != 1:
        raise UnusableOption(f"give exactly one of subscribe, subscribePattern and assign; given: {ways}")
    named = (each.strip() for each in options.get("subscribe", "").split(","))
    topics = list(dict.fromkeys(filter(None, named)))  # a topic that is named twice is read once
    if ways == ["subscribe"] and not topics:
        raise UnusableOption("subscribe names no topic")
    if streaming and any(name.startswith("ending") for name in options):
        raise UnusableOption("a stream has no end: endingOffsets and the like are for batches")
    names = options["columns"].split(",") if "columns" in options else None
    return TopicOptions(
        properties=properties,
        topics=topics or None,
        pattern=_pattern(options.get("subscribepattern")),
        assigned=assigned_partitions(options["assign"]) if "assign" in options else None,
        start=_bounds(options, "starting", LATEST if streaming else EARLIEST),
        end=_bounds(options, "ending", LATEST),
        columns=chosen_columns(names, headers=_boolean(options, "includeHeaders", default=False)),
        fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
        min_partitions=_count(options, "minPartitions"),
        max_records_per_partition=_count(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=_count(options, "maxOffsetsPerTrigger"),
    )


def _bounds(options: Mapping[str, str], side: str, usual: int) -> Bounds:
    """Return the bounds of `starting` or `ending`: times by partition, one time, or offsets, in Spark's precedence."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UnusableOption(f"startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
    late_means_latest = side == "ending" or strategy == "latest"
    if (text := options.get(f"{side}offsetsbytimestamp")) is not None:
        times = offsets_by_partition(text, f"{side}OffsetsByTimestamp")
        return Bounds(None, {place: Bound(TIMESTAMP, time) for place, time in times.items()}, late_means_latest)
    if (text := options.get(f"{side}timestamp")) is not None:
        return at_time(_number(text, f"{side}Timestamp"), late_means_latest=late_means_latest)
    text = options.get(f"{side}offsets")
    if text is None:
        return at_offset(usual)
    if text.lower() in _PLACES:
        return at_offset(_PLACES[text.lower()])
    offsets = offsets_by_partition(text, f"{side}Offsets")
    if any(offset < EARLIEST for offset in offsets.values()):
        raise UnusableOption(f"{side}Offsets: offsets are -2 (earliest), -1 (latest), or from 0 on")
    return Bounds(None, {place: Bound(OFFSET, offset) for place, offset in offsets.items()})


def _pattern(text: str | None) -> str | None:
    try:
        re.compile(text or "")
    except re.error as error:
        raise UnusableOption(f"subscribePattern: {text!r} is not a regular expression: {error}") from None
    return text


def _number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnusableOption(f"{name}: {text!r} is not a number") from None


def _count(options: Mapping[str, str], name: str) -> int | None:
    if name.lower() not in options:
        return None
    count = _number(options[name.lower()], name)
    if count < 1:
        raise UnusableOption(f"{name}: {count} is less than 1")
    return count


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise UnusableOption(f"{name}: {text!r} is neither true nor false")
    return text == "true"
