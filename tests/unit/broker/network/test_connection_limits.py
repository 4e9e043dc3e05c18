"""Limits on the number of connections (KIP-402, KIP-612)."""

from broker.network.connection_limits import UNLIMITED, ConnectionLimits, CreationRate
from tests.support.fake_loop import FakeClock


def test_listener_is_full_at_max_connections():
    """Others wait in the listen queue until one ends."""
    limits = ConnectionLimits()
    limits.max_connections = 2
    for _ in range(2):
        assert not limits.listener_is_full("PLAINTEXT")
        limits.opened("PLAINTEXT", "10.0.0.1")

    assert limits.listener_is_full("PLAINTEXT")
    limits.closed("PLAINTEXT", "10.0.0.1")
    assert not limits.listener_is_full("PLAINTEXT")


def test_inter_broker_listener_exceeds_the_total():
    """Brokers reach each other although clients take all connections."""
    limits = ConnectionLimits(protected_listener="INTERNAL")
    limits.max_connections = 1
    limits.opened("PLAINTEXT", "10.0.0.1")

    assert limits.listener_is_full("PLAINTEXT")
    assert not limits.listener_is_full("INTERNAL")
    assert not limits.exceeded
    limits.opened("INTERNAL", "10.0.0.2")
    assert limits.exceeded


def test_listener_may_have_its_own_limit():
    """listener.name.X.max.connections."""
    limits = ConnectionLimits(protected_listener="INTERNAL")
    limits.max_connections_of_listener = {"INTERNAL": 1}
    limits.opened("INTERNAL", "10.0.0.1")

    assert limits.listener_is_full("INTERNAL")
    assert not limits.listener_is_full("PLAINTEXT")


def test_addresses_have_a_limit_with_overrides():
    """max.connections.per.ip and its overrides."""
    limits = ConnectionLimits()
    limits.max_connections_per_ip = 1
    limits.max_connections_per_ip_overrides = {"10.0.0.2": 2, "10.0.0.3": 0}
    for address in ("10.0.0.1", "10.0.0.2"):
        limits.opened("PLAINTEXT", address)

    assert [limits.address_is_full(f"10.0.0.{n}") for n in (1, 2, 3, 4)] == [True, False, True, False]
    limits.closed("PLAINTEXT", "10.0.0.1")
    assert not limits.address_is_full("10.0.0.1")


def test_creation_rate_allows_a_burst_of_a_second():
    """max.connection.creation.rate."""
    clock = FakeClock()
    rate = CreationRate(10, clock.monotonic_ms)
    assert [rate.delay_ms() for _ in range(10)] == [0] * 10
    assert rate.delay_ms() == 100

    clock.advance(100)
    assert rate.delay_ms() == 0
    assert rate.delay_ms() > 0
    clock.advance(3_600_000)
    assert [rate.delay_ms() for _ in range(10)] == [0] * 10
    rate.give_back()
    assert rate.delay_ms() == 0


def test_creation_rate_unlimited_and_zero():
    """The default accepts all connections, 0 accepts none."""
    clock = FakeClock()
    assert CreationRate(UNLIMITED, clock.monotonic_ms).delay_ms() == 0
    assert CreationRate(0, clock.monotonic_ms).delay_ms() == 1000


def test_descriptors_limit_every_listener():
    """The limit applies to the listener that may exceed max.connections."""
    limits = ConnectionLimits("INTERNAL")
    limits.max_descriptors = 2
    limits.opened("INTERNAL", "127.0.0.1")
    assert not limits.listener_is_full("INTERNAL")
    limits.opened("EXTERNAL", "127.0.0.1")
    assert limits.listener_is_full("INTERNAL")
    assert limits.listener_is_full("EXTERNAL")
