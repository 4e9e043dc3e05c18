"""The page of access control entries, users and quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from console.cluster import acls, quotas, users
from console.cluster.client import Client
from console.errors import BrokerRejected, Refused
from console.pages.page import page, sources
from security.sasl.scram_credential import BY_SASL_NAME, MIN_ITERATIONS

_SECTIONS: dict[str, Callable[[Client], Sequence[object]]] = {
    "acls": acls.entries,
    "users": users.credentials,
    "quotas": quotas.quotas,
}


def show(request: Request) -> Response:
    """GET /access: each kind with its rows, or why they are unavailable"""
    client = sources(request).client
    rows: dict[str, Sequence[object]] = {}
    problems: dict[str, str] = {}
    for name, ask in _SECTIONS.items():
        rows[name] = ()
        try:
            rows[name] = ask(client)
        except (BrokerRejected, Refused) as error:  # no authorizer, or the user may not list them
            problems[name] = str(error)
    return page(
        request,
        "access.html",
        rows=rows,
        problems=problems,
        words=acls,
        mechanisms=tuple(BY_SASL_NAME),
        iterations=MIN_ITERATIONS,
        keys=quotas.KEYS,
        kinds=quotas.KINDS,
    )
