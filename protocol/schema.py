"""Declarations of messages: an API with its request and response, built from the types in struct_types.py.

    TopicRequest = StructType("TopicRequest", Field("name", string), Field("topic_id", uuid, "2+"))
    EXAMPLE = Api(key=99, name="Example", versions="0-2", flexible="1+",
                  request=[Field("topics", Array(TopicRequest), nullable="1+")], response=[Field("error_code", int16)])
    EXAMPLE.request(topics=[TopicRequest(name="t")])

A declaration is cheap to import: value classes, decoders and encoders are created on first use. The terms (versions,
nullable, tag, default, ignorable) are those of Apache Kafka's message definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from protocol.error_codes import UnsupportedVersion
from protocol.struct_types import UNSET, Array, Chunk, Field, MessageType, ReadBuffer, Struct, StructType
from protocol.versions import NO_VERSIONS, VersionRange, parse_versions

MAX_REQUEST_ELEMENTS = 1 << 18
"""The limit for array elements and tagged fields of a request, in total. Eight numbers count as one element.

A few bytes may become some hundred bytes in memory, within microseconds. At the limit they are at most 100 MiB and take
about a second. A request that names 100,000 partitions of as many topics needs 200,000 elements.
"""


class Message(MessageType):
    """A request, a response or a stored record, with decoders and encoders for its versions.

    The arguments are those of MessageType. For `max_elements` see MAX_REQUEST_ELEMENTS.
    """

    def __init__(
        self,
        name: str,
        *fields: Field,
        versions: str,
        flexible: str = "none",
        key: int | None = None,
        max_elements: int = sys.maxsize,
    ) -> None:
        super().__init__(name, *fields, versions=versions, flexible=flexible, key=key, max_elements=max_elements)
        self._decoders: dict[int, Callable[[ReadBuffer, int], tuple[Struct, int]]] = {}
        self._encoders: dict[int, Callable[[Struct], list[Chunk]]] = {}

    def decode(self, version: int, buffer: ReadBuffer, position: int = 0) -> tuple[Struct, int]:
        """Decode a value from `buffer` at `position`. Returns (value, end).

        Bytes after the end are ignored, because some clients send more than their version has. `records` fields are
        memoryview slices of the buffer; all other values are independent of it. Raises ProtocolError.
        """
        decoder = self._decoders.get(version)
        if decoder is None:
            decoder = self.decoder(version)
        return decoder(buffer, position)

    def encode(self, version: int, value: Struct) -> bytes:
        """Return the bytes of a value. A `records` field must be bytes-like here. Raises EncodeError."""
        chunks: Any = self.encode_chunks(version, value)
        return chunks[0] if len(chunks) == 1 and type(chunks[0]) is bytes else b"".join(chunks)

    def encode_chunks(self, version: int, value: Struct) -> list[Chunk]:
        """Return the bytes of a value in pieces. A `records` value is one of the pieces and is not copied."""
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = self.encoder(version)
        return encoder(value)

    def decoder(self, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        """Return the function (buffer, position) -> (value, end) of a version. Raises UnsupportedVersion."""
        if version not in self._decoders:
            from protocol.decoder import compile_decoder

            self._check(version)
            self._decoders[version] = compile_decoder(self, version)
        return self._decoders[version]

    def encoder(self, version: int) -> Callable[[Struct], list[Chunk]]:
        """Return the function value -> chunks of a version. Raises UnsupportedVersion."""
        if version not in self._encoders:
            from protocol.encoder import compile_encoder

            self._check(version)
            self._encoders[version] = compile_encoder(self, version)
        return self._encoders[version]

    def _check(self, version: int) -> None:
        if version not in self.versions:
            raise UnsupportedVersion(f"{self.name} has versions {self.versions}, not {version}")


class Api:
    """An API key with its request and response.

    `versions` are all versions that the schemas describe. `current` are those that Apache Kafka 4.4 supports: empty for
    removed APIs, and without a newest version that is not stable. `listeners` are the kinds of listeners on which Kafka
    offers the API.
    """

    def __init__(
        self,
        *,
        key: int,
        name: str,
        versions: str,
        current: str | None = None,
        flexible: str,
        listeners: str = "broker",
        request: Sequence[Field],
        response: Sequence[Field],
    ) -> None:
        self.key = key
        self.name = name
        self.versions = parse_versions(versions)
        self.current = self.versions if current is None else parse_versions(current)
        self.flexible = parse_versions(flexible)
        self.listeners = tuple(listeners.split()) if listeners else ()
        self.request = Message(
            f"{name}Request", *request, versions=versions, flexible=flexible, max_elements=MAX_REQUEST_ELEMENTS
        )
        self.response = Message(f"{name}Response", *response, versions=versions, flexible=flexible)

    def request_header_version(self, version: int) -> int:
        """Return 2 in flexible versions, else 1; 0 for ControlledShutdown v0, which has no client id."""
        if self.key == 7 and version == 0:
            return 0
        return 2 if version in self.flexible else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 in flexible versions, else 0.

        It is always 0 for ApiVersions, because the client may not know the version of the response (KIP-511).
        """
        return 1 if version in self.flexible and self.key != 18 else 0

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name!r}, versions={self.versions})"


__all__ = [
    "MAX_REQUEST_ELEMENTS",
    "NO_VERSIONS",
    "UNSET",
    "Api",
    "Array",
    "Chunk",
    "Field",
    "Message",
    "ReadBuffer",
    "Struct",
    "StructType",
    "VersionRange",
    "parse_versions",
]
