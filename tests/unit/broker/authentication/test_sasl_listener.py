"""What a listener with SASL asks: when it is made anew."""

from __future__ import annotations

from broker.authentication.sasl_listener import changing_keys


def test_the_keys_of_all_listeners_are_watched() -> None:
    """Of mechanisms and of passwords, whatever the names come from."""
    assert changing_keys(name for name in ("IN", "OUT")) == {
        "sasl.enabled.mechanisms",
        "listener.name.in.sasl.enabled.mechanisms",
        "listener.name.in.plain.sasl.jaas.config",
        "listener.name.out.sasl.enabled.mechanisms",
        "listener.name.out.plain.sasl.jaas.config",
    }
