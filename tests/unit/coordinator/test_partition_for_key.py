"""Partitions of keys equal those of a Java broker."""

import pytest

from coordinator.partition_for_key import partition_for
from protocol.java_order import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group-1", 293427299),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("😀", 1772899),
        ("my-consumer", -901342473),
    ],
)
def test_java_hash_is_that_of_java(text, expected):
    assert java_hash(text) == expected


def test_partition_is_the_absolute_value_modulo_the_count():
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("my-consumer", 50) == 901342473 % 50
