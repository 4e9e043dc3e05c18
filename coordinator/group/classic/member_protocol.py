"""What a member of a classic group offers: a name and what comes with it."""

from __future__ import annotations

from typing import NamedTuple


class MemberProtocol(NamedTuple):
    """A protocol (of consumers: an assignor) that a member can do, with what it tells the leader under it."""

    name: str
    metadata: bytes
