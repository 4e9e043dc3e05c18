"""What stands before every page: it can be read from this machine's browsers only, changes nothing, and runs no script
but the console's own.

Whoever is on another site can have a browser ask for pages here. So names that are not the console's own are refused in
the Host header (a site may let its name point to 127.0.0.1), and headers forbid frames and reading across origins. To
make a page that nobody can read is work all the same: a browser says whether another site wants it.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Records hold what strangers have sent: no script, style or picture but our files, nor forms to elsewhere.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_METHODS = ("GET", "HEAD")


class Protection:
    """ASGI middleware."""

    def __init__(self, application: ASGIApp, hosts: frozenset[str]) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on and put the headers on the answer."""
        if scope["type"] != "http":  # the start and the end of the server; there are no web sockets
            await self._application(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        asked = Headers(scope=scope)
        application = self._application
        if scope["method"] not in _METHODS:
            application = PlainTextResponse("The console only shows\n", 405, {"allow": ", ".join(_METHODS)})
        elif host_name(asked.get("host", "")) not in self._hosts:
            application = PlainTextResponse("The console is not known by that name\n", 421)
        elif asked.get("sec-fetch-site") == "cross-site":
            application = PlainTextResponse("Another site has asked for this page; enter its address yourself\n", 403)
        await application(scope, receive, send_protected)


def host_name(host: str) -> str:
    """A Host header's name or address without the port, in lower case, and without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
