"""Requests that a group coordinator has parked, with what it needs to answer them."""

from __future__ import annotations

from protocol.schema import Struct
from runtime.deferred import Deferred

#: From this version on JoinGroup has null where no protocol is chosen; earlier versions have the empty string.
FIRST_JOIN_VERSION_WITH_NULLS = 7


class ParkedSync:
    """A SyncGroup that waits for its assignment. Answers to disconnected clients are dropped."""

    __slots__ = ("api_version", "deferred")

    def __init__(self, api_version: int) -> None:
        self.api_version = api_version
        self.deferred: Deferred[Struct] = Deferred()

    def answer(self, response: Struct) -> None:
        self.deferred.resolve(response)


class ParkedJoin(ParkedSync):
    """A JoinGroup that waits for the next generation."""

    __slots__ = ()

    def answer(self, response: Struct) -> None:
        if self.api_version < FIRST_JOIN_VERSION_WITH_NULLS:
            response.protocol_name = response.protocol_name or ""
        else:
            response.protocol_name = response.protocol_name or None
        self.deferred.resolve(response)
