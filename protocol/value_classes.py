"""The slotted classes of values, their factories and their shared defaults, made from a StructType on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from protocol.schema import UNSET, Array, Field, Struct, StructType


def make_value_class(struct_type: StructType) -> type[Struct]:
    """A subclass of Struct with a slot per field and no constructor: decoders fill its instances field by field."""
    slots = tuple(field.name for field in struct_type.fields)
    return type(struct_type.name, (Struct,), {"__slots__": slots, "struct_type": struct_type, "__module__": __name__})


def default_expression(field: Field, namespace: dict[str, Any]) -> str:
    """Source of the field's default; what it refers to is put into `namespace`."""
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
    """Whether the struct's default holds a list anywhere, so that it cannot be shared."""
    return any(
        field.given_default is UNSET
        and (isinstance(field.type, Array) or (isinstance(field.type, StructType) and has_list_default(field.type)))
        for field in struct_type.fields
    )


def make_factory(struct_type: StructType) -> Callable[..., Struct]:
    """`new(*, field=default, ...)`: a value with the given fields."""
    namespace: dict[str, Any] = {"_make": struct_type.value_class, "UNSET": UNSET}
    parameters, body = [], ["_made = _make()"]  # names that no field has: some are called "value"
    for field in struct_type.fields:
        expression = default_expression(field, namespace)
        if expression.endswith(("[]", "()")):  # made anew for each value
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
    """A function that gives the struct with all defaults.

    It is one shared object that refuses changes (so that most responses need not build and compare structs which they
    do not send), or a new one each time if there are lists in it.
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
    raise AttributeError(f"this {value.struct_type.name} is the default that all share: assign a new one instead")
