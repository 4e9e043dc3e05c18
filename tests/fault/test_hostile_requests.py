"""Any value in any field of any request: the broker answers by the schema or disconnects; other clients notice nothing.

Each API and version that the broker serves has the same number of requests: 100,000 in all at the full size.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from protocol.schema import Api
from tests.support.brokers import OurBroker
from tests.support.good_client import GoodThread
from tests.support.hostile import Hostile, hostile_requests
from tests.support.hostile_client import MAY_CLOSE, PROPERTIES, HostileClient, Outcome, prepared
from tests.support.processes import open_descriptors, resident_bytes
from tests.support.scale import SCALE, scaled

CONNECTIONS = 8
#: Requests for each API and version, in each of two rounds: 275 of them make some 2,200 requests, 110,000 in full.
EACH = min(scaled(4), 200)
#: How much the second round may add to the broker's memory: requests leave nothing behind.
GROWTH_BYTES = 24 << 20


pytestmark = pytest.mark.broker(OurBroker, PROPERTIES)


class Log:
    """The broker's output while it receives requests."""

    def __init__(self, broker: OurBroker) -> None:
        self._path = broker.directory / "output.txt"
        self._read = 0

    def check(self, request: Hostile) -> None:
        """The broker has logged no error since the last call."""
        if (size := self._path.stat().st_size) == self._read:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            found = file.read().decode(errors="replace")
        self._read = size
        assert "Traceback" not in found, f"{request}:\n{found}"
        assert " ERROR " not in found, f"{request}:\n{found}"


def send_round(
    client: HostileClient, log: Log, served: Sequence[tuple[Api, int]], topic_ids: Sequence[bytes], number: int
) -> None:
    """Return that many requests of each API and version: the same in every run, different in each round."""
    for place, (api, version) in enumerate(served):

        @seed(number * len(served) + place)
        @settings(
            max_examples=EACH,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(hostile_requests(api, version, topic_ids))
        def is_met(request: Hostile) -> None:
            outcome = client.send(request)
            log.check(request)
            may_close = request.damaged or request.api in MAY_CLOSE
            assert may_close or outcome is not Outcome.CLOSED, f"{request} is not answered"

        is_met()


def test_hostile_requests_are_answered_and_others_do_not_notice(broker: OurBroker) -> None:
    """No traceback, no error in the log. A good client reads all its records. Memory stays as after the first half."""
    good = GoodThread(broker.port)
    good.start()
    served, topic_ids = prepared(broker.port)
    client, log = HostileClient(broker.port, CONNECTIONS), Log(broker)
    send_round(client, log, served, topic_ids, 0)
    broker.catch_up()
    memory, descriptors = resident_bytes(broker.pid), open_descriptors(broker.pid)
    send_round(client, log, served, topic_ids, 1)
    broker.catch_up()
    growth = resident_bytes(broker.pid) - memory
    print(f"{dict(client.outcomes)}; {growth >> 10} KiB more, {open_descriptors(broker.pid) - descriptors} descriptors")
    client.close()
    found = good.finish()
    print(f"good client: {len(found.times_ms)} answers, p99 {found.p99_ms():.1f} ms, worst {found.worst_ms():.1f} ms")
    assert growth < GROWTH_BYTES * max(1.0, SCALE / 10)
    assert client.outcomes[Outcome.ANSWERED] > len(served)
    assert broker.stop() == 0
