"""Every message in every version: random values round-trip, and random bytes only raise ProtocolError."""

from __future__ import annotations

import tracemalloc
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compiler import least_size
from protocol.error_codes import ProtocolError
from protocol.schema import Array, Message, StructType
from tests.support.message_values import random_value
from tests.support.scale import scaled
from tests.support.schema_facts import all_fields, all_messages

PAIRS = [(message, version) for _, message in sorted(all_messages().items()) for version in message.versions]
seeds = st.integers(0, 2**32 - 1)
pairs = st.sampled_from(PAIRS)


def assert_round_trips(message: Message, version: int, random: Random) -> None:
    value = random_value(random, message, version)
    encoded = message.encode(version, value)

    assert message.decode(version, encoded) == (value, len(encoded))
    assert message.decode(version, memoryview(b"#" + encoded + b"tail"), 1) == (value, len(encoded) + 1)
    chunks = message.encode_chunks(version, value)
    assert b"".join(chunks) == encoded  # type: ignore[arg-type]


def test_random_values_round_trip_at_every_version():
    """Every pair of message and version once."""
    for index, (message, version) in enumerate(PAIRS):
        assert_round_trips(message, version, Random(index))


@settings(max_examples=scaled(150), deadline=None)
@given(pairs, seeds)
def test_random_values_of_random_messages_round_trip(pair: tuple[Message, int], seed: int):
    """With values that hypothesis generates."""
    assert_round_trips(*pair, Random(seed))


def decode_or_refuse(message: Message, version: int, data: bytes) -> None:
    try:
        _, end = message.decode(version, data)
    except ProtocolError:
        return
    assert end <= len(data)


@settings(max_examples=scaled(200), deadline=None)
@given(pairs, st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_protocol_errors(pair: tuple[Message, int], data: bytes):
    """Rule 1."""
    decode_or_refuse(*pair, data)


@settings(max_examples=scaled(200), deadline=None)
@given(pairs, seeds, st.data())
def test_damaged_messages_raise_nothing_but_protocol_errors(pair: tuple[Message, int], seed: int, data: st.DataObject):
    """A valid message with a few changed bytes or a missing end: this reaches deeper than random bytes."""
    message, version = pair
    encoded = bytearray(message.encode(version, random_value(Random(seed), message, version)))
    for _ in range(data.draw(st.integers(1, 3)) if encoded else 0):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    cut = data.draw(st.integers(0, len(encoded)))
    decode_or_refuse(message, version, bytes(encoded))
    decode_or_refuse(message, version, bytes(encoded[:cut]))


def test_huge_claims_allocate_nothing():
    """Lengths and counts near 2^31 everywhere, in both encodings (rule 2)."""
    claims = [
        b"\x7f\xff\xff\xff" * 16,
        b"\xff\xff\xff\xff\x07" * 13,
        b"\0" * 10 + b"\x7f\xff\xff\xff" * 14,
        b"\x7f" * 64,
    ]
    for message, version in PAIRS:
        message.decoder(version)
    tracemalloc.start()
    try:
        for message, version in PAIRS:
            for claim in claims:
                decode_or_refuse(message, version, claim)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_every_array_element_has_a_minimum_size():
    """With an element of no bytes a count would be unlimited."""
    for message, version in PAIRS:
        for field in all_fields(message):
            if isinstance(field.type, Array) and version in field.versions:
                element = field.type.element
                in_use = not isinstance(element, StructType) or any(version in f.versions for f in element.fields)
                assert not in_use or least_size(element, version, version in message.flexible) > 0, (message, field)
