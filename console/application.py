"""The console as an ASGI application: which address shows which page, and what is said of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from console.cluster.client import Client
from console.errors import BadRequest, NotThere, Unanswered
from console.logs.log_directories import LogDirectories
from console.pages import bytes_page, groups, messages, overview, storage, topics
from console.pages.page import page
from console.protection import Protection
from console.rates import Scraper
from offline.errors import DumpFailed
from protocol.errors import ProtocolError
from protocol.records.errors import RecordsError

_STATIC = Path(__file__).parent / "static"
_STATUS: dict[type[Exception], int] = {
    NotThere: 404,
    BadRequest: 400,
    Unanswered: 503,
    RecordsError: 422,  # the file is there, but what it holds is no batch
    ProtocolError: 422,
    DumpFailed: 422,
    OSError: 500,  # a disk that fails
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where pages have what they show from; `request.app.state.sources`."""

    client: Client
    logs: LogDirectories
    scraper: Scraper | None = None


class _Whole(IntegerConvertor):
    """An offset, a position, a number of something: it fits into 64 bits, and of what does not there is no page."""

    regex = "[0-9]{1,18}"


register_url_convertor("whole", _Whole())

_FOLDER = "/storage/{directory:whole}/{folder}"
_SEGMENT = _FOLDER + "/{base:whole}"
_BATCH = _SEGMENT + "/batch/{position:whole}"

_ROUTES: list[BaseRoute] = [
    Route("/", overview.show, name="overview"),
    Route("/rates.json", overview.rates, name="rates"),
    Route("/topics", topics.show_all, name="topics"),
    Route("/topics/{topic}", topics.show, name="topic"),
    Route("/topics/{topic}/messages", messages.show, name="messages"),
    Route("/groups", groups.show_all, name="groups"),
    Route("/groups/{group:path}", groups.show, name="group"),
    Route("/storage", storage.show_all, name="storage"),
    Route(_FOLDER, storage.show_folder, name="folder"),
    Route(_FOLDER + "/find", storage.find_offset, name="find"),
    Route(_SEGMENT, storage.show_segment, name="segment"),
    Route(_SEGMENT + "/{suffix}", bytes_page.show_index, name="index"),
    Route(_BATCH, bytes_page.show_batch, name="batch"),
    Route(_BATCH + "/record/{number:whole}", bytes_page.show_record, name="record"),
    Mount("/static", StaticFiles(directory=_STATIC), name="static"),
]


def make_application(sources: Sources, hosts: frozenset[str]) -> Starlette:
    """The application.

    Args:
        hosts: what a browser may have in its address line, without the port.
    """
    application = Starlette(
        routes=_ROUTES,
        middleware=[Middleware(Protection, hosts=hosts)],
        exception_handlers={**dict.fromkeys(_STATUS, _say), 404: _no_page},
    )
    application.state.sources = sources
    return application


def _say(request: Request, error: Exception) -> Response:
    """One line of what is wrong, on a page like all others."""
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    return page(request, "problem.html", status_code=status, line=str(error))


def _no_page(request: Request, _: Exception) -> Response:
    return page(request, "problem.html", status_code=404, line="There is no such page")
