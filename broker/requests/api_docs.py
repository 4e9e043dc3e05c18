"""The page of all APIs, docs/generated/apis.md, written from the handlers and the schemas.

python -m broker.requests.api_docs            write it, from the project's root
python -m broker.requests.api_docs --check    exit code 1 if it is out of date

The docstring of a handler's module begins with the API, its versions and a sentence that says what the API does. A
sentence that begins with "Not served:" names what is missing. The page is made of these, so it cannot differ from the
code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from broker.requests.served_api import ServedApi, discover
from config.generated_pages import write_pages
from protocol.kafka_release import KAFKA_LINE
from protocol.registry import API_BY_KEY
from protocol.schema import Api

APIS_PAGE = Path("docs/generated/apis.md")

_HEAD = f"""\
# APIs

Written by `python -m broker.requests.api_docs` from the handlers in `broker/handlers/`; edit those.

The versions of Apache Kafka {KAFKA_LINE} are in brackets where they differ: it removed older ones, and
`pybroker.legacy.versions=false` removes them here too. ApiVersions lists what is served, with two exceptions: without
`metrics.listeners` it omits client telemetry (71, 72), as a Kafka without a receiver does, and without legacy versions
it lists Produce from version 0, as Kafka does.
"""

_SERVED_HEAD = """
## Served: {}

| key | API | versions | what it does |
|---|---|---|---|
"""

_MISSING_HEAD = """
## Not yet: {}

ApiVersions does not list them. A request closes the connection, as in Apache Kafka for an unknown API. The schemas of
their messages are in `protocol/messages/`. APIs of controllers are left out.

| key | API | Kafka |
|---|---|---|
"""

_SUMMARY = re.compile(r"\w+ v\d+(?:-v\d+)?: (.*?\.)(?:\s|$)", re.DOTALL)
_MISSING = re.compile(r"Not\sserved: (.*?\.)(?:\s|$)", re.DOTALL)


def apis_page() -> str:
    """Return the whole of docs/generated/apis.md."""
    apis = discover()
    missing = [api for api in API_BY_KEY.values() if api.key not in apis and _is_brokers(api)]
    parts = [
        _HEAD,
        _SERVED_HEAD.format(len(apis)),
        *(_served(each) for each in apis.values()),
        _MISSING_HEAD.format(len(missing)) if missing else "",
        *(f"| {api.key} | {api.name} | {api.current} |\n" for api in missing),
    ]
    return "".join(parts)


def _is_brokers(api: Api) -> bool:
    return bool(api.current) and "broker" in api.listeners


def _served(served: ServedApi) -> str:
    api, handler = served.load()[:2]
    docstring = sys.modules[handler.__module__].__doc__ or ""
    summary = _SUMMARY.match(docstring)
    if summary is None:
        raise ValueError(f"{handler.__module__}: its docstring must begin with the API, its versions and a sentence")
    missing = _MISSING.search(docstring)
    versions = f"{served.served}" if str(api.current) == str(served.served) else f"{served.served} ({api.current})"
    text = _line(summary) + (f". **Not served**: {_line(missing)}" if missing else "")
    cells = (api.key, api.name, versions, text)
    return f"| {' | '.join(map(str, cells))} |\n"


def _line(found: re.Match[str]) -> str:
    """Return the matched sentence on one line, with a capital and without the period."""
    text = " ".join(found[1].split()).removesuffix(".")
    return text[0].upper() + text[1:]


def main(argv: Sequence[str]) -> int:
    """Write the page, or compare it. Return the exit code."""
    return write_pages({APIS_PAGE: apis_page()}, "broker.requests.api_docs", argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
