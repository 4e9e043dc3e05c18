"""How much users, clients and addresses may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from console.cluster.client import Client
from pybroker.cli.quotas import Entity, alter, described, plain_number

#: What a limit may be of, and its unit; users and clients have all but the last, addresses that one alone.
KEYS = {
    "producer_byte_rate": "B/s",
    "consumer_byte_rate": "B/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "changes/s",
    "connection_creation_rate": "connections/s",
}
#: Kinds of the protocol, in the order in which they are told.
KINDS = ("user", "client-id", "ip")
#: As a form says whom a quota is of: who has a name, or all that have no quota of their own.
NAMED, DEFAULT = "named", "default"


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of whoever all parts of `entity` name; None as a name: those who have no limit of their own."""

    entity: Mapping[str, str | None]
    key: str
    value: float | int

    @property
    def unit(self) -> str:
        return KEYS.get(self.key, "")

    @property
    def fields(self) -> dict[str, str]:
        """By which a form names it."""
        found = {"key": self.key}
        for kind, name in self.entity.items():
            found |= {f"of-{kind}": DEFAULT} if name is None else {f"of-{kind}": NAMED, kind: name}
        return found


def quotas(client: Client) -> list[Quota]:
    """All of them, by whom they are of."""
    with client.session() as session, session.administration() as administration:
        found = described(administration, {}, strict=False)
    rows = [Quota(entity, key, plain_number(value) or 0.0) for entity, limits in found for key, value in limits.items()]
    return sorted(rows, key=lambda row: ([(kind in row.entity, row.entity.get(kind) or "") for kind in KINDS], row.key))


def change(client: Client, entity: Entity, key: str, value: float | None) -> None:
    """Set a limit; with None it is taken away."""
    with client.session() as session, session.administration() as administration:
        alter(administration, entity, {key: value})
