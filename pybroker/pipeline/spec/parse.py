"""How the value of a record becomes columns, and which column is the event time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pybroker.pipeline.spec.interval import seconds
from pybroker.pipeline.spec.presets import PRESETS
from pybroker.pipeline.spec.topic import check_topic_name
from pybroker.pipeline.values import SpecError, key

_NEEDS_SCHEMA = ("json", "csv")
_OF_AVRO = ("schema_file", "framing", "registry", "subject")
_SMALLEST_LETTER = 4096


@dataclass(frozen=True, slots=True)
class Parse:
    """How the value of a record becomes columns."""

    format: Literal["text", "raw", "json", "csv", "regex", "avro"] = key(
        "`text` and `raw`: one column `value`, a string or bytes; `json`, `csv` and `avro`: the fields of `schema`; "
        "`regex`: the named groups of `pattern`",
        "text",
        example="json",
    )
    preset: Literal["nginx_combined", "nginx_json"] | None = key(
        "in place of pattern and schema: nginx's log format combined, or nginx's lines as JSON", None
    )
    pattern: str | None = key(
        "of regex: Java's, with named groups, found anywhere in the value", None, example="(?<level>[A-Z]+) (?<text>.*)"
    )
    schema: str | None = key(
        "of json and csv: the fields, in Spark's DDL; of regex: types of groups that are not strings; "
        "of avro: a record's schema, in Avro's JSON",
        None,
        example="id BIGINT, name STRING",
    )
    schema_file: str | None = key("of avro: a file with the schema", None, example="./event.avsc")
    framing: Literal["plain", "confluent"] | None = key(
        "of avro: `confluent` when a zero byte and a schema's id of four bytes come first, usual with registry; "
        "else `plain`",
        None,
    )
    registry: str | None = key(
        "of avro: a Confluent schema registry; each value is read by the schema of its id",
        None,
        example="http://127.0.0.1:8081",
    )
    subject: str | None = key(
        "of registry: the subject of the ids. Columns are those of the newest version, unless a schema is given",
        None,
        example="events-value",
    )
    options: dict[str, str] = key("of json and csv: Spark's own, such as sep, header or timestampFormat", {})
    max_bytes: int | None = key(
        "the longest value in bytes; a longer one is not parsed. Default: no limit; 32768 with a `pattern` that "
        "repeats a group, because Java's stack is limited",
        None,
        example=1_000_000,
    )

    def __post_init__(self) -> None:
        if self.max_bytes is not None and self.max_bytes < 1:
            raise SpecError("max_bytes", "has to be 1 or more")
        if self.format != "avro":
            for name in _OF_AVRO:
                if getattr(self, name) is not None:
                    raise SpecError(name, f"format {self.format} takes none")
        if self.preset is not None:
            self._check_preset(self.preset)
        elif self.format == "avro":
            self._check_avro()
        elif self.format in _NEEDS_SCHEMA and self.schema is None:
            raise SpecError("schema", f"format {self.format} needs it")
        elif self.format == "regex" and self.pattern is None:
            raise SpecError("pattern", "format regex needs either pattern or preset")
        elif self.format != "regex" and self.pattern is not None:
            raise SpecError("pattern", f"format {self.format} takes none")
        elif self.format in ("text", "raw") and self.schema is not None:
            raise SpecError("schema", f"format {self.format} takes none")

    def written_out(self) -> Parse:
        """Return the same settings with the preset expanded."""
        if self.preset is None:
            return self
        preset = PRESETS[self.preset]
        return replace(self, format=preset.format, preset=None, pattern=preset.pattern, schema=preset.schema)

    def _check_avro(self) -> None:
        if self.schema is not None and self.schema_file is not None:
            raise SpecError("schema_file", "a schema is given already")
        if self.pattern is not None:
            raise SpecError("pattern", "format avro does not support it")
        if self.registry is None and self.schema is None and self.schema_file is None:
            raise SpecError("schema", "format avro needs schema, schema_file or registry")
        if (self.registry is None) != (self.subject is None):
            raise SpecError("subject" if self.subject is None else "registry", "registry and subject need each other")
        if self.registry is not None and not self.registry.startswith(("http://", "https://")):
            raise SpecError("registry", f"{self.registry!r} is not an address such as http://127.0.0.1:8081")
        if self.registry is not None and self.framing == "plain":
            raise SpecError("framing", "a registry needs a schema's id in each value")

    def _check_preset(self, preset: str) -> None:
        if self.format not in (wanted := PRESETS[preset].format, "text"):
            raise SpecError("preset", f"{preset} is of format {wanted}, not {self.format}")
        if self.pattern is not None or self.schema is not None:
            raise SpecError("pattern" if self.pattern else "schema", f"the preset {preset} has its own")


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a record."""

    column: str = key("the column of the time; `_timestamp` is the timestamp of the record", example="time")
    format: str | None = key(
        "the format of its text, as a Spark date pattern; default: ISO 8601", None, example="dd/MMM/yyyy:HH:mm:ss Z"
    )
    watermark: str = key("how late a record may be", "1 minute")

    def __post_init__(self) -> None:
        seconds(self.watermark, "watermark")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The topic for records that cannot be parsed."""

    topic: str = key(
        "a topic: key and value as they came, with headers error, topic, partition and offset", example="events-dlt"
    )
    max_bytes: int = key(
        "the most bytes of a letter that the topic accepts: a larger one is cut and has a header `cut`; default: "
        "the default max.message.bytes",
        1_048_588,
    )

    def __post_init__(self) -> None:
        check_topic_name(self.topic, "topic")
        if self.max_bytes < _SMALLEST_LETTER:
            raise SpecError("max_bytes", f"has to be {_SMALLEST_LETTER} or more")
