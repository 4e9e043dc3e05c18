"""Subscriptions to metrics of clients (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.cluster.client import Client
from pybroker.cli import client_metrics


@dataclass(frozen=True, slots=True)
class Subscription:
    """The wanted metrics, the interval, and the matched clients; the last two as configured, or the default."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: str
    match: tuple[str, ...]


def subscriptions(client: Client) -> list[Subscription]:
    """Return all subscriptions, sorted by name."""
    with client.session() as session, session.administration() as administration:
        found = client_metrics.described(administration, client_metrics.subscriptions(administration))
    return [
        Subscription(name, _words(settings["metrics"]), settings["interval.ms"], _words(settings["match"]))
        for name, settings in found
    ]


def alter(client: Client, name: str, changes: Mapping[str, str | None]) -> None:
    """Create or change a subscription; None resets a setting to its default."""
    with client.session() as session, session.administration() as administration:
        client_metrics.alter(administration, name, changes)


def delete(client: Client, name: str) -> None:
    """Delete a subscription."""
    with client.session() as session, session.administration() as administration:
        client_metrics.delete(administration, name)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
