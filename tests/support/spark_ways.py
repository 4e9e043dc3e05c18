"""Spark's two ways of asking for offsets: an admin client, as usual, or a consumer that joins a group."""

from __future__ import annotations

import pytest

from tests.support.scale import COSTLY_BROKERS, SCALE

#: selects the way: true (consumer) or false
KEY = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
WAYS = ("admin", "consumer")


def _cases(brokers: list[str]) -> list[tuple[str, str]]:
    """Return brokers and ways; at the small sizes a consumer runs only against ours."""
    cases = [(broker, way) for broker in brokers for way in WAYS]
    return [case for case in cases if SCALE > 1 or case != ("kafka", "consumer")]


#: for tests with the fixtures `reference` and `way`
BOTH_WAYS = pytest.mark.parametrize(("reference", "way"), _cases(["ours", "kafka"]), indirect=True)
COSTLY_BOTH_WAYS = pytest.mark.parametrize(("reference", "way"), _cases(COSTLY_BROKERS), indirect=True)
