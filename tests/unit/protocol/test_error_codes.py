"""Error codes compared with Kafka's."""

from __future__ import annotations

import csv

from protocol.error_codes import ErrorCode
from tests.support.schema_facts import FACTS


def test_error_codes_are_those_of_kafka():
    """Code, name, and whether a client should retry."""
    with open(FACTS / "error-codes.tsv", encoding="utf-8", newline="") as file:
        expected = [(int(r["code"]), r["name"], r["retriable"] == "true") for r in csv.DictReader(file, delimiter="\t")]

    assert expected == [(code.value, code.name, code.retriable) for code in ErrorCode]


def test_error_codes_of_older_releases_are_kept():
    """Code and name."""
    for release in ("3.9.1", "4.3.1"):
        with open(FACTS / f"error-codes-{release}.tsv", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                assert ErrorCode(int(row["code"])).name == row["name"]


def test_error_codes_have_texts_of_their_own():
    """Each is a sentence."""
    texts = [code.text for code in ErrorCode]

    assert all(text.endswith(".") for text in texts)
    assert len(set(texts)) == len(texts)
    assert ErrorCode.NONE == 0
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
