"""A protocol that a member of a classic group supports: its name and its metadata."""

from __future__ import annotations

from typing import NamedTuple


class MemberProtocol(NamedTuple):
    """A protocol that a member supports (for consumers, an assignor), with the metadata that the leader gets."""

    name: str
    metadata: bytes
