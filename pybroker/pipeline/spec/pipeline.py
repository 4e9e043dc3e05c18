"""A whole specification, and the function that reads its file.

The dataclasses are the reference: a key that none of them has, a value of the wrong kind, or a missing key is a
SpecError with the key's path. `${NAME}` and `${NAME:-default}` in any text are environment variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pybroker.pipeline import checkpoint
from pybroker.pipeline.spec.interval import seconds
from pybroker.pipeline.spec.source import Source, Table
from pybroker.pipeline.spec.stream import Stream
from pybroker.pipeline.values import SpecError, build, key, substituted
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

_NAME = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Kafka:
    """The broker of all sources and sinks."""

    bootstrap: str = key("the broker's address", example="127.0.0.1:9092")
    options: dict[str, str] = key(
        "properties of the Java client, for sources and sinks", {}, example={"security.protocol": "SSL"}
    )


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark runs."""

    master: str = key("Spark's master", "local[2]")
    memory: str = key("memory of the driver", "1g")
    conf: dict[str, str] = key("Spark's properties", {}, example={"spark.sql.shuffle.partitions": "4"})

    def __post_init__(self) -> None:
        if self.master.startswith("sc:"):
            raise SpecError("master", "a server of Spark Connect runs no pipelines: `package` is for a cluster")


@dataclass(frozen=True, slots=True)
class Restart:
    """How a failed stream is restarted."""

    attempts: int = key("consecutive attempts; a successful batch resets the count", 5)
    back_off: str = key("wait before the first attempt; it doubles with each further one", "1s")
    back_off_max: str = key("at most", "1m")

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise SpecError("attempts", "has to be 1 or more")
        seconds(self.back_off, "back_off")
        seconds(self.back_off_max, "back_off_max")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The whole file."""

    version: Literal[1] = key("version of this format", example=1)
    name: str = key("the application's name in Spark", example="events")
    kafka: Kafka = key("the broker of all sources and sinks")
    sources: dict[str, Source] = key("inputs by name; the name is also the table in SQL", example="events")
    streams: dict[str, Stream] = key("queries by name, each with its own checkpoint", example="archive")
    checkpoint_root: str = key(
        "a folder, local or reachable by Spark; each stream has its checkpoint in a subfolder of its name",
        example="./state",
    )
    tables: dict[str, Table] = key("static files to join with, by name", {}, example="pages")
    spark: Spark = key("where Spark runs", Spark)
    restart: Restart | None = key("restart a failed stream; without it, a failure stops all streams", None)

    def __post_init__(self) -> None:
        named: dict[str, Iterable[str]] = {"sources": self.sources, "tables": self.tables, "streams": self.streams}
        for kind, names in named.items():
            for name in names:
                if not _NAME.fullmatch(name):
                    raise SpecError(f"{kind}.{name}", "a name is letters, digits and _, and begins with a letter")
        for name in self.sources.keys() & self.tables.keys():
            raise SpecError(f"tables.{name}", "is the name of a source, too")
        for name, stream in self.streams.items():
            self._check_stream(f"streams.{name}", stream)
        self._check_folders()

    def uses_delta(self) -> bool:
        """Return whether any source or sink uses Delta Lake."""
        return any(one.sink.format == "delta" for one in self.streams.values()) or any(
            one.format == "delta" for one in self.tables.values()
        )

    def parses_avro(self) -> bool:
        """Return whether any source has Avro values."""
        return any(source.parse.format == "avro" for source in self.sources.values())

    def _check_folders(self) -> None:
        """Check that no two queries write files to one folder: Spark would mix up which batches are done."""
        writers: dict[str, str] = {}
        for name, stream in self.streams.items():
            if stream.sink.path is not None and stream.sink.is_files():
                local = checkpoint.local(stream.sink.path)
                folder = stream.sink.path.rstrip("/") if local is None else os.path.abspath(local)
                if (other := writers.setdefault(folder, name)) != name:
                    raise SpecError(f"streams.{name}.sink.path", f"stream {other!r} writes there: rows would be lost")

    def _check_stream(self, path: str, stream: Stream) -> None:
        if stream.source not in self.sources:
            raise SpecError(f"{path}.from", f"no source {stream.source!r}; there are: {', '.join(self.sources)}")
        source, topic = self.sources[stream.source], stream.sink.topic
        if source.pattern is not None and topic is not None and source.reads(topic) and not stream.sink.is_elsewhere():
            problem = f"matches the pattern of the source {stream.source!r}: its rows would return forever"
            raise SpecError(f"{path}.sink.topic", problem)
        timed = source.event_time is not None
        if stream.window and not timed and stream.mode == "append":
            raise SpecError(f"{path}.window", f"append needs an event_time in the source {stream.source!r}")
        if stream.deduplicate and not timed:
            raise SpecError(f"{path}.deduplicate", f"needs an event_time in the source {stream.source!r}")


def load(path: Path, environ: Mapping[str, str]) -> Pipeline:
    """Read a specification.

    Errors: SpecError; OSError for a file that cannot be read.
    """
    from pybroker.pipeline.spec.document import parse

    try:
        text = utf8_text(file_bytes(path), may_have_zeros=True)
    except UnreadableText as error:
        raise SpecError("", str(error)) from error
    try:
        return build(Pipeline, substituted(parse(text), environ))
    except RecursionError as error:
        raise SpecError("", "this is nested too deeply, or in itself") from error
