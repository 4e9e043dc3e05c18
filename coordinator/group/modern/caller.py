"""Who sent a heartbeat, as its decision sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Caller(NamedTuple):
    """Who sent a request; `fresh_id` is an id for whoever has none, where the coordinator gives them out.

    `may_describe`: whether they may know of a topic; None: of all.
    """

    client_id: str
    client_host: str
    fresh_id: str = ""
    may_describe: Callable[[str], bool] | None = None
