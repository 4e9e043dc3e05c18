"""Decisions about quotas of users, clients and addresses (KIP-546): set, remove and describe them.

An entity has a quota: a user, a client id, both together, or an address. None instead of a name is the default of its
type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import msgspec

from metadata import quota_order
from metadata.decision import Decision, Refused
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, QuotaEntity
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ClientQuotaRecord
from protocol.messages.cluster_metadata.configs import EntityData

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a filter component matches: a name, the default, or any entity of its type."""

_LONG_MAX = float(2**63 - 1)
_INT_MAX = float(2**31 - 1)
_FRACTION = 1e-6
#: The largest allowed integer of a quota; None for quotas with a fraction.
_OF_CLIENTS: Mapping[str, float | None] = {
    PRODUCER_BYTE_RATE: _LONG_MAX,
    CONSUMER_BYTE_RATE: _LONG_MAX,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
_OF_ADDRESSES: Mapping[str, float | None] = {CONNECTION_CREATION_RATE: _INT_MAX}


class Alteration(msgspec.Struct, frozen=True):
    """The change of an entity: quotas by key, None to remove one. A duplicate key is rejected."""

    entity: tuple[tuple[str, str | None], ...]
    changes: tuple[tuple[str, float | None], ...]


class Altered(msgspec.Struct, frozen=True):
    """The result for an entity."""

    entity: tuple[tuple[str, str | None], ...]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class Component(msgspec.Struct, frozen=True):
    """A component of a filter. `match_type` is EXACT, DEFAULT, SPECIFIED, or an invalid number."""

    entity_type: str
    match_type: int
    match: str | None


def alter_quotas(
    image: MetadataImage, alterations: Sequence[Alteration], is_address: Callable[[str], bool]
) -> Decision[Altered]:
    """Decide for each entity. `is_address(name)`: whether the name is an address or a host with one."""
    decision: Decision[Altered] = Decision()
    results: dict[QuotaEntity, Altered] = {}
    for each in alterations:
        entity: QuotaEntity = tuple(sorted(dict(each.entity).items(), key=lambda part: part[0]))
        try:
            if entity in results:
                raise _invalid(f"Ignoring duplicate entity {_text(entity)}")
            results[entity] = Altered(entity)
            decision.records += _records(image, entity, each.changes, is_address)
        except Refused as refusal:
            results[entity] = Altered(entity, refusal.error_code, refusal.message)
    decision.results += [results[entity] for entity in quota_order.result_order(results)]
    return decision


def _records(
    image: MetadataImage,
    entity: QuotaEntity,
    changes: Sequence[tuple[str, float | None]],
    is_address: Callable[[str], bool],
) -> list[MetadataRecord]:
    wanted = dict(changes)
    if len(wanted) != len(changes):
        raise _invalid(f"Ignoring duplicate entity {_text(entity)}")  # Kafka has the same message for a duplicate key
    allowed = _quotas_of(entity, is_address)
    current = image.client_quotas.get(entity, {})
    records = []
    for key in quota_order.key_order(wanted):
        value = wanted[key]
        if value is not None:
            _check(allowed, key, value)
        if current.get(key) == value:
            continue
        fields = {"remove": True} if value is None else {"value": value}
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        records.append(new_record(image.metadata_version, ClientQuotaRecord, entity=parts, key=key, **fields))
    return records


def _quotas_of(entity: QuotaEntity, is_address: Callable[[str], bool]) -> Mapping[str, float | None]:
    """Return the quotas that an entity may have. Raises Refused for an invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    names = dict(entity)
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"  # Kafka's words
        )
    address = names[IP]
    if address is not None and not is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check(allowed: Mapping[str, float | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    largest = allowed[key]
    if largest is not None and value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {'a LONG' if largest == _LONG_MAX else 'an INT'}.")
    if not isfinite(value):  # no throttle time follows from it
        raise _invalid(f"Quota {key} must be a finite number")
    if largest is not None and value % 1.0 > _FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")


def describe_quotas(
    image: MetadataImage, components: Sequence[Component], *, strict: bool
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the entities that a filter matches, with their quotas. Raises Refused.

    `strict`: only entities without other types match.
    """
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for each in components:
        if not each.entity_type:
            raise _invalid("Invalid empty entity type.")
        if each.entity_type in exact or each.entity_type in specified:
            raise _invalid(f"Entity type {each.entity_type} cannot appear more than once in the filter.")
        if each.entity_type not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {each.entity_type}")
        _sort_in(each, exact, specified)
    kinds = exact.keys() | specified
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    found = {}
    for entity in quota_order.listed_order(image.client_quotas):
        names = dict(entity)
        fits = all(kind in names and names[kind] == name for kind, name in exact.items()) and specified <= names.keys()
        if fits and (not strict or len(names) == len(kinds)):
            quotas = image.client_quotas[entity]
            found[entity] = {key: quotas[key] for key in quota_order.key_order(quotas)}
    return found


def _sort_in(component: Component, exact: dict[str, str | None], specified: set[str]) -> None:
    kind, match = component.entity_type, component.match
    if component.match_type == EXACT:
        if match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        exact[kind] = match
    elif component.match_type == DEFAULT:
        if match is not None:
            raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
        exact[kind] = None
    elif component.match_type == SPECIFIED:
        if match is not None:
            raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
        specified.add(kind)
    else:
        raise _invalid(f"Unknown match type {component.match_type}")


def _text(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
