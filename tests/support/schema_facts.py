"""Kafka's message definitions and tables of keys (tests/data/facts), and our schemas in the same form."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from protocol.headers import REQUEST_HEADER, RESPONSE_HEADER
from protocol.messages import cluster_metadata, coordinator, data
from protocol.registry import API_BY_KEY
from protocol.schema import Array, Field, Message, StructType
from protocol.versions import VersionRange, parse_versions

FACTS = Path(__file__).parents[1] / "data" / "facts"


@dataclass(frozen=True)
class FieldFact:
    """A field of a message: `path` in snake case with dots, the rest as in the tables."""

    path: str
    type: str
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    default: Any
    ignorable: bool
    flexible: bool


@dataclass(frozen=True)
class MessageFact:
    """A message of the tables."""

    name: str
    api_key: int | None
    versions: VersionRange
    flexible: VersionRange
    fields: tuple[FieldFact, ...]


def snake(name: str) -> str:
    """Return Kafka's camel case as our snake case; KRaft is one word."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft"))
    return re.sub(r"(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def default_of(row: dict[str, str]) -> Any:
    """Return a row's default as a Python value; struct defaults (always those of their fields) are None."""
    kind, text = row["field_type"], row["default"]
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return text == "true"
    if kind == "string":
        return text.strip('"')
    if kind == "float64":
        return float(text or 0)
    if kind == "uuid":
        return bytes(16)
    if kind == "bytes":
        return b""
    if kind == "records" or kind[0].isupper():
        return None
    return int(text or "0", 0)


@cache
def load_facts(name: str = "message-schemas.tsv") -> dict[tuple[str, str], MessageFact]:
    """Return (message, module) -> its facts. Requests and responses have an empty module."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    with open(FACTS / name, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            module = "" if row["type"] in {"request", "response", "header"} else row["module"]
            rows.setdefault((row["message"], module), []).append(row)
    return {key: message_fact(group) for key, group in rows.items()}


def message_fact(rows: list[dict[str, str]]) -> MessageFact:
    head, *fields = rows
    return MessageFact(
        name=head["message"],
        api_key=int(head["api_key"]) if head["api_key"] else None,
        versions=parse_versions(head["valid_versions"]),
        flexible=parse_versions(head["flexible_versions"]),
        fields=tuple(
            FieldFact(
                path=".".join(snake(part.removesuffix("[]")) for part in row["path"].split(".")),
                type=row["field_type"],
                versions=parse_versions(row["versions"]),
                nullable=parse_versions(row["nullable_versions"]),
                tag=int(row["tag"]) if row["tag"] else None,
                default=default_of(row),
                ignorable="ignorable" in row["flags"].split(";"),
                flexible="fieldFlexible=none" not in row["flags"],
            )
            for row in fields
        ),
    )


def schema_facts(struct: StructType, prefix: str = "") -> Iterator[FieldFact]:
    """Yield our schema in the same form, depth first in wire order. Struct types have Kafka's name, with or without a
    prefix.
    """
    for field in struct.fields:
        element = field.type.element if isinstance(field.type, Array) else field.type
        is_struct = isinstance(element, StructType)
        default = None if is_struct and not isinstance(field.type, Array) else field.default
        yield FieldFact(
            prefix + field.name,
            ("[]" if isinstance(field.type, Array) else "") + element.name,
            field.versions,
            field.nullable,
            field.tag,
            default,
            field.ignorable,
            field.flexible,
        )
        if isinstance(element, StructType):
            yield from schema_facts(element, f"{prefix}{field.name}.")


def all_messages() -> dict[str, Message]:
    """Return every message by Kafka's name, which is unique."""
    found = {"RequestHeader": REQUEST_HEADER, "ResponseHeader": RESPONSE_HEADER}
    for api in API_BY_KEY.values():
        found[api.request.name] = api.request
        found[api.response.name] = api.response
    for package in (cluster_metadata, coordinator, data):
        for value in vars(package).values():
            if isinstance(value, Message):
                found[value.name] = value
    return found


def all_fields(struct: StructType) -> Iterator[Field]:
    """Yield all fields of a struct and of nested structs."""
    for field in struct.fields:
        yield field
        element = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(element, StructType):
            yield from all_fields(element)


def config_facts(name: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table of configuration keys, `<name>.tsv`, by key."""
    with open(FACTS / f"{name}.tsv", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
