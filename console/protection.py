"""What stands before every page: it can be read from this machine's browsers only, by who may, changes nothing that its
user has not asked for on a page of the console, and runs no script but the console's own.

Whoever is on another site can have a browser ask for pages here. So names that are not the console's own are refused in
the Host header (a site may let its name point to 127.0.0.1), and headers forbid frames and reading across origins. To
make a page that nobody can read is work all the same: a browser says whether another site wants it. What changes
something must come from the console's own pages, by the browser's word (Origin, Sec-Fetch-Site), and carry the token of
a form (forms.py); the cookie of a login goes with no request that another site has caused.
"""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.login_sessions import Visits

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
    "referrer-policy": "same-origin",  # with none at all browsers would call the origin of our own forms null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LOOKING = ("GET", "HEAD")
_LOGIN, _LOGOUT = "/login", "/logout"


class Protection:
    """ASGI middleware. What is behind it finds the visit in `request.state.visit`; None on the page of the login."""

    def __init__(self, application: ASGIApp, hosts: frozenset[str], visits: Visits, read_only: bool) -> None:
        self._application = application
        self._hosts = hosts
        self._visits = visits
        self._read_only = read_only

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

        await self._answer(scope)(scope, receive, send_protected)

    def _answer(self, scope: Scope) -> ASGIApp:
        """What answers: a refusal, or what is behind."""
        asked = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if host_name(asked.get("host", "")) not in self._hosts:
            return PlainTextResponse("The console is not known by that name\n", 421)
        if asked.get("sec-fetch-site") == "cross-site":
            return PlainTextResponse("Another site has asked for this page; enter its address yourself\n", 403)
        if method not in self._methods(path):
            return PlainTextResponse("The console only shows\n", 405, {"allow": ", ".join(self._methods(path))})
        if method not in _LOOKING and not _is_of_our_page(asked):
            return PlainTextResponse("Another site has sent this form\n", 403)
        visit = self._visits.find(cookie_parser(asked.get("cookie", "")).get(cookie_name(asked.get("host", "")), ""))
        if visit is None and path != _LOGIN and not path.startswith("/static/"):
            if method in _LOOKING and not path.endswith((".json", "/tail")):
                query = f"?{scope['query_string'].decode('ascii', 'replace')}" if scope["query_string"] else ""
                return RedirectResponse(f"{_LOGIN}?next={quote(quote(path, safe='/') + query, safe='/')}", 303)
            return PlainTextResponse("Log in first\n", 401)
        scope.setdefault("state", {})["visit"] = visit
        return self._application

    def _methods(self, path: str) -> tuple[str, ...]:
        if self._read_only and path not in (_LOGIN, _LOGOUT):
            return _LOOKING
        return (*_LOOKING, "POST")


def _is_of_our_page(asked: Headers) -> bool:
    """Whether the browser says so; what says nothing of it has the token of a form, or is refused for that."""
    if asked.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = asked.get("origin")
    return origin is None or origin == f"http://{asked.get('host', '')}"


def cookie_name(host: str) -> str:
    """Of a Host header: browsers keep one box for all ports of a machine, where another broker may have a console."""
    port = host.rpartition(":")[2]
    return f"pybroker-console-{port if port.isascii() and port.isdigit() else 80}"


def host_name(host: str) -> str:
    """A Host header's name or address without the port, in lower case, and without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
