"""The rules of Kafka for topic names."""

from __future__ import annotations

import re

from pybroker.pipeline.values import SpecError

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def check_topic_name(name: str, path: str) -> None:
    """Check the name of a topic. Errors: SpecError at `path` for an invalid name."""
    if not _NAME.fullmatch(name):
        raise SpecError(path, f"{name!r} is not a topic name: letters, digits, '.', '_' and '-', 249 in all at most")
