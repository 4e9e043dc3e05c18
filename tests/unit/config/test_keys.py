"""Every row of the tables against what a real Kafka says of the same key."""

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
from tests.support.config_facts import config_facts

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
"""Keys of the documents' table (S27) that were gone before Kafka 3.9."""

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
    """S27 and facts: no key is missing, none is invented (but for older and own ones)."""
    keys = set(TABLES[name])
    if name == "legacy-configs":
        assert keys >= OLDEST
        keys -= OLDEST
    assert set(config_facts(name)) == keys


@pytest.mark.parametrize(("name", "key"), CASES)
def test_row_is_as_in_kafka(name: str, key: str) -> None:
    """Type, default, importance, allowed values, synonyms and the internal mark."""
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
def test_default_is_a_value_that_may_be_given(row: ConfigKey) -> None:
    """A default survives being written out and read again; where it is null there is nothing to read."""
    text = row.default_text
    if text is not None and text != "":
        assert row.default == row.read(text)
        assert text == to_text(parse(row.type, text))


@pytest.mark.parametrize("row", [*BROKER_KEYS.values(), *TOPIC_KEYS.values()], ids=lambda r: r.name)
def test_row_has_a_sentence_of_documentation(row: ConfigKey) -> None:
    """Every field is explained: one sentence with a full stop."""
    assert row.doc.endswith(".")
    assert row.doc[0].isupper() or not row.doc[0].isalpha()


def test_former_names_lead_to_keys_of_today() -> None:
    """What takes over the value of an old key is a key that is not old itself."""
    for row in BROKER_KEYS.values():
        for name in row.replaced_by:
            assert not BROKER_KEYS[name].removed


def test_broker_defaults_of_topics_exist() -> None:
    """The synonyms of topics' and groups' keys are keys of the broker."""
    for row in [*TOPIC_KEYS.values(), *GROUP_KEYS.values()]:
        assert all(name in BROKER_KEYS for name, _ in row.synonyms)


def test_dynamic_only_keys_can_not_stand_in_a_file() -> None:
    """They are dynamic, and no rows of the broker's table."""
    assert not set(DYNAMIC_ONLY_KEYS) & set(BROKER_KEYS)
    assert {UpdateMode.CLUSTER_WIDE} == {row.update_mode for row in DYNAMIC_ONLY_KEYS.values()}


def test_a_key_in_two_files_is_noticed() -> None:
    """The table would silently lose one of two rows."""
    row = BROKER_KEYS["num.partitions"]
    with pytest.raises(ValueError, match=r"num\.partitions"):
        table((row,), (row._replace(doc="Another."),))


def test_secrets_have_no_text() -> None:
    """A password neither prints nor describes itself."""
    secret = Password("hush")

    assert "hush" not in repr(secret) + str(secret)
    assert to_text(secret) is None
    assert Password("hush") == secret
