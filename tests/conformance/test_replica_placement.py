"""Replicas are placed exactly as by the controller of Apache Kafka, if both have the same chance."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from metadata.striped_placer import StripedPlacer, UsableBroker
from tests.support.java import JavaRunner
from tests.support.scale import scaled

SEED = 36


class Sequence:
    """Chance that the Java program repeats."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, bound: int) -> int:
        self._state = (self._state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self._state >> 8) % bound


def cluster(random: Random) -> dict[str, Any]:
    """Return racks and brokers, some of which are fenced, and what to place."""
    racks = random.choice([[None], ["a", "b"], ["a", "b", "c", None], ["a"]])
    count = random.randint(1, 9)
    brokers = [[each, random.choice(racks), random.random() < 0.25] for each in random.sample(range(20), count)]
    brokers[0][2] = False
    return {
        "brokers": brokers,
        "partitions": random.randint(1, 30),
        "factor": random.randint(1, count),
        "seed": random.randrange(2**30),
    }


def test_replicas_are_placed_as_by_kafka(java: JavaRunner) -> None:
    random = Random(SEED)
    asked = [cluster(random) for _ in range(scaled(500))]
    done = java.run("PlaceReplicas", stdin="".join(json.dumps(each) + "\n" for each in asked))
    assert done.exit_code == 0, done.stderr
    for each, line in zip(asked, done.stdout.splitlines(), strict=True):
        placer = StripedPlacer([UsableBroker(*broker) for broker in each["brokers"]], Sequence(each["seed"]).below)
        assert [list(placer.place(each["factor"])) for _ in range(each["partitions"])] == json.loads(line), each
