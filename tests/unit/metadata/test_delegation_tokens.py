"""Delegation tokens as records: their lifetimes, and who may use them."""

from __future__ import annotations

import pytest

from metadata.decision import Refused
from metadata.delegation_tokens import (
    NewToken,
    TokenLifetimes,
    create_token,
    describe_tokens,
    expire_token,
    expired_tokens,
    renew_token,
)
from metadata.features import METADATA_VERSION
from metadata.image import MetadataImage
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

ALICE, BOB, CAROL, DAVE = (f"User:{name}" for name in ("alice", "bob", "carol", "dave"))
LIFETIMES = TokenLifetimes(longest_ms=1_000, unless_renewed_ms=100)
NOW_MS = 50_000


def image_of(level: int = 30) -> MetadataImage:
    return MetadataImage(features={METADATA_VERSION: level})


def new(image: MetadataImage, name: str = "id", max_lifetime_ms: int = -1) -> Struct:
    """Return a token of alice, requested by bob, which carol may renew."""
    wanted = NewToken(name, ALICE, BOB, (CAROL,), max_lifetime_ms)
    decision = create_token(image, wanted, LIFETIMES, NOW_MS)
    replay_all(image, decision.records)
    return decision.results[0]


def refused(function: object, *args: object) -> ErrorCode:
    with pytest.raises(Refused) as refusal:
        function(*args)  # type: ignore[operator]
    return refusal.value.error_code


@pytest.mark.parametrize(
    ("wanted", "longest", "first"), [(-1, 1_000, 100), (300, 300, 100), (50, 50, 50), (9_999, 1_000, 100)]
)
def test_lifetime(wanted: int, longest: int, first: int) -> None:
    token = new(image_of(), max_lifetime_ms=wanted)
    assert (token.issue_timestamp, token.max_timestamp, token.expiration_timestamp) == (
        NOW_MS,
        NOW_MS + longest,
        NOW_MS + first,
    )


def test_renewal_ends_at_the_longest_lifetime() -> None:
    image = image_of()
    new(image)
    for principal, period_ms, now_ms, end_ms in (
        (ALICE, -1, 50, 150),
        (ALICE, 30, 60, 90),
        (CAROL, 9_999, 80, 180),
        (CAROL, -1, 180, 280),
        (CAROL, -1, 280, 380),
    ):
        token = image.delegation_tokens["id"]
        decision = renew_token(image, token, principal, period_ms, LIFETIMES, NOW_MS + now_ms)
        assert decision.results == [NOW_MS + end_ms]
        replay_all(image, decision.records)
    token = image.delegation_tokens["id"]
    assert (token.owner, token.requester, token.renewers, token.max_timestamp) == (ALICE, BOB, [CAROL], NOW_MS + 1_000)
    token.expiration_timestamp = NOW_MS + 2_000
    assert renew_token(image, token, ALICE, -1, LIFETIMES, NOW_MS + 990).results == [NOW_MS + 1_000]


def test_who_may_renew_and_expire() -> None:
    """The owner and renewers; as on Kafka 4.3.1 not the requester of another user's token."""
    image = image_of()
    token = new(image)
    late_ms = NOW_MS + 101
    for stranger in (BOB, DAVE):
        code = refused(renew_token, image, token, stranger, -1, LIFETIMES, NOW_MS)
        assert code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        code = refused(renew_token, image, token, stranger, -1, LIFETIMES, late_ms)
        assert code is ErrorCode.DELEGATION_TOKEN_EXPIRED
        for period_ms in (-1, 1_000):
            for now_ms in (NOW_MS, late_ms):
                code = refused(expire_token, image, token, stranger, period_ms, now_ms)
                assert code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refused(renew_token, image, token, ALICE, -1, LIFETIMES, late_ms) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refused(expire_token, image, token, ALICE, 0, late_ms) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire_token(image, token, ALICE, -1, late_ms).results == [late_ms]
    assert refused(new, image_of(level=13)) is ErrorCode.UNSUPPORTED_VERSION


def test_expire_at_once_or_later() -> None:
    image = image_of()
    token = new(image)
    assert expire_token(image, token, ALICE, 5_000, NOW_MS).results == [NOW_MS + 1_000]
    assert expire_token(image, token, ALICE, 0, NOW_MS).results == [NOW_MS]
    decision = expire_token(image, token, CAROL, -1, NOW_MS + 7)
    replay_all(image, decision.records)
    assert decision.results == [NOW_MS + 7]
    assert image.delegation_tokens == {}


def test_expired_tokens_are_deleted() -> None:
    image = image_of()
    new(image, "short", 50)
    new(image, "long")
    replay_all(image, expired_tokens(image, NOW_MS + 50, 9))
    assert image.delegation_tokens.keys() == {"short", "long"}
    replay_all(image, expired_tokens(image, NOW_MS + 51, 9))
    assert image.delegation_tokens.keys() == {"long"}


def test_who_may_describe_which_tokens() -> None:
    image = image_of()
    new(image)

    def described_count(principal: str, owners: list[str] | None = None, token: str = "", owner: str = "") -> int:
        return len(list(describe_tokens(image, owners, principal, token.__eq__, owner.__eq__)))

    assert [described_count(each) for each in (ALICE, BOB, CAROL, DAVE)] == [1, 1, 1, 0]
    assert [described_count(ALICE, [each]) for each in (ALICE, BOB, CAROL, DAVE)] == [1, 1, 1, 0]
    assert described_count(ALICE, []) == 0
    assert described_count(DAVE, token="id") == described_count(DAVE, owner=ALICE) == 1
    assert described_count(DAVE, [DAVE], token="id") == 0
