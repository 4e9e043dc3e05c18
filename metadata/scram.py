"""Decisions about users' SCRAM credentials (KIP-554): set, delete and describe them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from metadata.decision import Decision, Refused
from metadata.features import SCRAM_LEVEL
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
)

_MECHANISMS = frozenset(ScramMechanism)


class Deletion(msgspec.Struct, frozen=True):
    """A credential to delete; `mechanism` is a number of ScramMechanism, or an invalid one."""

    user: str
    mechanism: int


class Upsertion(msgspec.Struct, frozen=True):
    """A credential to set, replacing an existing one."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class Altered(msgspec.Struct, frozen=True):
    """The result for a user."""

    user: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class Described(msgspec.Struct, frozen=True):
    """The (mechanism, iterations) pairs of a user."""

    user: str
    credentials: tuple[tuple[int, int], ...] = ()
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


def alter_credentials(
    image: MetadataImage, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
) -> Decision[Altered]:
    """Decide for each user. As in Kafka, a user who is named twice is rejected, even for two mechanisms."""
    granted: dict[str, MetadataRecord] = {}
    refused: dict[str, Altered] = {}
    changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
    for change in changes:
        user = change.user
        if user in refused:
            continue
        try:
            if granted.pop(user, None) is not None:
                message = "A user credential cannot be altered twice in the same request"
                raise Refused(ErrorCode.DUPLICATE_RESOURCE, message)
            granted[user] = _record(image, change)
        except Refused as refusal:
            refused[user] = Altered(user, refusal.error_code, refusal.message)
    return Decision(list(granted.values()), [*map(Altered, granted), *refused.values()])


def _record(image: MetadataImage, change: Deletion | Upsertion) -> MetadataRecord:
    if image.metadata_version < SCRAM_LEVEL:
        message = "The current metadata.version does not support SCRAM"
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if not change.user:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in _MECHANISMS:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    level, mechanism = image.metadata_version, ScramMechanism(change.mechanism)
    if isinstance(change, Deletion):
        if (change.user, mechanism) not in image.scram_credentials:
            message = "Attempt to delete a user credential that does not exist"
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, message)
        return new_record(level, RemoveUserScramCredentialRecord, name=change.user, mechanism=mechanism)
    if change.iterations < MIN_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return credential_record(level, change.user, mechanism, change.salted_password, change.salt, change.iterations)


def credential_record(
    metadata_version: int, user: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> MetadataRecord:
    """Return the record of a credential. It contains neither the password nor an equivalent."""
    made = credential_of(mechanism, salted_password, salt, iterations)
    return new_record(
        metadata_version,
        UserScramCredentialRecord,
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=iterations,
    )


def describe_credentials(image: MetadataImage, users: Iterable[str] | None) -> list[Described]:
    """Describe the credentials of `users`, each named once; None or an empty list: of all users."""
    named = list(users or ())
    found: dict[str, dict[int, int]] = {}
    for (user, mechanism), credential in image.scram_credentials.items():
        found.setdefault(user, {})[mechanism] = credential.iterations
    return [_described(user, found.get(user), named.count(user)) for user in dict.fromkeys(named or found)]


def _described(user: str, credentials: dict[int, int] | None, times_named: int) -> Described:
    if times_named > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return Described(user, (), ErrorCode.DUPLICATE_RESOURCE, message)
    if credentials is None:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return Described(user, (), ErrorCode.RESOURCE_NOT_FOUND, message)
    return Described(user, tuple(sorted(credentials.items())))
