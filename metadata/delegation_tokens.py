"""Decisions about delegation tokens (KIP-48, KIP-373): create, renew, expire and describe them.

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
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from protocol.schema import Struct


class TokenLifetimes(msgspec.Struct, frozen=True):
    """`longest_ms`: the most from its creation; `unless_renewed_ms`: the most from its creation or last renewal."""

    longest_ms: int
    unless_renewed_ms: int


class NewToken(msgspec.Struct, frozen=True):
    """A requested token. The requester may be its owner. A `max_lifetime_ms` of 0 or less means the longest."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


def create_token(image: MetadataImage, wanted: NewToken, lifetimes: TokenLifetimes, now_ms: int) -> Decision[Struct]:
    """Create a token, and return it as stored. Raises Refused."""
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
    image: MetadataImage, token: Struct, principal: str, period_ms: int, lifetimes: TokenLifetimes, now_ms: int
) -> Decision[int]:
    """Renew a token, and return when it expires. A period of 0 or less means the longest. Raises Refused."""
    if is_expired(token, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not _may_change(token, principal):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    longest_ms = lifetimes.unless_renewed_ms
    return _until(image, token, now_ms + (min(period_ms, longest_ms) if period_ms > 0 else longest_ms))


def expire_token(image: MetadataImage, token: Struct, principal: str, period_ms: int, now_ms: int) -> Decision[int]:
    """Let a token expire, and return when.

    A period below 0 deletes it at once, even after its expiry. Raises Refused.
    """
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


def expired_tokens(image: MetadataImage, now_ms: int, limit: int) -> list[MetadataRecord]:
    """Return the records that delete expired tokens, up to `limit` of them."""
    expired = (token for token in image.delegation_tokens.values() if is_expired(token, now_ms))
    return [_removal(image, token) for token in islice(expired, limit)]


def _removal(image: MetadataImage, token: Struct) -> MetadataRecord:
    return new_record(image.metadata_version, RemoveDelegationTokenRecord, token_id=token.token_id)


def describe_tokens(
    image: MetadataImage,
    owners: Sequence[str] | None,
    principal: str,
    may_describe: Callable[[str], bool],
    may_describe_tokens_of: Callable[[str], bool],
) -> Iterable[Struct]:
    """Return the tokens of these owners (None: of all) that the principal may see.

    Args:
        may_describe: whether the principal may describe the token of this id.
        may_describe_tokens_of: whether the principal may describe all tokens of this owner.
    """
    for token in image.delegation_tokens.values():
        if owners is not None and not any(concerns(token, owner) for owner in owners):
            continue
        if concerns(token, principal) or may_describe(token.token_id) or may_describe_tokens_of(token.owner):
            yield token


def _may_change(token: Struct, principal: str) -> bool:
    """Return whether the principal may renew or expire the token: its owner and its renewers, but not its requester."""
    return principal == token.owner or principal in token.renewers


def concerns(token: Struct, principal: str) -> bool:
    """Return whether the principal is the token's owner, requester, or one of its renewers."""
    return principal in (token.owner, token.requester) or principal in token.renewers


def is_expired(token: Struct, now_ms: int) -> bool:
    """Return whether the token has expired; its record may still exist."""
    return bool(min(token.max_timestamp, token.expiration_timestamp) < now_ms)
