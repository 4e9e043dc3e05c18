"""Transactions of the cluster, and the producers of a topic."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from console.cluster.transactions import producers, transactions
from console.pages.page import page, sources

_MOST_PARTITIONS = 500


def show(request: Request) -> Response:
    """GET /transactions?topic=: with the producers of that topic's partitions"""
    client = sources(request).client
    chosen = request.query_params.get("topic", "").strip()
    known = client.topics()
    found = None
    if chosen:
        topic = client.topic(chosen)
        found = producers(client, [(topic.name, each.number) for each in topic.partitions[:_MOST_PARTITIONS]])
    return page(
        request,
        "transactions.html",
        transactions=transactions(client),
        chosen=chosen,
        topics=[each.name for each in known],
        producers=found,
    )
