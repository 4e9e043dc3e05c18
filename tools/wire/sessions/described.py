"""The lines of `pybroker record --json`: decoded requests and answers, with API name and version."""

from __future__ import annotations

import json

from protocol.error_codes import ProtocolError
from tools.data.java_text import JsonValue
from tools.wire.sessions.conversation import PendingRequest
from tools.wire.sessions.plain import plain
from tools.wire.sessions.recording import Kind, SessionEvent, common_fields


def described(event: SessionEvent, pending: PendingRequest | None) -> bytes:
    """Return the line; `pending` is the request, also for an answer."""
    fields = common_fields(event)
    if pending is not None and event.kind not in (Kind.OPEN, Kind.CLOSE):
        fields |= {
            "api": pending.name,
            "version": pending.version,
            "correlation_id": pending.correlation_id,
        }
        if event.kind is Kind.REQUEST:
            fields["client_id"] = pending.client_id
        fields["bytes"] = len(event.frame)
        fields["body"] = _body(event, pending)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _body(event: SessionEvent, pending: PendingRequest) -> JsonValue:
    frame = memoryview(event.frame)
    try:
        if event.kind is Kind.REQUEST:
            request = pending.request(frame)
            return None if request is None else plain(request, pending.version)
        answer = pending.answer(frame)
        return None if answer is None else plain(*answer)
    except ProtocolError as error:
        return {"unreadable": str(error)}
