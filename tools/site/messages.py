"""A page for each API: its versions, the served ones, and the fields of its messages, from protocol/messages/."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from broker.requests.served_api import ServedApi, discover
from protocol.api_keys import ApiKey
from protocol.kafka_release import KAFKA_LINE
from protocol.primitives import Primitive
from protocol.registry import API_BY_KEY
from protocol.schema import UNSET, Api, Array, Field, Message, StructType
from tools.data.java_text import json_name
from tools.site.markdown import paragraphs, table

_HEADERS = """
A request begins with its [header](../formats/frames.md) of version {request}, a response with version {response}.
"""
_FIELDS = ("field", "type", "versions", "null in", "tag", "default")


def api_path(api: Api) -> str:
    """Return the path of an API's page from the site's root."""
    return f"reference/apis/{ApiKey(api.key).name.lower().replace('_', '-')}.md"


def api_pages() -> dict[str, str]:
    """Return pages by path, of all known APIs, served or not."""
    served = discover()
    return {api_path(api): _page(api, served.get(api.key)) for api in API_BY_KEY.values()}


def _page(api: Api, served: ServedApi | None) -> str:
    module = sys.modules[f"protocol.messages.{ApiKey(api.key).name.lower()}"]
    handler = sys.modules[served.load().handler.__module__].__doc__ or "" if served is not None else ""
    facts = (
        ("key", str(api.key)),
        ("versions with a schema", str(api.versions)),
        ("served", str(served.served) if served is not None else "no: a request closes the connection"),
        (f"of Apache Kafka {KAFKA_LINE}", str(api.current)),
        ("flexible", str(api.flexible)),
    )
    return "".join(
        (
            f"# {api.name}\n\n",
            table(("", ""), facts),
            "\n",
            paragraphs(module.__doc__ or ""),
            f"\n## How the broker serves it\n\n{_prose(handler)}\n" if handler else "",
            _header_versions(api),
            _message(api.request, "Request"),
            _message(api.response, "Response"),
            "\n[All APIs](../../generated/apis.md)\n",
        )
    )


def _prose(docstring: str) -> str:
    """Return a handler's docstring without its first words, the API and versions, which are in the table."""
    text = re.sub(r"^\w+ v\d+(?:-v\d+)?: ", "", docstring.strip())
    return paragraphs(text[0].upper() + text[1:])


def _header_versions(api: Api) -> str:
    def ranges_text(versions: dict[int, list[int]]) -> str:
        if len(versions) == 1:
            return str(next(iter(versions)))
        return " and ".join(f"{header} (v{of[0]}-v{of[-1]})" for header, of in sorted(versions.items()))

    request: dict[int, list[int]] = {}
    response: dict[int, list[int]] = {}
    for version in api.versions:
        request.setdefault(api.request_header_version(version), []).append(version)
        response.setdefault(api.response_header_version(version), []).append(version)
    return _HEADERS.format(request=ranges_text(request), response=ranges_text(response))


def _message(message: Message, title: str) -> str:
    rows = list(field_rows(message))
    return f"\n## {title}\n\n" + (table(_FIELDS, rows) if rows else "No fields.\n")


def field_rows(kind: StructType, above: str = "") -> Iterator[tuple[str, ...]]:
    """Yield a row for each field in wire order; fields of structs follow their struct, with their path as name."""
    for field in kind.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        name = above + json_name(field)
        yield (f"`{name}`", _type(field), str(field.versions), _nullable(field), _tag(field), _default(field))
        if isinstance(inner, StructType):
            yield from field_rows(inner, f"{name}[]." if isinstance(field.type, Array) else f"{name}.")


def _type(field: Field) -> str:
    if isinstance(field.type, Array):
        return f"[]{field.type.element!r}"
    return repr(field.type)


def _nullable(field: Field) -> str:
    return str(field.nullable) if field.nullable else ""


def _tag(field: Field) -> str:
    return "" if field.tag is None else str(field.tag)


def _default(field: Field) -> str:
    default = field.given_default
    if default is UNSET or not isinstance(field.type, Primitive):
        return ""
    return "null" if default is None else f"`{default!r}`"
