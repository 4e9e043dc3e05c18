"""kill -9 under a share group: no record is lost, and no acknowledged record is delivered again."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import HOST, OurBroker
from tests.support.data_client import batch
from tests.support.scale import scaled
from tests.support.share_client import SHARE_PROPERTIES, ShareClient, member_of

NAME = "shared"  # of the group and of its topic


def test_kill_loses_and_repeats_no_acknowledged_record(tmp_path: Path) -> None:
    """Acquired and released records are delivered again, accepted and rejected ones are not. Several kills."""
    broker = OurBroker(tmp_path, SHARE_PROPERTIES)
    count, kills = min(scaled(200, at_least=20), 2_000), 3  # as many as a member may have locked at a time
    done: set[int] = set()
    try:
        with member_of(broker, NAME) as client:
            for _ in range(count // 10):
                client.produce(NAME, batch(*[b"v%d" % number for number in range(10)]))
            client.join(NAME)
            topic_id = client.topic_id
        for kill in range(kills):
            with ShareClient(HOST, broker.port) as client:
                client.group, client.topic_id, client.member = NAME, topic_id, f"member-{kill}"
                given: list[int] = []
                while acquired := client.acquire(most=count, wait_ms=500 if given else 60_000):
                    given += [offset for first, last, _ in acquired for offset in range(first, last + 1)]
                assert not done.intersection(given)
                assert len(given) == len(set(given)) == count // 10 * 10 - len(done)
                for place, offset in enumerate(given[:: kills - kill + 1]):
                    kind = (1, 3, 2)[place % 3]
                    assert client.acknowledge((offset, offset, [kind])) == "NONE ['0 NONE None']"
                    if kind != 2:
                        done.add(offset)
                broker.kill()
            broker.start()
        with ShareClient(HOST, broker.port) as client:
            client.group, client.topic_id, client.member = NAME, topic_id, "last"
            left: list[int] = []
            while acquired := client.acquire(most=count, wait_ms=500 if left else 60_000):
                left += [offset for first, last, _ in acquired for offset in range(first, last + 1)]
            assert sorted({*left, *done}) == list(range(count // 10 * 10))
            assert not done.intersection(left)
    finally:
        broker.stop()
