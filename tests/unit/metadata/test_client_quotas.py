"""Quotas as records, with Kafka's errors."""

from __future__ import annotations

from math import inf, nan

import pytest

from metadata.client_quotas import (
    CLIENT_ID,
    DEFAULT,
    EXACT,
    IP,
    SPECIFIED,
    USER,
    Alteration,
    Altered,
    Component,
    alter_quotas,
    describe_quotas,
)
from metadata.decision import Refused
from metadata.image import MetadataImage
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode

ALICE = ((USER, "alice"),)
BOTH = ((USER, "alice"), (CLIENT_ID, "c"))
DEFAULT_USER = ((USER, None),)


def alter(image: MetadataImage, *alterations: Alteration) -> list[Altered]:
    decision = alter_quotas(image, alterations, lambda name: name[0].isdigit())
    replay_all(image, decision.records)
    return decision.results


def test_set_change_and_remove(image: MetadataImage) -> None:
    """Unchanged quotas need no record; an entity without quotas is removed."""
    rate = ("producer_byte_rate", 1000.0)
    assert alter(image, Alteration(ALICE, (rate, ("request_percentage", 12.5)))) == [Altered(ALICE)]
    assert image.client_quotas == {ALICE: {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    assert not alter_quotas(image, [Alteration(ALICE, (rate, ("consumer_byte_rate", None)))], lambda _: True).records
    alter(image, Alteration(ALICE, (("producer_byte_rate", None), ("request_percentage", None))))
    assert image.client_quotas == {}


def test_the_order_of_an_entity_does_not_matter(image: MetadataImage) -> None:
    alter(image, Alteration(BOTH, (("producer_byte_rate", 1.0),)))
    alter(image, Alteration(BOTH[::-1], (("producer_byte_rate", 2.0),)))
    assert list(image.client_quotas.values()) == [{"producer_byte_rate": 2.0}]


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ((), "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ((("group", "g"),), "producer_byte_rate", 1.0, "Unhandled client quota entity type: group"),
        (((USER, ""),), "producer_byte_rate", 1.0, "Empty user not supported"),
        (ALICE, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (ALICE, "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, "producer_byte_rate", 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ALICE, "producer_byte_rate", nan, "Quota producer_byte_rate must be a finite number"),
        (ALICE, "producer_byte_rate", inf, "Proposed value for producer_byte_rate is too large for a LONG."),
        (ALICE, "consumer_byte_rate", -inf, "Quota consumer_byte_rate must be greater than 0"),
        (ALICE, "controller_mutation_rate", nan, "Quota controller_mutation_rate must be a finite number"),
        (ALICE, "controller_mutation_rate", inf, "Quota controller_mutation_rate must be a finite number"),
        (((IP, "x"),), "connection_creation_rate", 1.0, "x is not a valid IP or resolvable host."),
        (((IP, "1.2.3.4"),), "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (
            ((IP, "1.2.3.4"), (USER, "a")),
            "connection_creation_rate",
            1.0,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
    ],
)
def test_rejected_quotas(
    image: MetadataImage, entity: tuple[tuple[str, str | None], ...], key: str, value: float, message: str
) -> None:
    """The other entities of the request are changed, and this one is not."""
    alteration = Alteration(entity, (("request_percentage", None), (key, value)))
    good = Alteration(DEFAULT_USER, (("producer_byte_rate", 1.0),))
    found = alter(image, alteration, good)
    refused = Altered(tuple(sorted(entity)), ErrorCode.INVALID_REQUEST, message)
    assert sorted(found, key=str) == sorted([refused, Altered(DEFAULT_USER)], key=str)
    assert list(image.client_quotas) == [DEFAULT_USER]


def test_an_entity_or_key_twice(image: MetadataImage) -> None:
    """The response has one result, the last one; the first change counts."""
    alteration = Alteration(ALICE, (("producer_byte_rate", 1.0),))
    (answered,) = alter(image, alteration, alteration)
    assert answered.error_code is ErrorCode.INVALID_REQUEST
    assert image.client_quotas == {ALICE: {"producer_byte_rate": 1.0}}
    (twice,) = alter(image, Alteration(BOTH, alteration.changes * 2))
    assert twice.error_code is ErrorCode.INVALID_REQUEST


def test_filters(image: MetadataImage) -> None:
    address = ((IP, "1.2.3.4"),)
    for entity in (ALICE, BOTH, DEFAULT_USER):
        alter(image, Alteration(entity, (("producer_byte_rate", 1.0),)))
    alter(image, Alteration(address, (("connection_creation_rate", 1.0),)))
    both = tuple(sorted(BOTH))

    def described(*components: Component, strict: bool = False) -> set[object]:
        return set(describe_quotas(image, components, strict=strict))

    assert described() == {ALICE, both, DEFAULT_USER, address}
    assert described(strict=True) == set()
    assert described(Component(USER, EXACT, "alice")) == {ALICE, both}
    assert described(Component(USER, EXACT, "alice"), strict=True) == {ALICE}
    assert described(Component(USER, DEFAULT, None)) == {DEFAULT_USER}
    assert described(Component(USER, SPECIFIED, None), strict=True) == {ALICE, DEFAULT_USER}
    assert described(Component(USER, SPECIFIED, None), Component(CLIENT_ID, EXACT, "c")) == {both}
    assert described(Component(IP, SPECIFIED, None)) == {address}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([Component(USER, EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([Component(USER, DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([Component(USER, SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([Component(USER, 3, None)], ErrorCode.INVALID_REQUEST),
        ([Component(USER, DEFAULT, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([Component(USER, DEFAULT, None), Component(IP, DEFAULT, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters(image: MetadataImage, components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(Refused) as refused:
        describe_quotas(image, components, strict=False)
    assert refused.value.error_code is code
