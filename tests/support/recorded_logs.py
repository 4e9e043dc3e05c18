"""Log directories recorded from Apache Kafka (tests/data/logs), and the configuration of their topics."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol.records.batch import parse_header
from storage.log_config import LogConfig
from tests.support.dump_log import LOGS

#: after all records in them were written, and before any expires
NOW_MS = 1_795_000_000_000

_RECORD = re.compile(r'"type":"CONFIG_RECORD".*?"resourceType":2,"resourceName":"(.*?)","name":"(.*?)","value":"(.*?)"')


def recorded_directories(*, v2_only: bool = True) -> list[Path]:
    """Return each partition directory, of every set."""
    found = sorted(path for path in LOGS.glob("v*/*-[0-9]*") if path.is_dir())
    return [path for path in found if not (v2_only and path.parent.name.startswith("v3.9.1"))]


def topic_config(directory: Path) -> LogConfig:
    """Return the configuration of the topic of a recorded partition directory."""
    topic = directory.name.rpartition("-")[0]
    if topic == "__cluster_metadata":
        return LogConfig(segment_bytes=1 << 30, index_interval_bytes=4096)
    values: dict[str, str] = {}
    decoded = directory.parent / "__cluster_metadata-0.decoded.txt"
    if decoded.exists():
        for name, key, value in _RECORD.findall(decoded.read_text()):
            if name == topic:
                values[key] = value
    elif directory.parent.name.startswith("v4.3.1"):
        values = {"index.interval.bytes": "100", "internal.segment.bytes": "3000"}
        if "unclean" in topic:
            values["segment.index.bytes"] = "512"
    return _config(values)


def _config(values: dict[str, str]) -> LogConfig:
    known: dict[str, Any] = {}
    for key, value in values.items():
        name = key.removeprefix("internal.").replace(".", "_")
        if name == "cleanup_policy":
            known[name] = frozenset(value.split(","))
        elif name == "min_cleanable_dirty_ratio":
            known[name] = float(value)
        elif name == "unclean_leader_election_enable":
            known[name] = value == "true"
        else:
            known[name] = int(value) if value.lstrip("-").isdigit() else value
    return LogConfig(**known)


def copied(directory: Path, target: Path) -> Path:
    """Copy a recorded directory, so that a test may open and change it."""
    return Path(shutil.copytree(directory, target / directory.name))


def recorded_batches(directory: Path) -> Iterator[bytes]:
    """Yield the batches of a recorded v2 log, in order."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            size = parse_header(data, position).size_bytes
            yield data[position : position + size]
            position += size
