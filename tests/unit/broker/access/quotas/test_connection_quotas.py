"""Limits on the connections a second from one IP address."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.access.quotas.addresses import numeric, resolved
from broker.access.quotas.connection_quotas import ConnectionQuotas
from metadata.delta import Delta
from metadata.image import MetadataImage
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeClock

RATE = "connection_creation_rate"


class Fixture:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.clock = FakeClock()
        self.server: Any = SimpleNamespace(connection_quotas=None)
        self.lookups = Lookups()
        config: Any = SimpleNamespace(get_int={"quota.window.num": 3, "quota.window.size.seconds": 1}.__getitem__)
        self.quotas = ConnectionQuotas(config, self.image, self.server, self.clock, self.lookups)  # type: ignore[arg-type]

    def set(self, name: str | None, rate: float | None) -> None:
        if rate is None:
            del self.image.client_quotas[(("ip", name),)]
        else:
            self.image.client_quotas[(("ip", name),)] = {RATE: rate}
        self.quotas.on_change(Delta(changed_quotas=True))

    def come(self, address: str, times: int = 1) -> int:
        """Count the accepted connections."""
        return sum(1 for _ in range(times) if not self.quotas.wait_ms(address))


class Lookups:
    """Resolves hosts at once. With `held`, the test runs the jobs in `waiting`."""

    held = False

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, function: Callable[[Any], Any], hosts: frozenset[str]) -> Deferred[Any]:
        self.asked.append(hosts)
        done: Deferred[Any] = Deferred()
        self.waiting.append(lambda: done.resolve(function(hosts)))
        if not self.held:
            self.waiting.pop()()
        return done


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_an_address_has_its_own_quota_or_the_default(fixture: Fixture) -> None:
    """Two windows' worth pass at once, for each address separately. Rejected connections do not count."""
    fixture.set(None, 2.0)
    fixture.set("192.0.2.1", 5.0)
    assert fixture.come("192.0.2.1", 50) == 10
    assert fixture.come("192.0.2.2", 50) == 4
    assert fixture.come("192.0.2.3", 50) == 4
    assert 0 < fixture.quotas.wait_ms("192.0.2.3") <= 1000
    fixture.clock.advance(3000)
    assert fixture.come("192.0.2.2", 50) == 4
    fixture.set(None, None)
    assert fixture.come("192.0.2.2", 50) == 50


def test_without_quotas_addresses_are_not_checked(fixture: Fixture) -> None:
    assert fixture.server.connection_quotas is None
    fixture.set(None, 2.0)
    assert fixture.server.connection_quotas is fixture.quotas
    fixture.set(None, None)
    assert fixture.server.connection_quotas is None


def test_a_host_name_counts_by_its_address(fixture: Fixture) -> None:
    fixture.set("localhost", 1.0)
    assert fixture.come("127.0.0.1", 9) + fixture.come("::1", 9) == 11


def test_a_late_host_look_up_sets_no_removed_quota(fixture: Fixture) -> None:
    fixture.set("192.0.2.1", 1.0)
    fixture.lookups.held = True
    fixture.set("localhost", 1.0)
    fixture.set("localhost", None)
    for find in fixture.lookups.waiting:
        find()
    assert fixture.come("127.0.0.1", 9) + fixture.come("::1", 9) == 18


def test_other_quotas_do_not_affect_those_of_hosts(fixture: Fixture) -> None:
    """Client quotas resolve no host. When another address's quota changes, a host keeps its addresses."""
    fixture.set("localhost", 1.0)
    fixture.lookups.held = True
    fixture.image.client_quotas[(("user", "u"),)] = {"producer_byte_rate": 1.0}
    fixture.quotas.on_change(Delta(changed_quotas=True))
    assert fixture.lookups.asked == [frozenset({"localhost"})]
    fixture.set("192.0.2.1", 1.0)
    assert len(fixture.lookups.asked) == 2
    assert fixture.come("127.0.0.1", 9) + fixture.come("::1", 9) == 11


def test_counted_connections_stay_when_a_quota_changes(fixture: Fixture) -> None:
    fixture.set(None, 2.0)
    assert fixture.come("192.0.2.1", 9) == 4
    fixture.set("192.0.2.2", 1.0)
    assert fixture.come("192.0.2.1", 9) == 0
    fixture.set(None, 3.0)
    assert fixture.come("192.0.2.1", 9) == 2


def test_names_of_addresses() -> None:
    assert numeric("::ffff:192.0.2.1") == "192.0.2.1"
    assert numeric("2001:DB8:0::1") == "2001:db8::1"
    assert numeric("localhost") is None
    assert resolved(frozenset({"no such host", "."})) == {}
