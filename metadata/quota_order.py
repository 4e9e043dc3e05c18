"""The order in which Kafka lists quotas: that of the hash tables that hold entities and quotas.

Each batch of changes creates a new table, with room for the former entries, which grows as entries are added. Entries
of one bucket are in the order of their addition, and those of one batch in the order of the batch's own table of
changes. `computeIfAbsent` adds entities to that table, and puts the latest of a bucket first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from metadata.image import QuotaEntity
from protocol.java_order import grown, hash_order, java_hash


def entity_hash(entity: QuotaEntity) -> int:
    """Return `ClientQuotaEntity.hashCode()`, the hash of a table of names by type."""
    names = sum(java_hash(kind) ^ (0 if name is None else java_hash(name)) for kind, name in entity)
    return 31 + names


def key_order(keys: Collection[str]) -> list[str]:
    """Return the quotas of an entity, or the types of its names, in the order of a table created for that many."""
    return hash_order(keys, java_hash, grown(len(keys), 1))


def listed_order(entities: Collection[QuotaEntity]) -> list[QuotaEntity]:
    """Return all entities with quotas, in Kafka's order."""
    return hash_order(entities, entity_hash, grown(len(entities), 1))


def result_order(entities: Collection[QuotaEntity]) -> list[QuotaEntity]:
    """Return the entities of one request, in the order of its response."""
    return hash_order(entities, entity_hash)


def reorder_new(quotas: dict[QuotaEntity, dict[str, float]], made: Iterable[tuple[QuotaEntity, str]]) -> None:
    """Move the entries that one batch created behind all others, in the order of its table of changes."""
    keys: dict[QuotaEntity, list[str]] = {}
    for entity, key in made:
        keys.setdefault(entity, []).append(key)
    for entity in hash_order([*reversed(keys)], entity_hash):
        values = quotas.get(entity)
        if values is None:
            continue
        new = [key for key in hash_order(keys[entity], java_hash) if key in values]
        if len(new) == len(values):
            quotas[entity] = quotas.pop(entity)
        for key in new:
            values[key] = values.pop(key)
