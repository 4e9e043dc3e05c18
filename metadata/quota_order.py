"""The order in which Kafka tells of quotas: that of hash tables, which it keeps entities and quotas in.

A table is made anew with each batch of changes: with room for what it had, and it grows as what is new comes in. What
shares a bucket is in the order in which it came, and of one batch in that of the table of its changes. Into that one
entities come by `computeIfAbsent`, which puts the latest of a bucket first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from metadata.image import QuotaEntity
from protocol.java_order import grown, hash_order, java_hash


def entity_hash(entity: QuotaEntity) -> int:
    """`ClientQuotaEntity.hashCode()`: of a table with names by kinds."""
    names = sum(java_hash(kind) ^ (0 if name is None else java_hash(name)) for kind, name in entity)
    return 31 + names


def key_order(keys: Collection[str]) -> list[str]:
    """Quotas of an entity, or kinds of names that it has, in a table that was made for so many."""
    return hash_order(keys, java_hash, grown(len(keys), 1))


def told_order(entities: Collection[QuotaEntity]) -> list[QuotaEntity]:
    """All entities that have quotas."""
    return hash_order(entities, entity_hash, grown(len(entities), 1))


def result_order(entities: Collection[QuotaEntity]) -> list[QuotaEntity]:
    """Entities of one request in its answer."""
    return hash_order(entities, entity_hash)


def settle(quotas: dict[QuotaEntity, dict[str, float]], made: Iterable[tuple[QuotaEntity, str]]) -> None:
    """Put what one batch has made behind all that was there, in the order of its table of changes."""
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
