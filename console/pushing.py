"""Clients that push their metrics to the broker, from its metrics endpoint; only if `metrics.listeners` is set."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from console.errors import BrokerUnavailable, NotFound

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Number:
    """A number that a client pushed; `labels` are without those that all numbers of the client have."""

    name: str
    labels: Mapping[str, str]
    value: float | None


@dataclass(frozen=True, slots=True)
class PushingClient:
    """A client that requested its subscription; `pushed_ms` is since the epoch, None before its first push."""

    instance_id: str
    client_id: str
    software: str
    address: str
    is_connected: bool
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int
    pushed_ms: int | None
    pushed_numbers: int
    kept_numbers: int
    last_answer: str
    numbers: tuple[Number, ...] = ()


class Pushing:
    """Queries the endpoint at `url`. Thread-safe."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/clients"
        # a proxy of the environment must not be used between two processes of this machine
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def clients(self) -> list[PushingClient]:
        """Return all clients, the latest report first. Raises BrokerUnavailable."""
        return sorted(self._ask({}), key=lambda each: (-(each.pushed_ms or 0), each.client_id, each.instance_id))

    def client(self, instance_id: str) -> PushingClient:
        """Return one client with its numbers, sorted by name. Raises NotFound, BrokerUnavailable."""
        for each in self._ask({"id": instance_id}):
            return each
        raise NotFound(f"there is no client {instance_id[:40]}, or it has pushed no metrics recently")

    def _ask(self, query: Mapping[str, str]) -> list[PushingClient]:
        url = f"{self._url}?{urlencode(query)}" if query else self._url
        try:
            with self._opener.open(url, timeout=_TIMEOUT_S) as answer:
                return [_client(each) for each in json.loads(answer.read())["clients"]]
        except urllib.error.HTTPError as error:
            if error.code == 400:
                raise NotFound("that is not a client's instance id") from None
            raise BrokerUnavailable(f"{self._url}: {error}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BrokerUnavailable(f"{self._url}: {error}") from None


def _client(fields: Mapping[str, Any]) -> PushingClient:
    return PushingClient(
        instance_id=fields["client_instance_id"],
        client_id=fields["client_id"],
        software=f"{fields['client_software_name']} {fields['client_software_version']}".strip(),
        address=fields["client_address"],
        is_connected=fields["connected"],
        subscriptions=tuple(fields["subscriptions"]),
        metrics=tuple(fields["metrics"]),
        interval_ms=fields["interval_ms"],
        pushed_ms=fields["pushed_ms"],
        pushed_numbers=fields["pushed_numbers"],
        kept_numbers=fields["kept_numbers"],
        last_answer=fields["last_answer"],
        numbers=tuple(sorted(map(_number, fields.get("numbers", ())), key=lambda each: (each.name, str(each.labels)))),
    )


def _number(fields: Mapping[str, Any]) -> Number:
    labels = {key: value for key, value in fields["labels"].items() if not key.startswith("client_")}
    return Number(fields["origin"], labels, fields["value"])
