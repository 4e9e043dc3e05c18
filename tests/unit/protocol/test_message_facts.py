"""All schemas compared with Kafka's message definitions (rule 7)."""

from __future__ import annotations

import re
from dataclasses import replace
from keyword import iskeyword

import pytest

from protocol.registry import API_BY_KEY
from tests.support.schema_facts import FieldFact, MessageFact, all_fields, all_messages, load_facts, schema_facts

MESSAGES = all_messages()
CURRENT = {fact.name: fact for fact in load_facts().values()}
OLD = {fact.name: fact for (_, module), fact in load_facts("message-schemas-3.9.1.tsv").items() if not module}

DROPPED_FIELDS = {
    ("ListOffsetsRequest", "topics.partitions.max_num_offsets"),
    ("ListOffsetsResponse", "topics.partitions.old_style_offsets"),
    ("OffsetCommitRequest", "topics.partitions.commit_timestamp"),
    ("DescribeConfigsResponse", "results.configs.is_default"),
    ("AlterPartitionRequest", "topics.topic_name"),
    ("AlterPartitionResponse", "topics.topic_name"),
}
"""Fields of 3.9.1 that only removed versions have, and that Kafka 4 no longer declares."""


RECENT = {fact.name: fact for fact in load_facts("message-schemas-4.3.1.tsv").values()}


def without_prefix(ours: FieldFact, expected: FieldFact) -> FieldFact:
    """Return a fact with Kafka's struct name where request and response clash (RequestTopicData -> TopicData)."""
    name = expected.type.removeprefix("[]")
    return replace(ours, type=expected.type) if name[0].isupper() and ours.type.endswith(name) else ours


def test_messages_are_exactly_those_of_kafka():
    """No message is missing and none is extra."""
    assert set(MESSAGES) == set(CURRENT)


@pytest.mark.parametrize("name", sorted(CURRENT))
def test_schema_equals_kafkas_field_by_field(name: str):
    """Field, type, versions, nullability, tag, default and ignorability, in wire order."""
    expected = OLD[name] if not CURRENT[name].versions else CURRENT[name]
    ours = [fact for fact in schema_facts(MESSAGES[name]) if (name, fact.path) not in DROPPED_FIELDS]

    assert [fact.path for fact in ours] == [fact.path for fact in expected.fields]
    for fact, wanted in zip(ours, expected.fields, strict=True):
        assert without_prefix(fact, wanted) == wanted


@pytest.mark.parametrize("name", sorted(CURRENT))
def test_versions_and_flexible_versions_equal_kafkas(name: str):
    """All versions of 4.4 and the removed ones; flexible from the same version on."""
    message, expected = MESSAGES[name], CURRENT[name]
    if not expected.versions:
        expected = OLD[name]

    assert set(expected.versions) <= set(message.versions)
    assert message.versions.max == expected.versions.max
    assert message.flexible == expected.flexible
    if message.key is not None:
        assert message.key == expected.api_key


def layout(fields: tuple[FieldFact, ...], version: int) -> list[tuple[str, str, bool, int | None]]:
    """Return the fields of one version: path, type and encoding."""
    present: list[tuple[str, str, bool, int | None]] = []
    absent: tuple[str, ...] = ()
    for fact in fields:
        if version not in fact.versions or fact.path.startswith(absent):
            absent = (*absent, f"{fact.path}.")
            continue
        kind = re.sub(r"[A-Z]\w*", "struct", fact.type)
        present.append((fact.path, kind, version in fact.nullable, fact.tag))
    return present


RENAMED = {
    "VoteRequest": {
        "candidate_epoch": "replica_epoch",
        "candidate_id": "replica_id",
        "candidate_directory_id": "replica_directory_id",
    },
    "TxnOffsetCommitRequest": {"generation_id": "generation_id_or_member_epoch"},
    "StreamsGroupHeartbeatResponse": {"acceptable_recovery_lag": "acceptable_recovery_lag_legacy"},
}
"""Fields that had other names in older releases, by message: the old name and today's."""


def older_layout(old: MessageFact, version: int) -> list[tuple[str, str, bool, int | None]]:
    """Return the layout of an older release's version with today's names."""
    names = RENAMED.get(old.name, {})
    return [(".".join(names.get(p, p) for p in f[0].split(".")), *f[1:]) for f in layout(old.fields, version)]


@pytest.mark.parametrize("name", sorted(name for name in OLD if name in CURRENT and "Share" not in name))
def test_versions_of_3_9_have_the_layout_of_3_9(name: str):
    """Versions that 4.x removed have the layout of 3.9 (except share groups, which were experimental then)."""
    ours, old = tuple(schema_facts(MESSAGES[name])), OLD[name]
    for version in set(old.versions) & set(MESSAGES[name].versions):
        assert layout(ours, version) == older_layout(old, version), f"v{version}"


@pytest.mark.parametrize("name", sorted(RECENT))
def test_versions_of_4_3_have_the_layout_of_4_3(name: str):
    """A newer release added versions and tagged fields. It left the bytes of the older versions as they were."""
    ours, recent = tuple(schema_facts(MESSAGES[name])), RECENT[name]
    for version in recent.versions:
        expected = older_layout(recent, version)
        found = [fact for fact in layout(ours, version) if fact not in expected]
        assert [fact for fact in layout(ours, version) if fact in expected] == expected, f"v{version}"
        assert all(tag is not None for *_, tag in found), f"v{version}"


def test_all_removed_versions_are_described():
    """Every version of a client API in 3.9 is described, except early access versions."""
    for name, old in OLD.items():
        if name in MESSAGES and "Share" not in name:
            assert set(old.versions) <= set(MESSAGES[name].versions), name


def test_current_versions_are_those_of_kafka():
    """Api.current is empty for removed APIs and excludes a newest version that is not stable."""
    for api in API_BY_KEY.values():
        expected = CURRENT[f"{api.name}Request"].versions
        if api.name == "InitProducerId":
            assert (api.current.min, api.current.max) == (0, 5)
        else:
            assert api.current == expected, api.name


def test_request_and_response_have_the_same_versions():
    """A response has the version of its request."""
    for api in API_BY_KEY.values():
        assert api.request.versions == api.response.versions == api.versions
        assert api.request.flexible == api.response.flexible


def test_tags_are_unique_and_only_in_flexible_versions():
    """A tag in a version without tagged fields could not be encoded."""
    for message in MESSAGES.values():
        for field in all_fields(message):
            if field.tag is not None:
                for version in message.versions:
                    assert version not in field.versions or version in message.flexible, (message, field)


def test_field_names_are_attributes():
    """No field is a Python keyword or hides an attribute of values."""
    for message in MESSAGES.values():
        for field in all_fields(message):
            assert field.name.isidentifier(), field
            assert not iskeyword(field.name), field
            assert field.name != "struct_type", message


def test_facts_are_those_of_a_message():
    """The reader of the tables returns a known row."""
    fact: MessageFact = CURRENT["ProduceRequest"]

    assert fact.fields[0].path == "transactional_id"
    assert fact.fields[0].default is None
