"""Names of releases, and the features of a new cluster of each."""

from __future__ import annotations

import csv

import pytest

from metadata.features import BOOTSTRAP_FEATURES, MAX_METADATA_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from metadata.releases import DEFAULT_RELEASE, RELEASES, first_features, level_of, release_name
from tests.support.schema_facts import FACTS


@pytest.mark.parametrize(
    ("release", "level"),
    [("3.3-IV3", 7), ("3.5", 11), ("3.9", 21), ("4.0-IV1", 23), ("4.0", 25), ("4.3", 30), ("4.4-IV0", 31), ("4.4", 33)],
)
def test_levels(release: str, level: int) -> None:
    """A release without its IV means the newest one."""
    assert level_of(release) == level


def test_names_and_levels_agree() -> None:
    """Up to the newest supported level."""
    assert [release_name(level_of(name)) for name in RELEASES] == list(RELEASES)
    assert level_of(RELEASES[-1]) == MAX_METADATA_VERSION


@pytest.mark.parametrize("release", ["2.8", "9.9", "", "IV0", "4"])
def test_unknown_release(release: str) -> None:
    """Names that no current KRaft cluster can have."""
    with pytest.raises(KeyError):
        level_of(release)


def test_default_release_has_the_features_of_formatting() -> None:
    """The same features in the same order. Apache Kafka 4.3 opens new directories."""
    assert DEFAULT_RELEASE == "4.3-IV0"
    assert list(first_features(level_of(DEFAULT_RELEASE)).items()) == list(BOOTSTRAP_FEATURES.items())


def test_levels_are_those_of_kafka() -> None:
    """Each level of each feature that is final in the recorded release, and the release that begins with it."""
    with open(FACTS / "features.tsv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    final = [row for row in rows if row["feature"] == METADATA_VERSION and row["latest_production"] == "true"]
    assert [(row["name"], int(row["level"])) for row in final] == [(name, level_of(name)) for name in RELEASES]
    for row in rows:
        name, level = row["feature"], int(row["level"])
        if name != METADATA_VERSION:
            assert SUPPORTED_FEATURES[name] == (0, int(row["latest_production"]))
        if name not in (METADATA_VERSION, "kraft.version") and level:
            before = first_features(level_of(row["bootstrap_metadata_version"]) - 1).get(name, 0)
            assert before < level <= first_features(level_of(row["bootstrap_metadata_version"]))[name]


@pytest.mark.parametrize(
    ("level", "features"),
    [
        (21, {}),
        (22, {"group.version": 1}),
        (24, {"group.version": 1, "transaction.version": 2}),
        (33, {**BOOTSTRAP_FEATURES, "share.version": 2}),
        (26, {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_older_release_has_fewer_features(level: int, features: dict[str, int]) -> None:
    """Features that the release did not have are off."""
    assert first_features(level) == {**features, "metadata.version": level}


def test_overrides_turn_features_on_and_off() -> None:
    assert first_features(21, {"transaction.version": 1}) == {"metadata.version": 21, "transaction.version": 1}
    assert "group.version" not in first_features(30, {"group.version": 0})
