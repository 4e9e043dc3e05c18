"""Readers of records without Spark, and their rows: of directories in this process, of topics in a child."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from pybroker.isolated.serving import serve
from pybroker.source.bounds import EARLIEST, LATEST, Bounds, at_offset
from pybroker.source.columns import USUAL, arrow_schema
from pybroker.source.errors import from_json
from pybroker.source.frames import ANSWER, BATCH, REQUEST, read_frame, write_json
from pybroker.source.reader import Reader

FIRST, LAST = at_offset(EARLIEST), at_offset(LATEST)


def ask(do: str, **arguments: Any) -> tuple[Any, list[pa.RecordBatch]]:
    """Return the process's answer, and the batches before it. Raises its SourceError."""
    requests, answers = io.BytesIO(), io.BytesIO()
    write_json(requests, REQUEST, {"do": do, **arguments})
    requests.seek(0)
    serve(requests, answers)
    answers.seek(0)
    batches = []
    while (frame := read_frame(answers)) is not None:
        kind, payload = frame
        if kind == BATCH:
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(payload), arrow_schema(arguments["columns"])))
        elif kind == ANSWER:
            return json.loads(payload), batches
        else:
            raise from_json(json.loads(payload))
    raise AssertionError("no answer")


def plan(
    path: Path | None,
    *,
    start: Bounds = FIRST,
    end: Bounds = LAST,
    topics: list[str] | None = None,
    assigned: list[tuple[str, int]] | None = None,
    committed: bool = False,
    remote: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the splits of a directory, of remote storage, or of both."""
    bounds = {"start": start.to_json(), "end": end.to_json()}
    wanted = {**bounds, "topics": topics, "assigned": assigned, "committed": committed, "remote": remote}
    splits: list[dict[str, Any]] = ask("plan_log", path=None if path is None else str(path), **wanted)[0]
    return splits


def rows(path: Path | None, columns: tuple[str, ...] = USUAL, **wanted: Any) -> list[dict[str, Any]]:
    """Return all rows of a directory, by its splits."""
    found: list[dict[str, Any]] = []
    for split in plan(path, **wanted):
        count, batches = ask("read_log", columns=columns, **split)
        here = [row for batch in batches for row in batch.to_pylist()]
        assert count == {"count": len(here)}
        found += here
    return found


def values(path: Path | None, **wanted: Any) -> list[bytes | None]:
    """Return the values of all rows."""
    return [row["value"] for row in rows(path, ("value",), **wanted)]


def offsets(path: Path | None, **wanted: Any) -> list[int]:
    """Return the offsets of all rows."""
    return [row["offset"] for row in rows(path, ("offset",), **wanted)]


def topic_rows(
    reader: Reader,
    bootstrap: str,
    topic: str,
    columns: tuple[str, ...] = USUAL,
    start: Bounds = FIRST,
    *,
    fail: bool = True,
    **properties: str,
) -> list[dict[str, Any]]:
    """Return all rows of a topic, or those from a bound on, partition by partition."""
    of = {"properties": {"bootstrap.servers": bootstrap, **properties}}
    bounds = {"start": start.to_json(), "end": LAST.to_json()}
    planned = reader.ask("plan_topics", topics=[topic], pattern=None, assigned=None, **bounds, **of)
    found: list[dict[str, Any]] = []
    for each in planned:
        place = {name: each[name] for name in ("topic", "partition", "start", "end")}
        for batch in reader.batches("read_topic", columns, fail_on_data_loss=fail, **place, **of):
            found += batch.to_pylist()
    return found
