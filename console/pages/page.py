"""Pages: templates filled with values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from console.anatomy.text import name_text, size_text, time_text
from console.errors import BadRequest
from console.forms import CONFIRMED

if TYPE_CHECKING:
    from console.login_sessions import LoginSession
    from console.sources import Sources

#: The result of a form that the next page shows, by the word in its URL.
_DONE = {
    "made": "The topic was created.",
    "deleted": "The topic was deleted.",
    "set": "The setting was changed.",
    "partitions": "The partitions were added.",
    "sent": "The record was sent.",
    "moved": "The offsets were reset.",
    "acl-added": "The access control entry was added.",
    "acl-deleted": "The access control entry was deleted.",
    "password-set": "The user can log in with that password.",
    "user-removed": "The password was removed.",
    "quota-set": "The quota was set.",
    "quota-removed": "The quota was removed.",
    "subscribed": "The subscription was saved.",
    "unsubscribed": "The subscription was removed.",
    "group-deleted": "The group was deleted.",
}
_NOT_IN_PATHS = (".", "..")
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["name"] = name_text
_TEMPLATES.filters["size"] = size_text
_TEMPLATES.filters["time"] = time_text
_TEMPLATES.filters["number"] = lambda value: f"{value:,}"


def page(request: Request, template: str, *, status_code: int = 200, **values: object) -> HTMLResponse:
    """Return a page; `values` are the variables of its template, besides those of every page."""
    return HTMLResponse(fragment(request, template, status_code=status_code, **values), status_code)


def fragment(request: Request, template: str, *, status_code: int = 200, **values: object) -> str:
    """Render a template. All have `link`, the console's section, the login session and `may_change`."""

    def link_on_this_page(name: str, query: Mapping[str, object] | None = None, **parameters: object) -> str:
        return link(request, name, query, **parameters)

    return _TEMPLATES.get_template(template).render(
        link=link_on_this_page,
        section=request.url.path.split("/")[1],
        status_code=status_code,
        login_session=request.state.login_session,
        may_change=not request.app.state.read_only,
        done=_DONE.get(request.query_params.get("done", "")),
        **values,
    )


def link(request: Request, name: str, query: Mapping[str, object] | None = None, **parameters: object) -> str:
    """Return the URL of a page on this host; names of topics and groups may have any characters.

    Browsers resolve dots between slashes, even quoted ones. So a group named like that is in the query.
    """
    unfit = {key: each for key, each in parameters.items() if each in _NOT_IN_PATHS}
    quoted = {key: quote(each, safe="") if isinstance(each, str) else each for key, each in parameters.items()}
    path = str(request.app.url_path_for(name, **quoted | dict.fromkeys(unfit, "")))
    fields = {key: each for key, each in {**(query or {}), **unfit}.items() if each is not None}
    return f"{path}?{urlencode(fields)}" if fields else path


def redirect_after(
    request: Request, done: str, name: str, query: Mapping[str, object] | None = None, **parameters: object
) -> RedirectResponse:
    """Redirect after a form to a page with its result, so that a reload does not repeat the change."""
    return RedirectResponse(link(request, name, {**(query or {}), "done": done}, **parameters), 303)


def confirmation(
    request: Request,
    title: str,
    facts: Mapping[str, object],
    change: str,
    word: str,
    back: str,
    fields: Mapping[str, str],
    **parameters: object,
) -> HTMLResponse:
    """Return a page that asks for confirmation before something is deleted.

    Args:
        change: name of the route that the form with `fields` is sent to.
        back: name of the page to return to without a change.
        word: the button's text.
    """
    return page(
        request,
        "confirmation.html",
        title=title,
        facts=facts,
        confirmed=CONFIRMED,
        fields=urlencode(fields),
        change=change,
        word=word,
        back=back,
        parameters=parameters,
    )


def named(request: Request, kind: str) -> str:
    """Return the name of a `kind` in a URL that `link` has made."""
    name: str = request.path_params[kind]
    return name or request.query_params.get(kind, "")


def sources(request: Request) -> Sources:
    """Return the data sources of the request's login session."""
    session: LoginSession = request.state.login_session
    return session.sources


def number(request: Request, name: str, default: int, *, limit: int = (1 << 63) - 1) -> int:
    """Return an integer of the query, from 0 to `limit`. Raises BadRequest."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > limit:
        raise BadRequest(f"{name} is a number from 0 to {limit}, not {text[:40]!r}")
    return int(text)
