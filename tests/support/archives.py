"""Archive manifests without Spark, as `pybroker archive` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pybroker.archive.files import Files
from pybroker.archive.manifest import ArchivedRange, Manifest, encode
from pybroker.source.bounds import TopicPartition


def put_manifest(root: Path, ends: Mapping[TopicPartition, int]) -> Path:
    """Write a manifest atomically that covers each partition from 0 up to `ends`; return its path."""
    ranges = tuple(ArchivedRange(*place, start=0, end=end, records=end, checksum=0) for place, end in ends.items())
    path = root / "_pybroker" / "manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    Files().replace(path, encode(Manifest(run="run", ranges=ranges)))
    return path
