"""The console as an ASGI application: the route of each page, and the response to each kind of error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, PathConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from console.errors import BadRequest, BrokerRejected, BrokerUnavailable, NotFound, Refused, TooMany
from console.forms import changing
from console.login_sessions import LoginSessions
from console.pages import (
    access,
    access_changes,
    broker_log,
    bytes_page,
    clients,
    group_changes,
    groups,
    login,
    messages,
    overview,
    replicas,
    storage,
    tail,
    topic_changes,
    topics,
    transactions,
)
from console.pages.page import page
from console.protection import Protection
from protocol.error_codes import ProtocolError
from protocol.records.errors import RecordsError
from tools.errors import DumpFailed

_STATIC = Path(__file__).parent / "static"
_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    BadRequest: 400,
    Refused: 403,
    BrokerRejected: 409,
    TooMany: 429,
    BrokerUnavailable: 503,
    RecordsError: 422,  # the file exists, but its content is not a batch
    ProtocolError: 422,
    DumpFailed: 422,
    OSError: 500,  # the disk failed
}


class _Whole(IntegerConvertor):
    """A path parameter such as an offset or a position. It must fit into 64 bits; the route does not match others."""

    regex = "[0-9]{1,18}"


class _AnyText(PathConvertor):
    """A path parameter of any characters, line ends included. It may be empty."""

    regex = r"[\s\S]*"


register_url_convertor("whole", _Whole())
register_url_convertor("any", _AnyText())

_TOPIC = "/topics/{topic}"
_FOLDER = "/storage/{directory:whole}/{folder}"
_SEGMENT = _FOLDER + "/{base:whole}"
_BATCH = _SEGMENT + "/batch/{position:whole}"


def _change(path: str, change: Callable[..., Response], name: str) -> Route:
    return Route(path, changing(change), methods=["POST"], name=name)


_ROUTES: list[BaseRoute] = [
    Route("/", overview.show, name="overview"),
    Route("/rates.json", overview.rates, name="rates"),
    Route("/login", login.show, name="login"),
    Route("/login", login.enter, methods=["POST"], name="enter"),
    _change("/logout", login.leave, "leave"),
    Route("/topics", topics.show_all, name="topics"),
    _change("/topics", topic_changes.create, "create-topic"),
    Route(_TOPIC, topics.show, name="topic"),
    _change(_TOPIC + "/settings", topic_changes.alter, "alter-topic"),
    _change(_TOPIC + "/partitions", topic_changes.add_partitions, "add-partitions"),
    _change(_TOPIC + "/delete", topic_changes.delete, "delete-topic"),
    Route(_TOPIC + "/messages", messages.show, name="messages"),
    _change(_TOPIC + "/messages", messages.produce, "produce"),
    Route(_TOPIC + "/tail", tail.follow, name="tail"),
    Route("/replicas", replicas.show, name="replicas"),
    Route("/groups", groups.show_all, name="groups"),
    Route("/lag.json", groups.lag, name="lag"),
    Route("/groups/{group:any}", groups.show, name="group"),
    _change("/groups/{group:any}", group_changes.change, "change-group"),
    Route("/transactions", transactions.show, name="transactions"),
    Route("/access", access.show, name="access"),
    _change("/access/acls", access_changes.add_acl, "add-acl"),
    Route("/access/acls/delete", access_changes.confirm_delete_acl, name="ask-delete-acl"),
    _change("/access/acls/delete", access_changes.delete_acl, "delete-acl"),
    _change("/access/users", access_changes.set_password, "set-password"),
    Route("/access/users/remove", access_changes.confirm_remove_user, name="ask-remove-user"),
    _change("/access/users/remove", access_changes.remove_user, "remove-user"),
    _change("/access/quotas", access_changes.set_quota, "set-quota"),
    Route("/access/quotas/remove", access_changes.confirm_remove_quota, name="ask-remove-quota"),
    _change("/access/quotas/remove", access_changes.remove_quota, "remove-quota"),
    Route("/clients", clients.show_all, name="clients"),
    _change("/clients", clients.subscribe, "subscribe"),
    Route("/clients/remove", clients.confirm_unsubscribe, name="ask-unsubscribe"),
    _change("/clients/remove", clients.unsubscribe, "unsubscribe"),
    Route("/clients/{instance}", clients.show, name="client"),
    Route("/log", broker_log.show, name="log"),
    Route("/storage", storage.show_all, name="storage"),
    Route(_FOLDER, storage.show_folder, name="folder"),
    Route(_FOLDER + "/find", storage.find_offset, name="find"),
    Route(_SEGMENT, storage.show_segment, name="segment"),
    Route(_SEGMENT + "/{suffix}", bytes_page.show_index, name="index"),
    Route(_BATCH, bytes_page.show_batch, name="batch"),
    Route(_BATCH + "/record/{number:whole}", bytes_page.show_record, name="record"),
    Mount("/static", StaticFiles(directory=_STATIC), name="static"),
]


def make_application(sessions: LoginSessions, hosts: frozenset[str], *, read_only: bool = False) -> Starlette:
    """Return the application.

    Args:
        hosts: the host names, without port, that browsers may use for the console.
        read_only: reject every change, whoever the user is.
    """
    application = Starlette(
        routes=_ROUTES,
        middleware=[Middleware(Protection, hosts=hosts, sessions=sessions, read_only=read_only)],
        exception_handlers={**dict.fromkeys(_STATUS, _say), 404: _no_page},
    )
    application.state.login_sessions = sessions
    application.state.read_only = read_only
    return application


def _say(request: Request, error: Exception) -> Response:
    """Return an error in one line, on a page like all others."""
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    return page(request, "problem.html", status_code=status, line=str(error))


def _no_page(request: Request, _: Exception) -> Response:
    return page(request, "problem.html", status_code=404, line="There is no such page")
