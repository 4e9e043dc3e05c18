"""SCRAM credentials as records, with Kafka's errors."""

from __future__ import annotations

import pytest

from metadata.features import METADATA_VERSION
from metadata.image import MetadataImage
from metadata.replay import replay_all
from metadata.scram import Altered, Deletion, Described, Upsertion, alter_credentials, describe_credentials
from protocol.error_codes import ErrorCode

SHA_256, SHA_512 = 1, 2


def image_of(level: int = 30) -> MetadataImage:
    return MetadataImage(features={METADATA_VERSION: level})


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, b"salt", bytes(32))


def alter(image: MetadataImage, *changes: Upsertion | Deletion) -> list[Altered]:
    decision = alter_credentials(
        image,
        [each for each in changes if isinstance(each, Deletion)],
        [each for each in changes if isinstance(each, Upsertion)],
    )
    replay_all(image, decision.records)
    return decision.results


def test_set_describe_and_delete() -> None:
    """By user and mechanism; the stored value differs from the one that was sent."""
    image = image_of()
    assert alter(image, upsertion("alice"), upsertion("bob", SHA_512, 8192)) == [Altered("alice"), Altered("bob")]
    assert alter(image, upsertion("alice", SHA_512)) == [Altered("alice")]
    stored = image.scram_credentials["alice", SHA_256]
    assert (stored.salt, stored.iterations) == (b"salt", 4096)
    assert bytes(32) not in (stored.stored_key, stored.server_key)
    both = Described("alice", ((SHA_256, 4096), (SHA_512, 4096)))
    assert describe_credentials(image, None) == [both, Described("bob", ((SHA_512, 8192),))]
    assert describe_credentials(image, []) == describe_credentials(image, None)

    assert alter(image, Deletion("alice", SHA_256)) == [Altered("alice")]
    assert describe_credentials(image, ["alice"]) == [Described("alice", ((SHA_512, 4096),))]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (upsertion("a", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("a", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("a", mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (Deletion("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (
            Deletion("a", SHA_256),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_rejected_changes(change: Upsertion | Deletion, code: ErrorCode, message: str) -> None:
    assert alter(image_of(), change) == [Altered(change.user, code, message)]


def test_a_user_is_altered_once() -> None:
    """Two changes of a user are rejected even if their mechanisms differ; a third adds no second error."""
    image = image_of()
    alter(image, upsertion("a"))
    message = "A user credential cannot be altered twice in the same request"
    twice = [Altered("a", ErrorCode.DUPLICATE_RESOURCE, message)]
    assert alter(image, Deletion("a", SHA_256), upsertion("a", SHA_512)) == twice
    assert alter(image, upsertion("a"), upsertion("a", SHA_512), upsertion("a", 0)) == twice
    assert describe_credentials(image, ["a", "a"])[0].error_code is ErrorCode.DUPLICATE_RESOURCE
    assert list(image.scram_credentials) == [("a", SHA_256)]


def test_older_metadata_rejects_scram() -> None:
    """Before 3.5-IV2 no broker could read them."""
    message = "The current metadata.version does not support SCRAM"
    assert alter(image_of(10), upsertion("a")) == [Altered("a", ErrorCode.UNSUPPORTED_VERSION, message)]
    assert alter(image_of(11), upsertion("a")) == [Altered("a")]


def test_describe_without_users() -> None:
    described = describe_credentials(image_of(), ["nobody"])
    assert described[0].error_message == "Attempt to describe a user credential that does not exist: nobody"


def test_users_are_counted_by_their_iterations() -> None:
    """The counts follow changed iterations and deleted credentials."""
    image = image_of()
    alter(image, upsertion("a"), upsertion("b"), upsertion("c", SHA_512, 8192))
    assert image.scram_iterations == {SHA_256: {4096: 2}, SHA_512: {8192: 1}}
    alter(image, upsertion("a", SHA_256, 9000))
    alter(image, Deletion("b", SHA_256), Deletion("c", SHA_512))
    assert image.scram_iterations == {SHA_256: {9000: 1}, SHA_512: {}}
