"""The lines of `pybroker record --json`: decoded requests and answers, with API name and version."""

from __future__ import annotations

import json

from protocol.error_codes import ProtocolError
from tools.data.java_text import JsonValue
from tools.wire.sessions.conversation import Asked
from tools.wire.sessions.plain import plain
from tools.wire.sessions.recording import Happening, Kind, common_fields


def described(happening: Happening, asked: Asked | None) -> bytes:
    """Return the line; `asked` is the request, also for an answer."""
    told = common_fields(happening)
    if asked is not None and happening.kind not in (Kind.OPEN, Kind.CLOSE):
        told |= {"api": asked.name, "version": asked.version, "correlation_id": asked.correlation_id}
        if happening.kind is Kind.REQUEST:
            told["client_id"] = asked.client_id
        told["bytes"] = len(happening.frame)
        told["body"] = _body(happening, asked)
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _body(happening: Happening, asked: Asked) -> JsonValue:
    frame = memoryview(happening.frame)
    try:
        if happening.kind is Kind.REQUEST:
            request = asked.request(frame)
            return None if request is None else plain(request, asked.version)
        answer = asked.answer(frame)
        return None if answer is None else plain(*answer)
    except ProtocolError as error:
        return {"unreadable": str(error)}
