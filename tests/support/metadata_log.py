"""Read recorded `__cluster_metadata` directories, and show records as kafka-dump-log does."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from metadata.bulk_records import Changes, PartitionChanges
from metadata.framing import AnyRecord, MetadataRecord, decode_record
from protocol.primitives import uuid
from protocol.records.batch import iter_batches
from protocol.records.record import iter_batch_records
from protocol.schema import Array, Struct, StructType

LOGS = Path(__file__).resolve().parent.parent / "data" / "logs"
CLEAN_SHUTDOWN = LOGS / "v4.3.1-clean-shutdown"


def each_record(changes: Iterable[Changes]) -> Iterator[MetadataRecord]:
    """Yield the records one by one."""
    for change in changes:
        if isinstance(change, PartitionChanges):
            for topic_id, partition in change.partitions:
                yield change.record(topic_id, partition)
        else:
            yield change


def stored_values(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, value) of each metadata record in a segment or snapshot, without control records."""
    data = file.read_bytes()
    for position, header in iter_batches(data):
        if not header.is_control:
            for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes]):
                assert record.value is not None
                yield record.offset, record.value


def stored_records(file: Path) -> list[AnyRecord]:
    """Return the metadata records of a segment or snapshot."""
    return [decode_record(value) for _, value in stored_values(file)]


def dumped_records(dump: Path) -> dict[int, dict[str, Any]]:
    """Parse the output of kafka-dump-log --cluster-metadata-decoder: offset -> {"type", "version", "data"}."""
    found = re.findall(r"^\| offset: (\d+) .* payload: (\{.*\})$", dump.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(offset): json.loads(payload) for offset, payload in found}


def as_dumped(record: MetadataRecord) -> dict[str, Any]:
    """Return a record as the tool prints it."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", record.message.name).upper()
    return {"type": name, "version": record.version, "data": _as_json(record.value, record.message, record.version)}


def _as_json(value: Struct, kind: StructType, version: int) -> dict[str, Any]:
    shown = {}
    for field in kind.fields:
        content = getattr(value, field.name)
        if version not in field.versions or (field.tag is not None and content == field.default):
            continue
        if isinstance(field.type, Array) and content is not None:
            element = field.type.element
            content = [
                _as_json(item, element, version) if isinstance(element, StructType) else _scalar(item, element)
                for item in content
            ]
        else:
            content = _scalar(content, field.type)
        words = field.name.split("_")
        shown[words[0] + "".join(word.title() for word in words[1:])] = content
    return shown


def _scalar(value: Any, kind: object) -> Any:
    return base64.urlsafe_b64encode(value).decode().rstrip("=") if kind is uuid else value
