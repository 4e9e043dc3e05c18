"""Both brokers refuse to start with the same settings of tiered storage, and start with the same others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.brokers import KafkaBroker, OurBroker, RunningBroker
from tests.support.recorded_answers import RecordedAnswers
from tests.support.tiered_brokers import TieredKafka, TieredOurs, tiered_properties

#: Differences from a configuration that works; None: the key is missing.
CASES: Mapping[str, Mapping[str, str | None]] = {
    "no storage class": {"remote.log.storage.manager.class.name": None},
    "unknown listener": {"remote.log.metadata.manager.listener.name": "INNER"},
    "no listener": {"remote.log.metadata.manager.listener.name": None},
    "local retention is longer": {"log.retention.ms": "5", "log.local.retention.ms": "6"},
    "copies lag further": {
        "log.retention.ms": "5000000",
        "log.local.retention.ms": "600000",
        "log.remote.copy.lag.ms": "700000",
    },
    "no partitions of the metadata": {"rlmm.config.remote.log.metadata.topic.num.partitions": "0"},
}


class Ours(TieredOurs):
    """pybroker, with exactly these properties."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        OurBroker.__init__(self, directory, properties)


class Kafka(TieredKafka):
    """Apache Kafka, with exactly these properties."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        KafkaBroker.__init__(self, directory, properties)


KINDS: Mapping[str, type[RunningBroker]] = {"ours": Ours, "kafka": Kafka}


@pytest.mark.parametrize("case", CASES)
def test_starts(case: str, tmp_path: Path, recorded: RecordedAnswers) -> None:
    def outcome(kind: str) -> str:
        given = {**tiered_properties(tmp_path / kind / "remote"), **CASES[case]}
        properties = {key: value for key, value in given.items() if value is not None}
        try:
            with KINDS[kind](tmp_path / kind, properties):
                return "starts"
        except AssertionError as error:
            if "the broker ended by itself" not in str(error):
                raise
            return "ends"

    assert outcome("ours") == recorded.of(case, lambda: outcome("kafka"))
