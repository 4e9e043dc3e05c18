"""Groups: all of them, and one with its members and its lag."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.pages.page import page, sources


def show_all(request: Request) -> Response:
    """GET /groups"""
    return page(request, "groups.html", groups=sources(request).client.groups())


def show(request: Request) -> Response:
    """GET /groups/{group}"""
    group = sources(request).client.group(request.path_params["group"])
    most = max((each.lag or 0 for each in group.lags), default=0)
    return page(request, "group.html", group=group, most=max(most, 1))
