"""The types of a schema: fields with version ranges, arrays, structs, and the values of structs.

The class of a struct's values, their factory and their shared default are created on first use, because a broker uses a
few of the many structs. `schema.py` builds messages and APIs from these types.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, TypeAlias

from protocol.primitives import Primitive
from protocol.versions import parse_versions


class Sized(Protocol):
    """An object with a length in bytes that `broker/network` can send, for example a slice of a file."""

    def __len__(self) -> int: ...


ReadBuffer: TypeAlias = bytes | bytearray | memoryview
Chunk: TypeAlias = bytes | bytearray | memoryview | Sized


class Struct:
    """A value of a StructType: a slotted object with one attribute per field, compared by its fields, not hashable."""

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


class Field:
    """A field of a struct, encoded in `versions` (if the struct around it is encoded in them too).

    - `nullable`: the versions in which the value may be None.
    - `tag`: the number of a tagged field, which is omitted if it equals its default.
    - `default`: the value if none is given or the version lacks the field. Without it, the zero value of the type.
    - `ignorable`: the value may be dropped silently in versions without the field.
    - `flexible`: False keeps the old encoding in flexible versions (only the client id in request headers).

    A field is not changed after its creation.
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
        """The default value. Lists are new each time. A struct may be shared and then rejects changes."""
        if self.given_default is not UNSET:
            return self.given_default
        if isinstance(self.type, StructType):
            return self.type.default()
        return [] if isinstance(self.type, Array) else self.type.zero

    def __repr__(self) -> str:
        return f"Field({self.name!r}, {self.type!r}, {self.versions})"


class StructType:
    """A named sequence of fields in wire order. Calling it creates a value; omitted fields have their defaults.

    `new` does the same with less overhead. In a hot path, look it up once: `new_topic = TopicData.new`.
    """

    def __init__(self, name: str, *fields: Field) -> None:
        self.name = name
        self.fields = fields

    def __call__(self, **values: Any) -> Struct:
        return self.new(**values)

    def __getattr__(self, name: str) -> Any:
        """Create `value_class`, `new` or `default` on first use and keep it as an attribute."""
        if name not in _MAKERS:
            raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name')} has no attribute {name}")
        made = _MAKERS[name](self)
        setattr(self, name, made)
        return made

    if TYPE_CHECKING:
        value_class: type[Struct]
        new: Callable[..., Struct]
        default: Callable[[], Struct]

    def __repr__(self) -> str:
        return self.name


class MessageType(StructType):
    """A struct that stands alone on the wire in some versions; `schema.Message` adds its decoders and encoders.

    `key` is the record type of a stored record, None otherwise. `flexible` are the versions with compact encodings and
    tagged fields. `max_elements` limits the elements of arrays and the tagged fields of a decoded value, in total.
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


def make_value_class(struct_type: StructType) -> type[Struct]:
    """Create a subclass of Struct with a slot per field and no constructor; decoders set its fields one by one."""
    slots = tuple(field.name for field in struct_type.fields)
    return type(struct_type.name, (Struct,), {"__slots__": slots, "struct_type": struct_type, "__module__": __name__})


def default_expression(field: Field, namespace: dict[str, Any]) -> str:
    """Return an expression for the default of a field, and add the names it uses to `namespace`."""
    if field.given_default is not UNSET or not isinstance(field.type, Array | StructType):
        return repr(field.default)
    if isinstance(field.type, Array):
        return "[]"
    if has_list_default(field.type):
        namespace[f"default_{field.name}"] = field.type.default
        return f"default_{field.name}()"
    namespace[f"DEFAULT_{field.name}"] = field.type.default()
    return f"DEFAULT_{field.name}"


def has_list_default(struct_type: StructType) -> bool:
    """Return whether the default of a struct contains a list, so that it cannot be shared."""
    return any(
        field.given_default is UNSET
        and (isinstance(field.type, Array) or (isinstance(field.type, StructType) and has_list_default(field.type)))
        for field in struct_type.fields
    )


def make_factory(struct_type: StructType) -> Callable[..., Struct]:
    """Create the function `new(*, field=default, ...)`, which returns a value."""
    namespace: dict[str, Any] = {"_make": struct_type.value_class, "UNSET": UNSET}
    parameters, body = [], ["_made = _make()"]  # no field has these names; some are called "value"
    for field in struct_type.fields:
        expression = default_expression(field, namespace)
        if expression.endswith(("[]", "()")):  # a new one for each value
            parameters.append(f"{field.name}=UNSET")
            body.append(f"_made.{field.name} = {expression} if {field.name} is UNSET else {field.name}")
        else:
            parameters.append(f"{field.name}={expression}")
            body.append(f"_made.{field.name} = {field.name}")
    head = f"def {struct_type.name}({'*, ' if parameters else ''}{', '.join(parameters)}):"
    exec("\n    ".join([head, *body, "return _made"]), namespace)
    factory: Callable[..., Struct] = namespace[struct_type.name]
    return factory


def make_default(struct_type: StructType) -> Callable[[], Struct]:
    """Create a function that returns the struct with all defaults.

    Without lists it returns one shared object that rejects changes, so most responses need not create and compare
    structs that they do not send. With lists it returns a new object each time.
    """
    if has_list_default(struct_type):
        return struct_type.new
    shared_class = type(
        struct_type.name, (struct_type.value_class,), {"__slots__": (), "__setattr__": _refuse, "__module__": __name__}
    )
    shared: Struct = shared_class()
    for field in struct_type.fields:
        object.__setattr__(shared, field.name, field.default)
    return lambda: shared


def _refuse(value: Struct, name: str, _new: object) -> NoReturn:
    raise AttributeError(f"this {value.struct_type.name} is a shared default and cannot be changed: assign a new one")


_MAKERS: dict[str, Callable[[StructType], Any]] = {
    "value_class": make_value_class,
    "new": make_factory,
    "default": make_default,
}
