"""Send bytes to a broker and report the outcome."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from protocol.error_codes import ProtocolError, UnsupportedVersion
from protocol.framing import frame
from protocol.headers import decode_request_header, decode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.registry import API_BY_KEY
from tests.conformance.client_sessions import error_codes
from tests.support.brokers import HOST
from tests.support.wire import Closed, WireClient

_LAST_ID = 0x7E57E57
_LAST = frame(struct.pack(">hhih", API_VERSIONS.key, 0, _LAST_ID, -1))


def patient_outcome(port: int, data: bytes, expected: str) -> str:
    """Return the outcome; if it is not the expected one, look once more and longer: a busy broker closes late."""
    found = outcome(port, data)
    return found if found == expected or not _is_cut(data) else outcome(port, data, patience_s=20)


def outcome(port: int, data: bytes, *, patience_s: float = 0.5) -> str:
    """Return the broker's reaction to `data`, on a connection of its own.

    One word for each frame in it: "ok", the error codes of the answer, or "unanswered"; then "closed" if the broker
    closes the connection, "open" if it serves the next request, or "waits" if it expects more bytes.
    """
    words: list[str] = []
    with WireClient(HOST, port, timeout_s=patience_s if _is_cut(data) else 60) as client:
        frames = list(_frames(data))
        try:
            client.socket.sendall(data if _is_cut(data) else data + _LAST)
            while True:
                answer = client.receive_frame()
                if struct.unpack_from(">i", answer)[0] == _LAST_ID:
                    words += ["unanswered"] * (len(frames) - len(words))
                    return " ".join([*words, "open"])
                words.append(_codes(frames[len(words)], answer))
        except (Closed, ConnectionError):
            return " ".join([*words, "closed"])
        except TimeoutError:
            return " ".join([*words, "waits"])


def _is_cut(data: bytes) -> bool:
    """Return whether a broker that believes the sizes waits for more."""
    position = 0
    while position < len(data):
        if position + 4 > len(data):
            return True
        (size,) = struct.unpack_from(">i", data, position)
        if size < 0:
            return False
        position += 4 + size
    return position > len(data)


def _frames(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if size < 0 or position + 4 + size > len(data):
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _codes(request: bytes, answer: bytes) -> str:
    """Return the error codes of an answer, in ascending order."""
    try:
        header = decode_request_header(request)
        api, version = API_BY_KEY[header.api_key], header.api_version
        if api is API_VERSIONS and version not in api.current:
            version = 0
        position = decode_response_header(api, version, answer)[1]
        codes = {code for _, code in error_codes(api.response.decode(version, answer, position)[0])}
    except (ProtocolError, UnsupportedVersion) as error:
        return f"unreadable({error})"
    return ",".join(map(str, sorted(codes))) or "ok"
