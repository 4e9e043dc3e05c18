"""Entities and their quotas in Kafka's order."""

from __future__ import annotations

import pytest

from metadata.client_quotas import CLIENT_ID, USER, Alteration, Component, alter_quotas, describe_quotas
from metadata.features import METADATA_VERSION
from metadata.image import MetadataImage, QuotaEntity
from metadata.quota_order import entity_hash
from metadata.replay import replay_all

PRODUCED, FETCHED, TIME, CHANGES = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


def users(*names: str | None) -> list[QuotaEntity]:
    return [((USER, name),) for name in names]


def alter(
    image: MetadataImage, entities: list[QuotaEntity], *keys: str, value: float | None = 1.0
) -> list[QuotaEntity]:
    """Set or remove quotas by one request, and return the entities of the response."""
    alterations = [Alteration(entity, tuple((key, value) for key in keys)) for entity in entities]
    decision = alter_quotas(image, alterations, lambda _: True)
    replay_all(image, decision.records)
    return [result.entity for result in decision.results]


def described(image: MetadataImage) -> list[str | None]:
    """Return the users in the order of a description."""
    return [dict(entity)[USER] for entity in describe_quotas(image, [Component(USER, 2, None)], strict=True)]


def keys_of_alice(image: MetadataImage) -> list[str]:
    (quotas,) = describe_quotas(image, [Component(USER, 0, "alice")], strict=True).values()
    return list(quotas)


def test_hash_of_an_entity() -> None:
    """Java's Objects.hash of a map: 31, and each type's hash with its name's; none for the default."""
    assert entity_hash(((USER, None),)) == 31 + 3599307
    assert entity_hash(((USER, "a"), (CLIENT_ID, "b"))) == 31 + (3599307 ^ 97) + (-1904137635 ^ 98)


@pytest.mark.parametrize("keys", [(PRODUCED, FETCHED), (FETCHED, PRODUCED)])
def test_keys_are_ordered_by_bucket(image: MetadataImage, keys: tuple[str, str]) -> None:
    """In whatever order they were named."""
    alter(image, users("alice"), *keys)
    assert keys_of_alice(image) == [FETCHED, PRODUCED]


def test_keys_within_a_bucket(image: MetadataImage) -> None:
    """The quota that was set earlier; within a request, the first one of its changes."""
    alter(image, users("alice"), PRODUCED, TIME)
    assert keys_of_alice(image) == [TIME, PRODUCED]
    alter(image, users("alice"), PRODUCED, TIME, value=None)
    alter(image, users("alice"), PRODUCED)
    alter(image, users("alice"), TIME, PRODUCED)
    assert keys_of_alice(image) == [PRODUCED, TIME]
    alter(image, users("alice"), FETCHED, CHANGES)
    assert keys_of_alice(image) == [PRODUCED, FETCHED, CHANGES, TIME]


def test_entities_are_ordered_by_bucket(image: MetadataImage) -> None:
    """The table grows, and the entities of a bucket stay in the order of their addition."""
    names = [f"user{number}" for number in range(40)]
    for name in names:
        alter(image, users(name), PRODUCED)
    together = MetadataImage(features={METADATA_VERSION: 30})
    alter(together, users(*reversed(names)), PRODUCED)

    def bucket(name: str | None) -> int:
        value = entity_hash(((USER, name),)) & 0xFFFFFFFF
        return (value ^ (value >> 16)) & 63

    assert described(image) == sorted(names, key=lambda name: (bucket(name), names.index(name)))
    assert sorted(described(together), key=bucket) == described(together)
    assert described(image) != names


def test_an_entity_is_answered_once(image: MetadataImage) -> None:
    """However often it is named, in the order of a table."""
    there = users("b", "a", None)
    answered = alter(image, [*there, there[0]], PRODUCED)
    assert sorted(answered, key=str) == sorted(there, key=str)
    assert alter(image, there[::-1], PRODUCED) == answered
