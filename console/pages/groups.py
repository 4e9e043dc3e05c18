"""Groups: all of them, and one with its members and its lag."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from console.pages.page import named, page, sources


def show_all(request: Request) -> Response:
    """GET /groups"""
    return page(request, "groups.html", groups=sources(request).client.groups())


def show(request: Request) -> Response:
    """GET /groups/{group}"""
    group = sources(request).client.group(named(request, "group"))
    largest_lag = max((each.lag or 0 for each in group.lags), default=0)
    return page(request, "group.html", group=group, largest_lag=max(largest_lag, 1))


def lag(request: Request) -> Response:
    """GET /lag.json?group=: {"at": seconds since the epoch, "samples": {"lag": records, "offset": records}}"""
    group = sources(request).client.group(request.query_params.get("group", ""))
    offset = sum(each.offset or 0 for each in group.lags)
    return JSONResponse({"at": time.time(), "samples": {"lag": group.lag, "offset": offset}})
