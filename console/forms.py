"""What a form has sent. Each that changes something carries the token of its visit, which no other site can read."""

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
#: A record of the largest size that brokers take unless told otherwise, with each byte written as three.
_MOST_BYTES = 4 << 20
_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Form:
    """Fields by name."""

    fields: dict[str, str] = field(repr=False)  # a password may be among them

    @classmethod
    def of_query(cls, request: Request) -> Form:
        """What an address has after its question mark, as if a form had sent it: for pages that ask before a change."""
        return cls(dict(request.query_params))

    def text(self, name: str) -> str:
        """As it was entered, its ends of lines as one character; "" for what there is not."""
        return self.fields.get(name, "").replace("\r\n", "\n")

    def word(self, name: str) -> str:
        """Without blanks around."""
        return self.text(name).strip()

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        """A whole number. BadRequest."""
        text = self.word(name)
        if not text:
            return default
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 19:
            raise BadRequest(f"{name} is a number, not {text[:40]!r}")
        if not least <= int(text) <= most:
            raise BadRequest(f"{name} is a number from {least} to {most}, not {text}")
        return int(text)


Change = Callable[[Request, Form], Response]


def changing(change: Change) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that does in a thread what a form of ours asks for. Raises Refused for forms of others."""

    async def endpoint(request: Request) -> Response:
        form = await read_form(request)
        check_token(form, request.state.visit.token)
        return await run_in_threadpool(change, request, form)

    return endpoint


def check_token(form: Form, token: str) -> None:
    """Raise Refused unless it was made with a page of this visit."""
    if not compare_digest(form.text("token").encode(), token.encode()):
        raise Refused("The form is out of date: load its page again")


async def read_form(request: Request) -> Form:
    """What was sent. BadRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _KIND:
        raise BadRequest(f"a form is sent as {_KIND}")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise BadRequest(f"a form has at most {_MOST_BYTES} bytes")
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise BadRequest("the form cannot be read") from None
    return Form(dict(fields))
