"""JoinGroup requests of the classic protocol, as the coordinator uses them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coordinator.effects import Waiter
from coordinator.group.classic.member import MemberProtocol
from coordinator.group.settings import GroupSettings
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP
from protocol.schema import Struct


class Join(msgspec.Struct, frozen=True):
    """A JoinGroup request with its sender, its parked response, and an id for a client that has none.

    `may_describe`: whether the sender may know that a topic exists; None: it may know of all.
    """

    group_id: str
    member_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    reason: str
    client_id: str
    client_host: str
    fresh_uuid: str
    waiter: Waiter
    may_describe: Callable[[str], bool] | None = None

    @property
    def protocol_names(self) -> list[str]:
        return [protocol.name for protocol in self.protocols]


def join_error(code: ErrorCode, member_id: str) -> Struct:
    """Return the response to a join that fails."""
    return JOIN_GROUP.response(error_code=code, member_id=member_id)


def read_join(
    request: Struct,
    waiter: Waiter,
    client_id: str | None,
    client_host: str,
    fresh_uuid: str,
    may_describe: Callable[[str], bool] | None = None,
) -> Join:
    """Return the request as a Join. v0 has no rebalance timeout: the session timeout serves as both.

    If two protocols have one name, the first counts. Kafka counts such a member twice for the name, and so may choose a
    protocol that another member does not support.
    """
    version = waiter.api_version
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    return Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.session_timeout_ms,
        request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms,
        request.protocol_type,
        tuple(MemberProtocol(name, metadata) for name, metadata in protocols.items()),
        request.reason or "not provided",
        client_id or "",
        client_host,
        fresh_uuid,
        waiter,
        may_describe,
    )


def check_join(settings: GroupSettings, join: Join) -> ErrorCode:
    """Check what does not depend on the group. Return INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, or NONE."""
    if not join.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not settings.min_session_timeout_ms <= join.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE
