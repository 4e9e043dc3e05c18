"""Where rows go."""

from __future__ import annotations

from dataclasses import dataclass

from pybroker.pipeline.spec.topic import check_topic_name
from pybroker.pipeline.values import SpecError, key, near

# The formats that are known by name, with the keys that each requires and its modes besides append
NEEDED: dict[str, tuple[str, ...]] = {
    "parquet": ("path",),
    "delta": ("path",),
    "kafka": ("topic",),
    "jdbc": ("url", "table"),
    "console": (),
}
MODES = {
    "delta": ("complete",),
    "kafka": ("update", "complete"),
    "jdbc": ("complete",),
    "console": ("update", "complete"),
}

# Formats of files in a folder. Spark keeps their list in the folder, for one query
_FILES = frozenset(("parquet", "orc", "json", "csv", "text", "xml", "avro"))

_ONLY_OF = {"topic": "kafka", "key": "kafka", "url": "jdbc", "table": "jdbc"}


@dataclass(frozen=True, slots=True)
class Sink:
    """Where rows go."""

    format: str = key(
        "parquet, delta, kafka, jdbc, console; or another one, with `options` and `packages`", example="parquet"
    )
    path: str | None = key("of files: their folder", None, example="./lake/events")
    partition_by: list[str] = key("of files: columns whose values become folders", [], example=["date"])
    topic: str | None = key("of kafka: the topic", None, example="events-out")
    record_key: str | None = key(
        "of kafka: the column that is a record's key; values are rows as JSON", None, spelt="key", example="id"
    )
    url: str | None = key("of jdbc: the database", None, example="jdbc:postgresql://127.0.0.1/shop")
    table: str | None = key("of jdbc: the table; mode complete rewrites it with each batch", None)
    options: dict[str, str] = key("Spark's own for the format, such as user and password of jdbc", {})
    packages: list[str] = key(
        "Maven coordinates of jars, downloaded with their dependencies",
        [],
        example=["org.postgresql:postgresql:42.7.4"],
    )

    def __post_init__(self) -> None:
        if self.format not in NEEDED and not self.options and not self.packages:
            known = ", ".join(NEEDED)
            hint = near(self.format, NEEDED)
            raise SpecError("format", f"{self.format!r} is not one of: {known}, and has no options or packages{hint}")
        for needed in NEEDED.get(self.format, ()):
            if getattr(self, needed) is None:
                raise SpecError(needed, f"format {self.format} needs it")
        given = {"topic": self.topic, "key": self.record_key, "url": self.url, "table": self.table}
        for name, value in given.items():
            if value is not None and self.format != _ONLY_OF[name]:
                raise SpecError(name, f"format {self.format} takes none")
        if self.topic is not None:
            check_topic_name(self.topic, "topic")
        for index, coordinates in enumerate(self.packages):
            if coordinates.count(":") != 2:
                raise SpecError(f"packages[{index}]", f"{coordinates!r} is not group:name:version")

    def takes(self, mode: str) -> bool:
        """Return whether the format supports an output mode; an unknown format may try all modes."""
        return mode == "append" or self.format not in NEEDED or mode in MODES.get(self.format, ())

    def is_files(self) -> bool:
        """Return whether rows go to files of one query, which Spark lists in their folder."""
        return self.path is not None and self.format.lower() in _FILES

    def is_elsewhere(self) -> bool:
        """Return whether the options name another broker than the pipeline's."""
        return "kafka.bootstrap.servers" in map(str.lower, self.options)

    def place(self) -> str:
        """Return the target of the rows as one text, which is unique to this sink."""
        where = self.path or self.topic or (f"{self.url} {self.table}" if self.url else "")
        return f"{self.format} {where}".strip()
