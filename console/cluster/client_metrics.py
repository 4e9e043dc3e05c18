"""Subscriptions to metrics of clients (KIP-714)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.cluster.client import Client
from pybroker.cli import client_metrics


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which metrics are wanted, how often, and of whom; the last two as they are set or by default."""

    name: str
    metrics: tuple[str, ...]
    interval_ms: str
    match: tuple[str, ...]


def subscriptions(client: Client) -> list[Subscription]:
    """By name."""
    with client.session() as session, session.administration() as administration:
        found = client_metrics.described(administration, client_metrics.subscriptions(administration))
    return [
        Subscription(name, _words(settings["metrics"]), settings["interval.ms"], _words(settings["match"]))
        for name, settings in found
    ]


def alter(client: Client, name: str, changes: Mapping[str, str | None]) -> None:
    """Make one, or change it; None is back to a default."""
    with client.session() as session, session.administration() as administration:
        client_metrics.alter(administration, name, changes)


def delete(client: Client, name: str) -> None:
    """Take one away."""
    with client.session() as session, session.administration() as administration:
        client_metrics.delete(administration, name)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
