"""Parse options that name partitions, in the JSON of Spark's Kafka source."""

from __future__ import annotations

import json

from pybroker.source.bounds import TopicPartition
from pybroker.source.errors import UnusableOption


def offsets_by_partition(text: str, name: str) -> dict[TopicPartition, int]:
    """Parse offsets or times such as `{"orders": {"0": 23, "1": -2}}`. Errors: UnusableOption, naming the option."""
    try:
        return {
            (topic, int(partition)): int(value)
            for topic, partitions in json.loads(text).items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise UnusableOption(f'{name}: {text!r} is not of the form {{"topic": {{"0": 23, "1": -2}}}}') from None


def assigned_partitions(text: str) -> list[TopicPartition]:
    """Parse partitions such as `{"orders": [0, 2]}`, each at most once. Errors: UnusableOption."""
    try:
        found = ((topic, int(each)) for topic, partitions in json.loads(text).items() for each in partitions)
        return list(dict.fromkeys(found))
    except (ValueError, AttributeError, TypeError):
        raise UnusableOption(f'assign: {text!r} is not of the form {{"topic": [0, 1]}}') from None
