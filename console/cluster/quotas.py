"""Quotas of users, clients and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.cluster.client import Client
from pybroker.cli.quotas import Entity, alter, described, plain_number

#: Quota keys and their units; users and clients have all but the last, addresses only the last.
KEYS = {
    "producer_byte_rate": "B/s",
    "consumer_byte_rate": "B/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "changes/s",
    "connection_creation_rate": "connections/s",
}
#: Entity types of the protocol, in the order in which they are shown.
KINDS = ("user", "client-id", "ip")
#: A form's words for the entity: one with a name, or all without a quota of their own.
NAMED, DEFAULT = "named", "default"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of the entity that matches all parts of `entity`; the name None matches those without their own limit."""

    entity: Mapping[str, str | None]
    key: str
    value: float | int

    @property
    def unit(self) -> str:
        return KEYS.get(self.key, "")

    @property
    def fields(self) -> dict[str, str]:
        """Return the form fields that identify the quota."""
        found = {"key": self.key}
        for kind, name in self.entity.items():
            found |= {f"of-{kind}": DEFAULT} if name is None else {f"of-{kind}": NAMED, kind: name}
        return found


def quotas(client: Client) -> list[Quota]:
    """Return all quotas, sorted by entity."""
    with client.session() as session, session.administration() as administration:
        found = described(administration, {}, strict=False)
    rows = [Quota(entity, key, plain_number(value) or 0.0) for entity, limits in found for key, value in limits.items()]
    return sorted(rows, key=lambda row: ([(kind in row.entity, row.entity.get(kind) or "") for kind in KINDS], row.key))


def change(client: Client, entity: Entity, key: str, value: float | None) -> None:
    """Set a limit; None removes it."""
    with client.session() as session, session.administration() as administration:
        alter(administration, entity, {key: value})
