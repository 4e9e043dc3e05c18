"""The sender of a heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Caller(NamedTuple):
    """The sender of a request. `fresh_id` is an id for a member without one, if the coordinator issues ids.

    `may_describe`: whether the sender may know that a topic exists; None: it may know of all.
    """

    client_id: str
    client_host: str
    fresh_id: str = ""
    may_describe: Callable[[str], bool] | None = None
