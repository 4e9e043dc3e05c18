"""A page: a template filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from console.anatomy.text import size_text, time_text
from console.errors import BadRequest

if TYPE_CHECKING:
    from console.application import Sources

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["size"] = size_text
_TEMPLATES.filters["time"] = time_text
_TEMPLATES.filters["number"] = lambda value: f"{value:,}"


def page(request: Request, template: str, *, status_code: int = 200, **values: object) -> HTMLResponse:
    """The answer; `values` are the template's, beside `link` and the part of the console that it belongs to."""
    section = request.url.path.split("/")[1]

    def link(name: str, query: Mapping[str, object] | None = None, **parameters: object) -> str:
        """The address of a page on this host; names of topics and groups may hold anything."""
        quoted = {key: quote(each, safe="") if isinstance(each, str) else each for key, each in parameters.items()}
        path = str(request.app.url_path_for(name, **quoted))
        told = {key: each for key, each in (query or {}).items() if each is not None}
        return f"{path}?{urlencode(told)}" if told else path

    text = _TEMPLATES.get_template(template).render(link=link, section=section, status_code=status_code, **values)
    return HTMLResponse(text, status_code)


def sources(request: Request) -> Sources:
    """Where the page has what it shows from."""
    found: Sources = request.app.state.sources
    return found


def number(request: Request, name: str, default: int, *, most: int = (1 << 63) - 1) -> int:
    """A whole number of the query, from 0 to `most`. BadRequest."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
        raise BadRequest(f"{name} is a number from 0 to {most}, not {text[:40]!r}")
    return int(text)
