"""Options of the source `pybroker-log`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pybroker.source.bounds import EARLIEST, LATEST, OFFSET, Bound, Bounds, TopicPartition, bounds_of
from pybroker.source.columns import chosen_columns
from pybroker.source.errors import UnusableOption
from pybroker.source.partition_options import assigned_partitions, offsets_by_partition
from pybroker.source.remote_options import Place, place_of

#: Options with this prefix are keys of the storage class pybroker.ObjectStore.
_STORAGE = "storage."
_OPTIONS = (
    *(
        "path",
        "subscribe",
        "assign",
        "startingOffsets",
        "endingOffsets",
        "startingOffset",
        "endingOffset",
        "startingTimestamp",
        "endingTimestamp",
        "remote",
    ),
    *("kafka.isolation.level", "includeHeaders", "columns"),
)


@dataclass(frozen=True)
class LogOptions:
    """Which records of which directory."""

    place: Place
    topics: list[str] | None
    assigned: list[TopicPartition] | None
    start: Bounds
    end: Bounds
    committed: bool
    columns: tuple[str, ...]

    @property
    def wanted(self) -> dict[str, Any]:
        """Return the fields of the request for splits to the reader process."""
        return {
            **self.place._asdict(),
            "topics": self.topics,
            "assigned": self.assigned,
            "start": self.start.to_json(),
            "end": self.end.to_json(),
            "committed": self.committed,
        }


def read_log_options(given: Mapping[str, str]) -> LogOptions:
    """Parse the options; their names are case-insensitive. Errors: UnusableOption."""
    options = {name.lower(): value for name, value in given.items()}
    storage = {name[len(_STORAGE) :]: options.pop(name) for name in list(options) if name.startswith(_STORAGE)}
    known = {name.lower() for name in _OPTIONS}
    for name in options:
        if name not in known:
            raise UnusableOption(f"there is no option {name!r}: the options are {', '.join(_OPTIONS)}")
    if not options.get("path") and not options.get("remote"):
        raise UnusableOption("no path is given: the directory of one partition, such as data/orders-0, or of several")
    path = options.get("path", "").removeprefix("file:") or None  # Spark writes paths of files so
    levels = {"read_uncommitted": False, "read_committed": True}
    level = options.get("kafka.isolation.level", "read_uncommitted")
    if level not in levels:
        raise UnusableOption(f"kafka.isolation.level: {level!r} is neither read_uncommitted nor read_committed")
    topics = [each.strip() for each in options.get("subscribe", "").split(",") if each.strip()]
    headers = options.get("includeheaders", "false").lower()
    if headers not in ("true", "false"):
        raise UnusableOption(f"includeHeaders: {headers!r} is neither true nor false")
    if topics and "assign" in options:
        raise UnusableOption("subscribe and assign are given; give only one")
    names = options["columns"].split(",") if "columns" in options else None
    return LogOptions(
        place=place_of(path, options.get("remote") or None, storage),
        topics=topics or None,
        assigned=assigned_partitions(options["assign"]) if "assign" in options else None,
        start=_bounds(options, "starting", EARLIEST),
        end=_bounds(options, "ending", LATEST),
        committed=levels[level],
        columns=chosen_columns(names, headers=headers == "true"),
    )


def _bounds(options: Mapping[str, str], side: str, usual: int) -> Bounds:
    each = options.get(f"{side}offsets")
    if each is not None:
        if any(f"{side}{other}" in options for other in ("offset", "timestamp")):
            raise UnusableOption(f"{side}Offsets and another bound of all partitions are given; give only one")
        offsets = offsets_by_partition(each, f"{side}Offsets")
        if any(offset < EARLIEST for offset in offsets.values()):
            raise UnusableOption(f"{side}Offsets: offsets are -2 (earliest), -1 (latest), or from 0 on")
        return Bounds(None, {place: Bound(OFFSET, offset) for place, offset in offsets.items()})
    offset: int | str | None = options.get(f"{side}offset")
    time = options.get(f"{side}timestamp")
    try:
        if offset is not None and offset not in ("earliest", "latest"):
            offset = int(offset)
        return bounds_of(offset, None if time is None else int(time), usual, name=f"{side}Offset")
    except ValueError as error:
        raise UnusableOption(str(error)) from None
