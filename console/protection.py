"""Protection of every page: against other sites, DNS rebinding, cross-site request forgery and foreign scripts.

Another site can make a browser request pages of the console. So the console rejects a Host header with a foreign name
(a site may resolve its name to 127.0.0.1), and its headers forbid frames and reads across origins. It also rejects
requests that another site caused (Sec-Fetch-Site), because rendering a page costs time. A request that changes
something must come from the console's own pages according to the browser (Origin, Sec-Fetch-Site), and must carry the
token of a form (forms.py). Browsers send the login cookie with no request that another site caused.
"""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.login_sessions import LoginSessions

#: Records are untrusted: pages load scripts, styles and images only from our files, and forms post only to the console.
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
    """ASGI middleware that sets `request.state.login_session`, which is None on the login page."""

    def __init__(self, application: ASGIApp, hosts: frozenset[str], sessions: LoginSessions, read_only: bool) -> None:
        self._application = application
        self._hosts = hosts
        self._sessions = sessions
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or forward it and add the headers to the response."""
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
        """Return the application that answers: a rejection, or the protected one."""
        asked = Headers(scope=scope)
        method, path = scope["method"], scope["path"]
        if host_name(asked.get("host", "")) not in self._hosts:
            return PlainTextResponse("The console does not serve this host name\n", 421)
        if asked.get("sec-fetch-site") == "cross-site":
            return PlainTextResponse("Another site requested this page; enter its address yourself\n", 403)
        if method not in self._methods(path):
            return PlainTextResponse("The console is read-only\n", 405, {"allow": ", ".join(self._methods(path))})
        if method not in _LOOKING and not _is_of_our_page(asked):
            return PlainTextResponse("Another site sent this form\n", 403)
        session = self._sessions.find(
            cookie_parser(asked.get("cookie", "")).get(cookie_name(asked.get("host", "")), "")
        )
        if session is None and path != _LOGIN and not path.startswith("/static/"):
            if method in _LOOKING and not path.endswith((".json", "/tail")):
                query = f"?{scope['query_string'].decode('ascii', 'replace')}" if scope["query_string"] else ""
                return RedirectResponse(f"{_LOGIN}?next={quote(quote(path, safe='/') + query, safe='/')}", 303)
            return PlainTextResponse("Log in first\n", 401)
        scope.setdefault("state", {})["login_session"] = session
        return self._application

    def _methods(self, path: str) -> tuple[str, ...]:
        if self._read_only and path not in (_LOGIN, _LOGOUT):
            return _LOOKING
        return (*_LOOKING, "POST")


def _is_of_our_page(asked: Headers) -> bool:
    """Return whether the browser reports our origin; a request without these headers still needs the form's token."""
    if asked.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = asked.get("origin")
    return origin is None or origin == f"http://{asked.get('host', '')}"


def cookie_name(host: str) -> str:
    """Return the cookie's name for a Host header. Cookies are shared by all ports of a host, so it has the port."""
    port = host.rpartition(":")[2]
    return f"pybroker-console-{port if port.isascii() and port.isdigit() else 80}"


def host_name(host: str) -> str:
    """Return the name or address in a Host header in lower case, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
