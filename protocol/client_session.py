"""The client's side of a connection: requests get correlation ids, and responses are matched with their requests.

The callers add the socket: the blocking client (`client/`), and the broker.
"""

from __future__ import annotations

from collections import deque
from struct import Struct as Layout
from typing import NamedTuple

from protocol.error_codes import ErrorCode, ProtocolError, UnsupportedVersion
from protocol.framing import frame
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, ReadBuffer, Struct
from protocol.versions import NO_VERSIONS, VersionRange

#: The fields that begin the header of every request: API key, version, correlation id.
_FRONT = Layout(">hhi")


class PendingRequest(NamedTuple):
    """A request that waits for its response."""

    api: Api
    version: int
    correlation_id: int

    @property
    def name(self) -> str:
        """Return API and version, for messages."""
        return f"{self.api.name} v{self.version}"


class Response(NamedTuple):
    """A decoded response. `body` is its frame without the size: the fields are between `start` and `end`."""

    request: PendingRequest
    fields: Struct
    body: ReadBuffer
    start: int
    end: int

    @property
    def extra_bytes(self) -> int:
        """Return the number of bytes behind the last field."""
        return len(self.body) - self.end


class WrongCorrelationId(ProtocolError):
    """A response belongs to another request than the oldest one."""

    def __init__(self, received: int, expected: int) -> None:
        super().__init__(f"the response has correlation id {received}, expected {expected}")


class ClientSession:
    """The requests of one connection, in order. Brokers respond in the same order."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self._last_id = 0
        self._pending: deque[PendingRequest] = deque()
        #: By API key and version, what follows the correlation id in the header: it is always the same.
        self._header_ends: dict[tuple[int, int], bytes] = {}

    def __len__(self) -> int:
        """Return the number of requests that wait for a response."""
        return len(self._pending)

    def encode(self, api: Api, version: int, request: Struct) -> tuple[PendingRequest, bytes]:
        """Return a request with the next correlation id, and its frame. `expect` it when it is sent."""
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        header_end = self._header_ends.get((api.key, version))
        if header_end is None:
            header = encode_request_header(api, version, 0, self.client_id)
            header_end = self._header_ends[api.key, version] = header[_FRONT.size :]
        front = _FRONT.pack(api.key, version, self._last_id)
        data = frame(front, header_end, api.request.encode(version, request))
        return PendingRequest(api, version, self._last_id), data

    def expect(self, request: PendingRequest) -> None:
        """Expect a response to a request, after those that are expected already."""
        self._pending.append(request)

    def match(self, body: ReadBuffer) -> tuple[PendingRequest, int]:
        """Return the oldest request, and the position of the fields in its response.

        Raises ProtocolError if no request is pending or the response belongs to another one.
        """
        if not self._pending:
            raise ProtocolError("a response without a request")
        request = self._pending.popleft()
        correlation_id, start = decode_response_header(request.api, request.version, body)
        if correlation_id != request.correlation_id:
            raise WrongCorrelationId(correlation_id, request.correlation_id)
        return request, start

    def decode(self, body: ReadBuffer) -> Response:
        """Decode the response to the oldest request. Raises ProtocolError, as `match`."""
        request, start = self.match(body)
        fields, end = request.api.response.decode(request.version, body, start)
        return Response(request, fields, body, start, end)


class SupportedVersions:
    """The API versions of a broker, from its response to ApiVersions."""

    def __init__(self, ranges: dict[int, VersionRange]) -> None:
        self._ranges = ranges

    @classmethod
    def from_response(cls, response: Struct) -> SupportedVersions:
        """Raises ProtocolError if the broker responds with an error."""
        if response.error_code:
            raise ProtocolError(f"{API_VERSIONS.name}: {error_text(response.error_code)}")
        return cls({each.api_key: VersionRange(each.min_version, each.max_version) for each in response.api_keys})

    def of(self, api: Api) -> VersionRange:
        """Return the broker's versions of an API."""
        return self._ranges.get(api.key, NO_VERSIONS)

    def newest(self, api: Api, at_most: int | None = None) -> int:
        """Return the newest version that both sides have. Raises UnsupportedVersion.

        Args:
            at_most: the newest version for which the caller has code. By default, the newest of Apache Kafka 4.3.
        """
        served = self.of(api)
        known = api.current.max if at_most is None else at_most
        version = min(known, served.max)
        if version < served.min or version < 0:
            raise UnsupportedVersion(f"it serves {api.name} in versions {served}, not {known}")
        return version


def error_text(code: int) -> str:
    """Return the text of an error code; its number if it is unknown."""
    try:
        return ErrorCode(code).text
    except ValueError:
        return f"error {code}"
