"""Options of the sink: kafka.*, and `topic` when the rows have no such column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pybroker.source.client_properties import PREFIX, read_client_properties
from pybroker.source.errors import UnusableOption

#: Columns that a row may have, in any order. `value` is required. Key and value may be strings.
SINK_COLUMNS = ("key", "value", "topic", "partition", "headers")


@dataclass(frozen=True)
class SinkOptions:
    """The target of the rows."""

    properties: Mapping[str, str]
    topic: str | None


def read_sink_options(given: Mapping[str, str], columns: Sequence[str]) -> SinkOptions:
    """Parse the options, for rows of these columns. Errors: UnusableOption."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in ("topic", "checkpointlocation", "path") and not name.startswith(PREFIX):
            raise UnusableOption(f"there is no option {name!r}: the options are kafka.* and topic")
    properties = read_client_properties(options)
    for column in columns:
        if column not in SINK_COLUMNS:
            raise UnusableOption(f"the rows have a column {column!r}: allowed are {', '.join(SINK_COLUMNS)}")
    if "value" not in columns:
        raise UnusableOption("the rows have no column value")
    topic = options.get("topic")
    if topic is None and "topic" not in columns:
        raise UnusableOption("no topic is given: set the option topic, or add a column topic to the rows")
    return SinkOptions(properties, topic)
