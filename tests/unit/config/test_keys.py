"""Every key in the tables, compared with a real Kafka."""

from __future__ import annotations

import pytest

from config.key import (
    ConfigKey,
    KeyTable,
    UpdateMode,
    table,
)
from config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    LEGACY_TOPIC_KEYS,
    QUOTA_KEYS,
    TOPIC_KEYS,
)
from config.keys.own import OWN_KEYS, OWN_TOPIC_KEYS
from config.values import Password, parse, to_text
from tests.support.schema_facts import config_facts

TABLES: dict[str, KeyTable] = {
    "broker-configs": {name: row for name, row in BROKER_KEYS.items() if not row.removed and row not in OWN_KEYS},
    "legacy-configs": {name: row for name, row in BROKER_KEYS.items() if row.removed},
    "topic-configs": {name: row for name, row in TOPIC_KEYS.items() if row not in OWN_TOPIC_KEYS},
    "legacy-topic-configs": LEGACY_TOPIC_KEYS,
    "group-configs": GROUP_KEYS,
    "client-metrics-configs": CLIENT_METRICS_KEYS,
    "quota-configs": QUOTA_KEYS,
}

OLDEST = {
    "advertised.host.name",
    "advertised.port",
    "controller.message.queue.size",
    "file.delete.delay.ms",
    "host.name",
    "log.delete.delay.ms",
    "port",
    "replica.lag.max.messages",
    "zookeeper.sync.time.ms",
}
"""Keys in the documents' table (S27) that Kafka 3.9 no longer had."""

CASES = [(name, key) for name in TABLES for key in config_facts(name)]


def shown_default(row: ConfigKey) -> str:
    if row.required:
        return "<required>"
    text = row.default_text
    return "null" if text is None else text or '""'


def shown_synonyms(row: ConfigKey) -> str:
    if row.family:
        return ",".join(name for name in row.family if name != row.name)
    return ",".join(f"{name}*{unit}" if unit > 1 else name for name, unit in row.synonyms)


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_exactly_the_keys_of_kafka(name: str) -> None:
    """S27 and facts: no key is missing or added, except earlier keys and our own."""
    keys = set(TABLES[name])
    if name == "legacy-configs":
        assert keys >= OLDEST
        keys -= OLDEST
    assert set(config_facts(name)) == keys


@pytest.mark.parametrize(("name", "key"), CASES)
def test_row_is_as_in_kafka(name: str, key: str) -> None:
    """Type, default, importance, allowed values, synonyms and the internal flag."""
    fact, row = config_facts(name)[key], TABLES[name][key]

    assert fact["type"] == row.type.name
    assert fact["default"] == shown_default(row)
    assert fact["importance"] == row.importance.value
    assert fact["valid_values"] == (str(row.valid) if row.valid is not None else "")
    assert fact["synonyms"] == shown_synonyms(row)
    assert bool(fact["internal"]) == row.internal


@pytest.mark.parametrize("name", ["broker-configs", "legacy-configs"])
def test_update_modes_are_as_in_kafka(name: str) -> None:
    """KIP-226: which keys may change while the broker runs."""
    facts = config_facts(name)

    assert {key: fact["update_mode"] for key, fact in facts.items()} == {
        key: TABLES[name][key].update_mode.value for key in facts
    }


@pytest.mark.parametrize(
    "row", [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()], ids=lambda r: r.name
)
def test_default_is_a_valid_value(row: ConfigKey) -> None:
    """A default survives writing and reading. A null default has no text."""
    text = row.default_text
    if text is not None and text != "":
        assert row.default == row.read(text)
        assert text == to_text(parse(row.type, text))


@pytest.mark.parametrize("row", [*BROKER_KEYS.values(), *TOPIC_KEYS.values()], ids=lambda r: r.name)
def test_row_has_a_sentence_of_documentation(row: ConfigKey) -> None:
    """Every field has one sentence with a full stop."""
    assert row.doc.endswith(".")
    assert row.doc[0].isupper() or not row.doc[0].isalpha()


def test_earlier_keys_are_replaced_by_current_ones() -> None:
    """The replacement of an earlier key is a current key."""
    for row in BROKER_KEYS.values():
        for name in row.replaced_by:
            assert not BROKER_KEYS[name].removed


def test_broker_defaults_of_topics_exist() -> None:
    """The synonyms of topics' and groups' keys are broker keys."""
    for row in [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        assert all(name in BROKER_KEYS for name, _ in row.synonyms)


def test_dynamic_only_keys_are_not_allowed_in_a_file() -> None:
    """They are dynamic, and not in the broker's table."""
    assert not set(DYNAMIC_ONLY_KEYS) & set(BROKER_KEYS)
    assert {UpdateMode.CLUSTER_WIDE} == {row.update_mode for row in DYNAMIC_ONLY_KEYS.values()}


def test_duplicate_keys_are_an_error() -> None:
    """Otherwise the table would silently lose one of the rows."""
    row = BROKER_KEYS["num.partitions"]
    with pytest.raises(ValueError, match=r"num\.partitions"):
        table((row,), (row._replace(doc="Another."),))


def test_secrets_have_no_text() -> None:
    """A password is neither printed nor described."""
    secret = Password("hush")

    assert "hush" not in repr(secret) + str(secret)
    assert to_text(secret) is None
    assert Password("hush") == secret
