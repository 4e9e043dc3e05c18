"""Answer `/clients`: the clients that were asked for their metrics (KIP-714), and what they pushed, as JSON.

Kafka's protocol cannot return them: it does not list the clients that a subscription matches.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from broker.observability.metrics.exposition import AT_ONCE, PAUSE_S
from protocol.id_text import id_bytes

if TYPE_CHECKING:
    from broker.observability.metrics.observed import ObservedProcess
    from broker.observability.telemetry.received import Series
    from broker.observability.telemetry.subscriptions import ClientInstance


@dataclass(frozen=True, slots=True)
class Clients:
    """The loop's clients at one moment, on both clocks.

    `counts` are the numbers of kept series by instance id; `numbers` are the series of the requested client, or None.
    """

    now_ms: int
    monotonic_ms: int
    instances: list[ClientInstance]
    counts: dict[bytes, int]
    numbers: list[Series] | None


def asked_client(query: str) -> bytes | None:
    """Return the instance id of a query's `id=`. Raises ValueError if it is invalid."""
    given = parse_qs(query).get("id")
    return None if given is None else id_bytes(given[-1])


def take_clients(broker: ObservedProcess, instance_id: bytes | None) -> Clients:
    """Return the clients; called on the loop."""
    now_ms, monotonic_ms = broker.clock.now_ms(), broker.clock.monotonic_ms()
    main = broker.main_parts
    if main.client_metrics.received is None:
        return Clients(now_ms, monotonic_ms, [], {}, None if instance_id is None else [])
    metrics, received = main.client_metrics, main.client_metrics.received
    numbers = None if instance_id is None else received.of_client(instance_id)
    return Clients(now_ms, monotonic_ms, metrics.instances(), received.counts(), numbers)


def clients_json(taken: Clients, instance_id: bytes | None) -> bytes:
    """Return an object with `clients`: all present or kept ones, or the requested one with its numbers.

    Safe in any thread. It pauses now and then: there may be thousands.
    """
    described_clients = []
    for number, each in enumerate(taken.instances, 1):
        if instance_id in (None, each.instance_id) and (described := _client(each, taken)):
            described_clients.append(described)
        if number % AT_ONCE == 0:
            time.sleep(PAUSE_S)
    return json.dumps({"clients": described_clients}).encode() + b"\n"


def _client(each: ClientInstance, taken: Clients) -> dict[str, object]:
    """Return a client; empty if nothing is known of it. Times are since the epoch, None for never."""
    is_there, kept = not each.is_over(taken.monotonic_ms), taken.counts.get(each.instance_id, 0)
    if not is_there and not kept:
        return {}
    taken_ms = None if each.taken_ms is None else taken.now_ms - (taken.monotonic_ms - each.taken_ms)
    described_clients: dict[str, object] = {
        **each.about,
        "client_address": f"{each.connection.client_host}:{each.connection.client_port}",
        "connected": is_there,
        "subscriptions": list(each.subscriptions),
        "metrics": list(each.metrics),
        "interval_ms": each.interval_ms,
        "pushed_ms": taken_ms,
        "pushed_numbers": each.taken_count,
        "kept_numbers": kept,
        "last_answer": each.last_error.name,
    }
    if taken.numbers is not None:
        described_clients["numbers"] = [_number(each) for each in taken.numbers]
    return described_clients


def _number(series: Series) -> dict[str, object]:
    value = series.value if math.isfinite(series.value) else None  # JSON has no others
    return {"name": series.name, "origin": series.origin, "labels": dict(series.labels), "value": value}
