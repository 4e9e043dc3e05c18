"""How messages are declared: fields with version ranges, structs, messages, and an API's request and response.

    TopicRequest = StructType("TopicRequest", Field("name", string), Field("topic_id", uuid, "2+"))
    EXAMPLE = Api(key=99, name="Example", versions="0-2", flexible="1+",
                  request=[Field("topics", Array(TopicRequest), nullable="1+")], response=[Field("error_code", int16)])
    EXAMPLE.request(topics=[TopicRequest(name="t")])

A declaration does next to nothing when it is imported: classes of values, decoders and encoders are made on first use.
The vocabulary (versions, nullable, tag, default, ignorable) is that of Apache Kafka's message definitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from protocol.errors import UnsupportedVersion
from protocol.primitives import Primitive
from protocol.versions import NO_VERSIONS, VersionRange, parse_versions


class Sized(Protocol):
    """Anything with a length in bytes that the network room knows how to send, such as a slice of a file."""

    def __len__(self) -> int: ...


ReadBuffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = bytes | bytearray | memoryview | Sized


class Struct:
    """A value of a StructType: a slotted object with one attribute per field, equal by fields, unhashable."""

    __slots__ = ()
    struct_type: ClassVar[StructType]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.struct_type is not self.struct_type:
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.struct_type.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in self.struct_type.fields)
        return f"{self.struct_type.name}({fields})"


class Array:
    """A list of primitives or of structs."""

    __slots__ = ("element",)

    def __init__(self, element: Primitive | StructType) -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"[]{self.element!r}"


UNSET: Any = object()

MAX_REQUEST_ELEMENTS = 1 << 18
"""Elements of arrays and tagged fields, together, in a request; of numbers alone eight count for one.

A few bytes may become some hundred in memory, in microseconds: so many, 100 MiB at most, in a second or so. It takes
200,000 of them to name 100,000 partitions of as many topics.
"""


class Field:
    """A field of a struct, on the wire in `versions` (and in those of the struct around it).

    `nullable`: versions in which None may be sent. `tag`: number of the tagged field; such a field is left out when it
    equals its default. `default`: value where nothing is given, or the version lacks the field; the zero of the type
    unless told. `ignorable`: may be dropped silently in versions without it. `flexible=False`: keeps the old encoding
    in flexible versions (the client id of request headers alone). Not changed after it was made.
    """

    __slots__ = ("about", "flexible", "given_default", "ignorable", "name", "nullable", "tag", "type", "versions")

    def __init__(
        self,
        name: str,
        type: Primitive | Array | StructType,
        versions: str = "0+",
        *,
        nullable: str = "",
        tag: int | None = None,
        default: Any = UNSET,
        ignorable: bool = False,
        flexible: bool = True,
        about: str = "",
    ) -> None:
        self.name = name
        self.type = type
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.given_default = default
        self.ignorable = ignorable
        self.flexible = flexible
        self.about = about

    @property
    def default(self) -> Any:
        """The default value. Lists are new ones each time; a struct may be shared, and refuses changes then."""
        if self.given_default is not UNSET:
            return self.given_default
        if isinstance(self.type, StructType):
            return self.type.default()
        return [] if isinstance(self.type, Array) else self.type.zero

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.type!r}, {self.versions})"


class StructType:
    """A named sequence of fields in wire order. Calling it makes a value; fields not given have their defaults.

    `new` is the same as calling, without a detour: for hot paths, `new_topic = TopicData.new` once, then call that.
    """

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields = fields

    def __call__(self, **values: Any) -> Struct:
        return self.new(**values)

    def __getattr__(self, name: str) -> Any:
        """Make the class of values, their factory and the default on first use, and keep them as attributes."""
        if name not in {"value_class", "new", "default"}:
            raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name')} has no attribute {name}")
        from protocol.value_classes import make_default, make_factory, make_value_class

        made = {"value_class": make_value_class, "new": make_factory, "default": make_default}[name](self)
        setattr(self, name, made)
        return made

    if TYPE_CHECKING:
        value_class: type[Struct]
        new: Callable[..., Struct]
        default: Callable[[], Struct]

    def __repr__(self) -> str:
        return self.name


class Message(StructType):
    """A struct that stands alone on the wire in the given versions: a request, a response, a stored record.

    `key` is the record type of a stored record (None otherwise). `flexible` are the versions with compact encodings and
    tagged fields. `max_elements`: in arrays and tagged fields, together; more are not decoded (see
    MAX_REQUEST_ELEMENTS).
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
        super().__init__(name, *fields)
        self.key = key
        self.max_elements = max_elements
        self.versions = parse_versions(versions)
        self.flexible = parse_versions(flexible)
        self._decoders: dict[int, Callable[[ReadBuffer, int], tuple[Struct, int]]] = {}
        self._encoders: dict[int, Callable[[Struct], list[Chunk]]] = {}

    def decode(self, version: int, buffer: ReadBuffer, position: int = 0) -> tuple[Struct, int]:
        """Read a value out of `buffer` from `position` on. Returns (value, end).

        What follows the end is left alone: some clients send more than their version has. `records` fields are
        memoryview slices of the buffer, all else is independent of it. Raises ProtocolError.
        """
        decoder = self._decoders.get(version)
        if decoder is None:
            decoder = self.decoder(version)
        return decoder(buffer, position)

    def encode(self, version: int, value: Struct) -> bytes:
        """The bytes of a value. Raises EncodeError; a `records` field has to be bytes-like here."""
        chunks: Any = self.encode_chunks(version, value)
        return chunks[0] if len(chunks) == 1 and type(chunks[0]) is bytes else b"".join(chunks)

    def encode_chunks(self, version: int, value: Struct) -> list[Chunk]:
        """The bytes of a value in pieces: a `records` value stands in the list as it is, never copied."""
        encoder = self._encoders.get(version)
        if encoder is None:
            encoder = self.encoder(version)
        return encoder(value)

    def decoder(self, version: int) -> Callable[[ReadBuffer, int], tuple[Struct, int]]:
        """The function (buffer, position) -> (value, end) for one version. Raises UnsupportedVersion."""
        if version not in self._decoders:
            from protocol.decoder import compile_decoder

            self._check(version)
            self._decoders[version] = compile_decoder(self, version)
        return self._decoders[version]

    def encoder(self, version: int) -> Callable[[Struct], list[Chunk]]:
        """The function value -> chunks for one version. Raises UnsupportedVersion."""
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

    `versions` are all that the schemas describe; `current` those that Apache Kafka 4.3 serves (empty for APIs that it
    has dropped; without a newest version that is not yet stable). `listeners`: where Kafka offers it.
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
        """2 in flexible versions, else 1 (0 for ControlledShutdown v0, which has no client id)."""
        if self.key == 7 and version == 0:
            return 0
        return 2 if version in self.flexible else 1

    def response_header_version(self, version: int) -> int:
        """1 in flexible versions, else 0; always 0 for ApiVersions, whose client may not know the version (KIP-511)."""
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
