"""Submitted forms. Each form that changes something carries the token of its session, which no other site can read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import compare_digest
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from console.errors import BadRequest, Refused

_KIND = "application/x-www-form-urlencoded"
#: A record of the default maximum size, with each byte percent-encoded as three.
_MOST_BYTES = 4 << 20
_MOST_FIELDS = 100
CONFIRMED = "confirmed"
"""The hidden field of a confirmation: the object's fields as a query, because browsers change line ends in values."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form by name."""

    fields: dict[str, str] = field(repr=False)  # a password may be among them
    exact: dict[str, str] = field(default_factory=dict)
    """Fields whose line ends no browser has changed: those of a URL, or of a page that asked for confirmation."""

    @classmethod
    def of_query(cls, request: Request) -> Form:
        """Return the query of a URL as a form, for pages that ask for confirmation."""
        return cls({}, dict(request.query_params))

    def text(self, name: str) -> str:
        """Return a field as entered, with "\\n" as line end; "" if it is missing.

        Browsers send each line end of a field as "\\r\\n".
        """
        if name in self.exact:
            return self.exact[name]
        return self.fields.get(name, "").replace("\r\n", "\n")

    def word(self, name: str) -> str:
        """Return a field without surrounding blanks."""
        return self.text(name).strip()

    def number(self, name: str, default: int, *, least: int, limit: int) -> int:
        """Return a field as an integer; `default` if it is empty. Raises BadRequest."""
        text = self.word(name)
        if not text:
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 19:
            raise BadRequest(f"{name} is a number, not {text[:40]!r}")
        if not least <= int(text) <= limit:
            raise BadRequest(f"{name} is a number from {least} to {limit}, not {text}")
        return int(text)


Change = Callable[[Request, Form], Response]


def changing(change: Change) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that runs `change` in a thread. It raises Refused for forms without the session's token."""

    async def endpoint(request: Request) -> Response:
        form = await read_form(request)
        check_token(form, request.state.login_session.token)
        return await run_in_threadpool(change, request, form)

    return endpoint


def check_token(form: Form, token: str) -> None:
    """Raise Refused unless the form carries this session's token."""
    if not compare_digest(form.text("token").encode(), token.encode()):
        raise Refused("The form is out of date: load its page again")


async def read_form(request: Request) -> Form:
    """Read the body of a request. Raises BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _KIND:
        raise BadRequest(f"a form is sent as {_KIND}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise BadRequest(f"a form has at most {_MOST_BYTES} bytes")
    try:
        fields = _parsed(body.decode("ascii"))
        return Form(fields, _parsed(fields.get(CONFIRMED, "")))
    except ValueError:
        raise BadRequest("the form cannot be read") from None


def _parsed(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
