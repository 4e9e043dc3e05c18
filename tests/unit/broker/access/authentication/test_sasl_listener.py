"""A SCRAM exchange does not reveal to an unauthenticated client whether a user exists."""

from __future__ import annotations

import pytest

from broker.access.authentication.sasl_listener import _iterations_at, changing_keys
from metadata.image import MetadataImage
from metadata.replay import replay_all
from metadata.scram import credential_record
from security.sasl.scram_credential import MIN_ITERATIONS, ScramMechanism

SHA_256, SHA_512 = ScramMechanism


def image(**iterations: int) -> MetadataImage:
    """Several users of SCRAM-SHA-256, and one of SCRAM-SHA-512."""
    made = MetadataImage()
    records = [credential_record(25, name, SHA_256, b"salted", b"salt", count) for name, count in iterations.items()]
    records.append(credential_record(25, "other", SHA_512, b"salted", b"salt", 16_000))
    replay_all(made, records)
    return made


@pytest.mark.parametrize(
    ("place", "iterations"), [(0.0, 4096), (0.49, 4096), (0.5, 8192), (0.74, 8192), (0.75, 9000), (0.999, 9000)]
)
def test_unknown_users_get_the_iterations_of_real_users(place: float, iterations: int) -> None:
    assert _iterations_at(image(a=8192, b=4096, c=9000, d=4096), SHA_256, place) == iterations


def test_without_any_users() -> None:
    assert _iterations_at(image(), SHA_256, 0.5) == MIN_ITERATIONS
    assert _iterations_at(image(), SHA_512, 0.5) == 16_000


def test_the_keys_of_all_listeners_are_watched() -> None:
    """For each mechanism and password, whatever part of the listener's name sets them."""
    assert changing_keys(name for name in ("IN", "OUT")) == {
        "sasl.enabled.mechanisms",
        "listener.name.in.sasl.enabled.mechanisms",
        "listener.name.in.plain.sasl.jaas.config",
        "listener.name.out.sasl.enabled.mechanisms",
        "listener.name.out.plain.sasl.jaas.config",
    }
