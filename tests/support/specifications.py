"""Specifications of pipelines for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pybroker.pipeline.spec import Pipeline, load


def document(**changes: Any) -> dict[str, Any]:
    """Return the smallest specification, changed."""
    whole: dict[str, Any] = {
        "version": 1,
        "name": "n",
        "kafka": {"bootstrap": "127.0.0.1:9092"},
        "checkpoint_root": "state",
        "sources": {"s": {"topics": ["t"]}},
        "streams": {"q": {"from": "s", "sink": {"format": "parquet", "path": "rows"}}},
    }
    return whole | changes


def written(tmp_path: Path, content: object) -> Path:
    """Write a specification to a file."""
    path = tmp_path / "spec.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def loaded(tmp_path: Path, content: object, **environ: str) -> Pipeline:
    """Read a specification from a file."""
    return load(written(tmp_path, content), environ)
