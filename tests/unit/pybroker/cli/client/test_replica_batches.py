"""Replicas are compared by the last offsets and checksums of their batches."""

from __future__ import annotations

import pytest

from protocol.records.builder import BatchBuilder
from pybroker.cli.client.replica_batches import Batch, Differs, batches_in, compare

HIGH = dict.fromkeys((1, 2, 3), 1 << 40)


def records(*values: bytes, at: int = 0) -> bytes:
    """Return a batch at an offset."""
    builder = BatchBuilder()
    builder.extend(0, [(None, value) for value in values])
    batch = bytearray(builder.build())
    batch[:8] = at.to_bytes(8, "big")
    return bytes(batch)


ONE, TWO = records(b"a", b"b"), records(b"c", at=2)
OTHER_ONE = records(b"a", b"x")
SHORT = records(b"a")


@pytest.mark.parametrize(
    ("replicas", "high_watermark", "offset", "ends"),
    [
        ({1: ONE + TWO, 2: ONE + TWO}, 9, 3, []),
        ({1: ONE + TWO, 2: ONE}, 9, 2, []),
        ({1: ONE + TWO, 2: ONE + TWO[:-1]}, 9, 2, []),
        ({1: ONE + TWO, 2: b""}, 9, 0, []),
        ({1: ONE + TWO, 2: ONE + TWO}, 2, 2, []),
        ({1: ONE + TWO, 2: ONE + TWO}, 1, 0, []),
        ({1: ONE, 2: OTHER_ONE, 3: ONE}, 9, 2, [(1, 2, 1, 1)]),
        ({1: ONE + TWO, 2: OTHER_ONE + TWO}, 9, 3, [(1, 2, 1, 1)]),
        ({1: ONE + TWO, 2: SHORT + TWO}, 9, 0, [(1, 2, 1, 0)]),
    ],
)
def test_replicas_are_compared_up_to_the_high_watermark(
    replicas: dict[int, bytes], high_watermark: int, offset: int, ends: list[tuple[int, int, int, int]]
) -> None:
    found, differences = compare(replicas, dict.fromkeys(replicas, high_watermark), 0)
    assert found == offset
    assert [(*each.replicas, *(batch.last_offset for batch in each.batches)) for each in differences] == ends


def test_a_response_may_begin_before_the_offset() -> None:
    assert [each.last_offset for each in batches_in(ONE + TWO, 2)] == [2]
    assert compare({1: ONE + TWO, 2: TWO}, HIGH, 2) == (3, [])


def test_messages_of_old_formats_have_one_offset_each() -> None:
    message = (7).to_bytes(8, "big") + (14).to_bytes(4, "big") + (99).to_bytes(4, "big") + b"\1" + bytes(9)
    assert list(batches_in(message * 2, 0)) == [Batch(7, 99)] * 2


@pytest.mark.parametrize("size", [-20, -12, 0, 48])
def test_a_damaged_size_ends_the_batches(size: int) -> None:
    """It would lead back, or into the batch itself."""
    damaged = TWO[:8] + size.to_bytes(4, "big", signed=True) + TWO[12:]
    assert [each.last_offset for each in batches_in(ONE + damaged, 0)] == [1]


def test_the_texts_are_those_of_apache_kafka() -> None:
    checksums = Differs((1, 2), (Batch(4, 8), Batch(4, 9)))
    offsets = Differs((1, 2), (Batch(4, 8), Batch(5, 9)))
    assert checksums.text("t-0") == (
        "partition t-0 has unmatched checksum at offset 4; replica 1's checksum 8; replica 2's checksum 9"
    )
    assert offsets.text("t-0") == "partition t-0: replica 1's offset 4 doesn't match replica 2's offset 5"
