"""Metrics that clients push: the subscriptions, and the clients with their numbers."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AclOperation
from starlette.requests import Request
from starlette.responses import Response

from console.cluster import client_metrics
from console.cluster.client_metrics import Subscription
from console.errors import BadRequest, BrokerRejected, NotFound, Refused
from console.forms import Form
from console.pages.page import confirmation, page, redirect_after, sources
from console.pushing import Pushing

_MOST = 500
_LONGEST = 1000
#: Form field -> configuration key.
_FIELDS = {"metrics": "metrics", "interval": "interval.ms", "match": "match"}


def show_all(request: Request) -> Response:
    """GET /clients: subscriptions, or why they are unavailable; and clients if there is a metrics endpoint"""
    source = sources(request)
    found: Sequence[Subscription] = ()
    problem = None
    try:
        found = client_metrics.subscriptions(source.client)
    except (BrokerRejected, Refused) as error:
        problem = str(error)
    clients = _pushing(request).clients() if source.pushing is not None and problem is None else []
    return page(
        request,
        "clients.html",
        subscriptions=found,
        problem=problem,
        has_endpoint=source.pushing is not None,
        clients=clients[:_MOST],
        count=len(clients),
    )


def show(request: Request) -> Response:
    """GET /clients/{instance}: the numbers that one client pushed"""
    return page(request, "client.html", client=_pushing(request).client(request.path_params["instance"]))


def subscribe(request: Request, form: Form) -> Response:
    """POST /clients: name; metrics, interval, match: empty means the default"""
    changes = {key: _short(form.word(name)) or None for name, key in _FIELDS.items()}
    client_metrics.alter(sources(request).client, _name(form.word("name")), changes)
    return redirect_after(request, "subscribed", "clients")


def confirm_unsubscribe(request: Request) -> Response:
    """GET /clients/remove?name="""
    facts = {"subscription": _name(Form.of_query(request).text("name"))}
    fields = {"name": facts["subscription"]}
    return confirmation(request, "Remove this subscription?", facts, "unsubscribe", "Remove", "clients", fields)


def unsubscribe(request: Request, form: Form) -> Response:
    """POST /clients/remove: name"""
    client_metrics.delete(sources(request).client, _name(form.text("name")))
    return redirect_after(request, "unsubscribed", "clients")


def _pushing(request: Request) -> Pushing:
    """Return the clients, for users that may list subscriptions: Kafka has no request for them. NotFound, Refused."""
    source = sources(request)
    if source.pushing is None:
        raise NotFound("clients cannot push metrics: metrics.listeners is not set")
    if request.state.login_session.user is not None:
        source.client.check_cluster(AclOperation.DESCRIBE_CONFIGS)
    return source.pushing


def _name(text: str) -> str:
    if not text or "\0" in text:
        raise BadRequest("Which subscription?")
    return _short(text)


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        raise BadRequest("That is longer than a thousand characters")
    return text
