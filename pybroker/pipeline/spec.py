"""A pipeline's specification: what may stand in its YAML file, as values.

The classes are the reference: a key that none of them has, a value of the wrong kind, or a missing key is a SpecError
with the key's path. `${NAME}` and `${NAME:-default}` in any text are environment variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import yaml

from pybroker.pipeline.values import SpecError, build, substituted

__all__ = [
    "EventTime",
    "Kafka",
    "Parse",
    "Pipeline",
    "Sink",
    "Source",
    "Spark",
    "SpecError",
    "Stream",
    "Window",
    "load",
]

_INTERVAL = re.compile(r"\d+ ?(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|days?)")

_BOOLEAN = "tag:yaml.org,2002:bool"


class _Loader(yaml.SafeLoader):
    """YAML with the booleans of its version 1.2: `on` is a word, not true."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOLEAN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(_BOOLEAN, re.compile(r"true|false"), list("tf"))


@dataclass(frozen=True, slots=True)
class Kafka:
    """The broker of all sources and sinks; `options` are the client's own properties, for example security.protocol."""

    bootstrap: str
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark runs, the memory of its driver, and its properties."""

    master: str = "local[2]"
    memory: str = "1g"
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Parse:
    """How a record's value becomes columns.

    text: one column, value. json: the fields of `schema`. regex: the named groups of `pattern`, or of a `preset`.
    `schema` is in Spark's DDL ("status INT, path STRING"); for regex it gives the types of groups that are no strings.
    """

    format: Literal["regex", "json", "text"] = "text"
    preset: Literal["nginx_combined"] | None = None
    pattern: str | None = None
    schema: str | None = None

    def __post_init__(self) -> None:
        if self.format == "json" and self.schema is None:
            raise SpecError("schema", "format json needs it")
        if self.format == "regex" and (self.preset is None) == (self.pattern is None):
            raise SpecError("pattern", "format regex needs either pattern or preset")
        if self.format != "regex" and (self.preset or self.pattern):
            raise SpecError("pattern", f"format {self.format} takes neither pattern nor preset")


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that says when a thing happened, its text's format, and how late a record may be."""

    column: str
    format: str | None = None
    watermark: str = "1 minute"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The topic that records go to which cannot be parsed: as they came, with headers that say from where and why."""

    topic: str


@dataclass(frozen=True, slots=True)
class Source:
    """Topics to read: named, or by a pattern of Java's regular expressions."""

    topics: list[str] = field(default_factory=list)
    pattern: str | None = None
    starting: Literal["earliest", "latest"] = "earliest"
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    max_per_trigger: int | None = None
    on_data_loss: Literal["fail", "skip"] = "fail"
    parse: Parse = field(default_factory=Parse)
    event_time: EventTime | None = None
    dead_letter: DeadLetter | None = None

    def __post_init__(self) -> None:
        if bool(self.topics) == (self.pattern is not None):
            raise SpecError("topics", "give either topics or pattern")


@dataclass(frozen=True, slots=True)
class Window:
    """Group by time: each `every` of column `on`, and by columns; `aggregate` is name: SQL expression."""

    on: str
    every: str
    by: list[str] = field(default_factory=list)
    aggregate: dict[str, str] = field(default_factory=lambda: {"count": "count(*)"})


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go: Parquet files below `path`, or JSON values into `topic`, with the column `key` as the key."""

    format: Literal["parquet", "kafka"]
    path: str | None = None
    partition_by: list[str] = field(default_factory=list)
    topic: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        needed = {"parquet": "path", "kafka": "topic"}[self.format]
        if getattr(self, needed) is None:
            raise SpecError(needed, f"format {self.format} needs it")


@dataclass(frozen=True, slots=True)
class Stream:
    """One query: rows of a source, perhaps through SQL (the source's name is the table), perhaps in windows, to a sink.

    `trigger` is an interval such as 10s, or `once`: all that is there now, and then it ends.
    """

    source: str
    sink: Sink
    sql: str | None = None
    window: Window | None = None
    mode: Literal["append", "update"] = "append"
    trigger: str = "once"

    def __post_init__(self) -> None:
        if self.trigger != "once" and not _INTERVAL.fullmatch(self.trigger):
            raise SpecError("trigger", f"{self.trigger!r} is neither once nor an interval such as 10s")
        if self.mode == "update" and self.sink.format == "parquet":
            raise SpecError("mode", "files cannot be updated: use append")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole file."""

    version: Literal[1]
    name: str
    kafka: Kafka
    sources: dict[str, Source]
    streams: dict[str, Stream]
    checkpoint_root: str
    spark: Spark = field(default_factory=Spark)

    def __post_init__(self) -> None:
        for name, stream in self.streams.items():
            if stream.source not in self.sources:
                raise SpecError(
                    f"streams.{name}.from", f"no source {stream.source!r}; there are: {', '.join(self.sources)}"
                )
            watched = self.sources[stream.source].event_time
            if stream.window and watched is None and stream.mode == "append":
                raise SpecError(f"streams.{name}.window", f"append needs an event_time in the source {stream.source!r}")


def load(path: Path, environ: Mapping[str, str]) -> Pipeline:
    """Read a specification.

    Errors: SpecError; OSError for a file that cannot be read.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except UnicodeDecodeError as error:
        raise SpecError("", "this is no text in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark, problem = (
            error.problem_mark,
            f"{error.problem or error}" + (f", {error.context}" if error.context else ""),
        )
        raise SpecError(f"line {mark.line + 1}, column {mark.column + 1}" if mark else "", problem) from error
    except yaml.YAMLError as error:
        raise SpecError("", str(error).partition("\n")[0]) from error
    return build(Pipeline, substituted(document, environ), names={"from": "source"})
