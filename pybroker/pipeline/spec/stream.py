"""Streams: SQL, deduplication and windows over rows, and their sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pybroker.pipeline.spec.interval import seconds
from pybroker.pipeline.spec.sink import Sink
from pybroker.pipeline.values import SpecError, key


@dataclass(frozen=True, slots=True)
class Window:
    """Group rows by time and columns."""

    on: str = key("the column of the source's event time", example="time")
    every: str | None = key("the length of a window", None, example="1 minute")
    slide: str | None = key("how often a window begins, for overlapping ones; default: `every`", None)
    gap: str | None = key(
        "in place of every: session windows, which end after such a gap; `by` names the session", None
    )
    by: list[str] = key("columns to group by as well", [], example=["status"])
    aggregate: dict[str, str] = key("name: SQL expression", {"count": "count(*)"})

    def __post_init__(self) -> None:
        if (self.every is None) == (self.gap is None):
            raise SpecError("every", "give either every or gap")
        if self.slide is not None and self.every is None:
            raise SpecError("slide", "sessions do not slide")
        if self.gap is not None and not self.by:
            raise SpecError("by", "sessions need a column to group by")
        spans = {"every": self.every, "slide": self.slide, "gap": self.gap}
        lengths = {name: seconds(span, name) for name, span in spans.items() if span is not None}
        for name, length in lengths.items():
            if length == 0:
                raise SpecError(name, "must be longer than 0")
        if lengths.get("slide", 0) > lengths.get("every", 0):
            raise SpecError("slide", f"is longer than every, {self.every}: records between windows would be lost")


@dataclass(frozen=True, slots=True)
class Stream:
    """One query: rows of a source, optionally through SQL, deduplication and windows, to a sink."""

    source: str = key("the source", spelt="from", example="events")
    sink: Sink = key("where rows go")
    sql: str | None = key(
        "Spark SQL; tables are the names of sources and of tables", None, example="SELECT id, name FROM events"
    )
    deduplicate: list[str] = key(
        "columns: keep the first of rows with equal values in these, within the watermark", [], example=["id"]
    )
    window: Window | None = key("aggregates by time and columns, with window_start and window_end", None)
    mode: Literal["append", "update", "complete"] = key(
        "of aggregates: rows when their window ends; rows at each change; or all rows with each batch", "append"
    )
    trigger: str = key("`once`: process the existing records and end; or an interval such as 10s", "once")

    def __post_init__(self) -> None:
        if self.trigger != "once":
            try:
                seconds(self.trigger, "trigger")
            except SpecError as error:
                raise SpecError("trigger", f"{self.trigger!r} is neither once nor an interval such as 10s") from error
        if not self.sink.takes(self.mode):
            raise SpecError("mode", f"format {self.sink.format} cannot {self.mode}: use append")
