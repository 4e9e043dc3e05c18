"""Who sent a heartbeat, as its decision sees it."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """Who sent a request; `fresh_id` is an id for whoever has none, where the coordinator gives them out."""

    client_id: str
    client_host: str
    fresh_id: str = ""
