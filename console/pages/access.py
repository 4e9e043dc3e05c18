"""Who may do what, who there is, and how much they may take."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from console.cluster.client import Client
from console.cluster.permissions import Row, acls, quotas, users
from console.errors import Declined, Refused
from console.pages.page import page, sources

_SECTIONS: tuple[tuple[str, str, Callable[[Client], list[Row]]], ...] = (
    ("acls", "Access control entries", acls),
    ("users", "Users", users),
    ("quotas", "Quotas", quotas),
)


def show(request: Request) -> Response:
    """GET /access: each of them with its rows, or why there are none"""
    client = sources(request).client
    found = []
    for name, title, ask in _SECTIONS:
        rows: list[Row] = []
        problem = ""
        try:
            rows = ask(client)
        except (Declined, Refused) as error:  # a broker without authorizer has no entries; not everybody may see users
            problem = str(error)
        found.append({"name": name, "title": title, "rows": rows, "problem": problem})
    return page(request, "access.html", sections=found)
