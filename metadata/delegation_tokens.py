"""Deciding about delegation tokens (KIP-48, KIP-373): who gets one, for how long, and when it goes.

Times are milliseconds of the wall clock, principals are "User:name".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec

from metadata.decision import Decision, Refused
from metadata.features import DELEGATION_TOKENS_LEVEL
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from protocol.errors import ErrorCode
from protocol.messages.cluster_metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from protocol.schema import Struct


class Lifetimes(msgspec.Struct, frozen=True):
    """`longest_ms` whatever happens, `unless_renewed_ms` at a time."""

    longest_ms: int
    unless_renewed_ms: int


class NewToken(msgspec.Struct, frozen=True):
    """A token that somebody wants for an owner, perhaps themselves. `max_lifetime_ms` of 0 or less is the longest."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


def create_token(image: MetadataImage, wanted: NewToken, lifetimes: Lifetimes, now_ms: int) -> Decision[Struct]:
    """The token, as it is stored. Raises Refused."""
    if image.metadata_version < DELEGATION_TOKENS_LEVEL:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    longest_ms = lifetimes.longest_ms
    if wanted.max_lifetime_ms > 0:
        longest_ms = min(longest_ms, wanted.max_lifetime_ms)
    record = new_record(
        image.metadata_version,
        DelegationTokenRecord,
        owner=wanted.owner,
        requester=wanted.requester,
        renewers=list(wanted.renewers),
        issue_timestamp=now_ms,
        max_timestamp=now_ms + longest_ms,
        expiration_timestamp=now_ms + min(longest_ms, lifetimes.unless_renewed_ms),
        token_id=wanted.token_id,
    )
    return Decision([record], [record.value])


def renew_token(
    image: MetadataImage, token: Struct, principal: str, period_ms: int, lifetimes: Lifetimes, now_ms: int
) -> Decision[int]:
    """When it expires then; a period of 0 or less is the longest. Raises Refused."""
    if is_expired(token, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not _may_change(token, principal):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    longest_ms = lifetimes.unless_renewed_ms
    return _until(image, token, now_ms + (min(period_ms, longest_ms) if period_ms > 0 else longest_ms))


def expire_token(image: MetadataImage, token: Struct, principal: str, period_ms: int, now_ms: int) -> Decision[int]:
    """When it expires then; below 0 it is gone at once, even one that has expired. Raises Refused."""
    if not _may_change(token, principal):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    if period_ms < 0:
        return Decision([_removal(image, token)], [now_ms])
    if is_expired(token, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(image, token, now_ms + period_ms)


def _until(image: MetadataImage, token: Struct, wanted_ms: int) -> Decision[int]:
    end_ms = min(token.max_timestamp, wanted_ms)
    fields = {field.name: getattr(token, field.name) for field in token.struct_type.fields}
    fields["expiration_timestamp"] = end_ms
    return Decision([new_record(image.metadata_version, DelegationTokenRecord, **fields)], [end_ms])


def expired_tokens(image: MetadataImage, now_ms: int, most: int) -> list[MetadataRecord]:
    """The records by which those that have expired go, so many at once."""
    expired = (token for token in image.delegation_tokens.values() if is_expired(token, now_ms))
    return [_removal(image, token) for token in islice(expired, most)]


def _removal(image: MetadataImage, token: Struct) -> MetadataRecord:
    return new_record(image.metadata_version, RemoveDelegationTokenRecord, token_id=token.token_id)


def describe_tokens(
    image: MetadataImage,
    owners: Sequence[str] | None,
    principal: str,
    may_describe: Callable[[str], bool],
    may_describe_tokens_of: Callable[[str], bool],
) -> Iterable[Struct]:
    """The tokens of some owners (None: of all) that somebody may know of.

    Args:
        may_describe: that token, by its id.
        may_describe_tokens_of: all of an owner's.
    """
    for token in image.delegation_tokens.values():
        if owners is not None and not any(concerns(token, owner) for owner in owners):
            continue
        if concerns(token, principal) or may_describe(token.token_id) or may_describe_tokens_of(token.owner):
            yield token


def _may_change(token: Struct, principal: str) -> bool:
    """Whether somebody may renew it or have it expire: its owner and its renewers, and not who asked for it."""
    return principal == token.owner or principal in token.renewers


def concerns(token: Struct, principal: str) -> bool:
    """Whether it is somebody's: as owner, as who asked for it, or to renew it."""
    return principal in (token.owner, token.requester) or principal in token.renewers


def is_expired(token: Struct, now_ms: int) -> bool:
    """Whether its time is over, though it may still be there."""
    return bool(min(token.max_timestamp, token.expiration_timestamp) < now_ms)
