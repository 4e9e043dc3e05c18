"""Random histories of a follower: the fast path of its fetches and the handler answer alike, and learn the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from protocol.messages.fetch import ForgottenTopic
from replication.throttle import UNLIMITED
from tests.support.data_broker import TOPIC_ID
from tests.unit.broker.replication.both_fetch_paths import (
    FOLLOWER,
    PARTITIONS,
    WAIT_MS,
    Follower,
    Leader,
    append,
    lead_again,
    register_again,
)
from tests.unit.broker.replication.follower_client import MANY


class History:
    """Random steps, by a seed."""

    def __init__(self, follower: Follower, seed: int) -> None:
        self.follower = follower
        self.choose = random.Random(seed)
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (10, self.append),
            (12, self.fetch),
            (4, self.pass_time),
            (1, self.fetch_little),
            (1, self.delete),
            (1, self.forget),
            (1, self.lead_again),
            (1, self.change_isr),
            (1, self.register_again),
            (1, self.throttle),
            (1, self.misplace),
            (1, self.begin_again),
        ]

    def step(self) -> None:
        weights = [weight for weight, _ in self.steps]
        self.choose.choices([each for _, each in self.steps], weights)[0]()

    def append(self) -> None:
        indexes = self.choose.sample(range(PARTITIONS), self.choose.randint(1, 3))
        self.follower.do(append(*indexes, size=self.choose.choice([10, 10, 2000, 20_000])))

    def fetch(self, **fields: Any) -> None:
        if not self.follower.waits:
            self.follower.fetch(self.choose.choice([0, WAIT_MS, WAIT_MS]), **fields)

    def fetch_little(self) -> None:
        self.fetch(max_bytes=self.choose.choice([0, 1, 3000]), min_bytes=self.choose.choice([0, 1, 2000]))

    def pass_time(self) -> None:
        milliseconds = self.choose.choice([1, 100, WAIT_MS, 40_000])
        self.follower.do(lambda leader: leader.advance(milliseconds))

    def delete(self) -> None:
        index = self.choose.randrange(PARTITIONS)

        def step(leader: Leader) -> None:
            leader.led[index].delete_records(-1)
            leader.led[index].log_start_raised()

        self.follower.do(step)
        self.follower.starts[index] = self.follower.leaders[0].led[index].log_start_offset
        self.follower.moved.add(index)

    def forget(self) -> None:
        index = self.choose.randrange(PARTITIONS)
        if not self.follower.waits and self.follower.session_epoch:
            self.follower.moved.discard(index)
            self.fetch(forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[index])])
            self.follower.moved.add(index)

    def lead_again(self) -> None:
        self.follower.do(lead_again)
        if self.choose.random() < 0.7:
            self.follower.leader_epoch = self.follower.leaders[0].led[0].leader_epoch
            self.follower.moved = set(range(PARTITIONS))

    def change_isr(self) -> None:
        isr = self.choose.choice([(1,), (1, FOLLOWER)])

        def step(leader: Leader) -> None:
            for each in leader.led:
                at = each.leader.isr.partition_epoch + 1
                each.change(MANY._replace(leader_epoch=each.leader_epoch, isr=isr, partition_epoch=at))

        self.follower.do(step)

    def register_again(self) -> None:
        self.follower.do(register_again)
        if self.choose.random() < 0.7:
            self.follower.broker_epoch = self.follower.leaders[0].epochs[FOLLOWER]

    def throttle(self) -> None:
        rate = self.choose.choice([1, UNLIMITED, UNLIMITED])

        def step(leader: Leader) -> None:
            leader.throttle.set_rate(rate)
            leader.throttle.set_replicas("t", "*")

        self.follower.do(step)

    def misplace(self) -> None:
        """Name an offset or a last epoch that is wrong, or right."""
        index = self.choose.randrange(PARTITIONS)
        if self.follower.waits:
            return
        offset = self.follower.offsets[index]
        self.follower.offsets[index] = max(offset + self.choose.choice([-1, 0, 50]), 0)
        self.follower.moved.add(index)
        self.fetch(last_epochs={index: self.choose.choice([-1, 2, 4, 5, 90])})
        self.follower.do(lambda leader: leader.advance(WAIT_MS))
        self.follower.offsets[index] = offset
        self.follower.moved.add(index)

    def begin_again(self) -> None:
        if not self.follower.waits:
            self.follower.begin_again()


@pytest.mark.parametrize("seed", range(30))
def test_random_histories(follower: Follower, seed: int) -> None:
    history = History(follower, seed)
    for _ in range(80):
        history.step()
