"""The default position file of `pybroker produce --follow`: one for each topic and cluster."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

# The name ends with a digest of everything, so the readable parts may be cut. It leaves room for ".lock" and ".new" on
# file systems that allow 143 bytes, such as eCryptfs.
_TOPIC_CHARACTERS = 60
_SERVER_CHARACTERS = 40
_DIGEST_CHARACTERS = 16


def default_position(topic: str, bootstrap: str, environ: Mapping[str, str]) -> Path:
    """Return the default position file of a topic at a cluster, in whatever order its servers are named.

    The file of an earlier version, whose name was unbounded, stays in use where it exists.
    """
    folder = Path(environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")) / "pybroker"
    earlier = folder / f"{topic}@{_plain(bootstrap)}.json"
    return earlier if os.path.exists(earlier) else folder / _name(topic, bootstrap)  # exists() allows any length


def _name(topic: str, bootstrap: str) -> str:
    servers = sorted({server.strip().lower() for server in bootstrap.split(",")} - {""})
    digest = hashlib.sha256("\n".join([topic, *servers]).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    first = _plain(servers[0] if servers else "")[:_SERVER_CHARACTERS]
    return f"{topic[:_TOPIC_CHARACTERS]}@{first}-{digest}.json"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", text)
