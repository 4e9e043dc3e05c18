"""Text as Java prints it."""

from __future__ import annotations

import re

import pytest

from protocol.messages.cluster_metadata import METADATA_RECORDS, FeatureLevelRecord, NoOpRecord, PartitionChangeRecord
from protocol.messages.coordinator import GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS
from protocol.messages.data import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from protocol.schema import Array, StructType
from tests.support.schema_facts import FACTS
from tools.data.java_text import (
    JsonValue,
    constant_name,
    decode,
    double,
    json_name,
    message_json,
    optional_long,
    to_json,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("中ü".encode(), "中ü"),
        (b"a\xffb\xc0\x80", "a\ufffdb\ufffd\ufffd"),
        (b"\xe4\xb8", "\ufffd"),
        (b"\xed\xa0\x80x", "\ufffdx"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xbf\xed\x90\x80", "\ufffd\ud400"),
        (b"\xed\xa0\xc1", "\ufffd\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
    ],
)
def test_invalid_utf8_is_replaced_as_by_java(data: bytes, text: str) -> None:
    """An encoded surrogate is one malformed sequence in Java and three in Python."""
    assert decode(data) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (1024.0, "1024.0"),
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.0, "1.2345678E7"),
        (-1.5e300, "-1.5E300"),
        (1e-7, "1.0E-7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    """Decimals up to ten million, exponents beyond."""
    assert double(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": None, "b": [1, True, "x"]}, '{"a":null,"b":[1,true,"x"]}'),
        ('"\\\n\x1f\x7fü', '"\\"\\\\\\n\\u001F\x7fü"'),
        (1e7, "1.0E7"),
    ],
)
def test_json_strings(value: JsonValue, text: str) -> None:
    """No spaces. Only quotes, backslashes and control characters are escaped."""
    assert to_json(value) == text


def test_optional_long() -> None:
    assert (optional_long(None), optional_long(3)) == ("OptionalLong.empty", "OptionalLong[3]")


def test_tagged_fields_with_defaults_are_left_out() -> None:
    """Other fields are always there, except those of later versions."""
    record = PartitionChangeRecord(partition_id=1, leader=2, eligible_leader_replicas=[])
    found = message_json(PartitionChangeRecord, 2, record)
    assert found == {
        "partitionId": 1,
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
        "leader": 2,
        "eligibleLeaderReplicas": [],
    }
    older = message_json(PartitionChangeRecord, 0, record)
    assert isinstance(older, dict)
    assert "eligibleLeaderReplicas" not in older


def test_constants_have_names_of_kafkas_enums() -> None:
    assert [constant_name(message) for message in (FeatureLevelRecord, NoOpRecord)] == [
        "FEATURE_LEVEL_RECORD",
        "NO_OP_RECORD",
    ]


def names(struct: StructType) -> set[str]:
    """Return the names of a struct's fields in JSON, nested ones included."""
    found = set()
    for field in struct.fields:
        found.add(json_name(field))
        kind = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(kind, StructType):
            found |= names(kind)
    return found


def test_names_are_those_of_kafkas_schemas() -> None:
    """Every field of every record that a dump may show, with its first letter in lower case."""
    known: dict[str, set[str]] = {}
    for line in (FACTS / "message-schemas.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        columns = line.split("\t")
        message, path = columns[0], columns[6]
        name = re.sub(r"[^\w]", "", path.split(".")[-1])
        known.setdefault(message, set()).add(name[:1].lower() + name[1:])
    messages = [*METADATA_RECORDS.values(), KRaftVersionRecord, LeaderChangeMessage, VotersRecord]
    for records in (GROUP_RECORDS, TRANSACTION_RECORDS, SHARE_STATE_RECORDS):
        messages += [message for pair in records.values() for message in pair]
    for message in messages:
        wrong = names(message) - known.get(message.name, set())
        assert not wrong or message.name.startswith("Legacy"), (message.name, wrong)
