"""Filters of records."""

from __future__ import annotations

import argparse

import pytest
from confluent_kafka import Message

from pybroker.cli.client.record_filter import passes, record_filter

RECORD = Message("topic", 0, 7, b"shop-7", b"line one\nline two", [("trace", b"4bf9"), ("none", None)])
EMPTY = Message("topic", 0, 7, None, None, None)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("key=shop", True),
        ("key=^op", False),
        ("value=one.line", True),
        ("value=^$", False),
        ("header.trace=^4b", True),
        ("header.trace=a$", False),
        ("header.none=", False),
        ("header.other=", False),
    ],
)
def test_filter_matches_anywhere_in_the_field(text: str, *, matches: bool) -> None:
    """A missing field never matches."""
    test = record_filter(text)
    assert passes(RECORD, [test]) is matches
    assert not passes(EMPTY, [test])


def test_all_filters_have_to_match() -> None:
    """Without filters every record matches."""
    assert passes(RECORD, [record_filter("key=7"), record_filter("value=two")])
    assert not passes(RECORD, [record_filter("key=7"), record_filter("value=three")])
    assert passes(EMPTY, [])


@pytest.mark.parametrize("text", ["key", "colour=red", "header.=x", "key=("])
def test_bad_filter_is_an_error(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        record_filter(text)
