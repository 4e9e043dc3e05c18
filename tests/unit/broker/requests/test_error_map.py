"""What exceptions of the rooms mean to a client."""

import pytest

import config.errors
import protocol.records.errors
import storage.errors
from broker.requests.error_map import ERROR_CODES, error_code_of, fenced_in_words_of
from protocol.errors import ErrorCode

ROOTS = (storage.errors.StorageError, protocol.records.errors.RecordsError, config.errors.ConfigError)


def below(kind):
    """The class and all that are derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from below(derived)


@pytest.mark.parametrize(
    "kind",
    [kind for root in ROOTS for kind in below(root) if not kind.__subclasses__()],
    ids=lambda kind: kind.__name__,
)
def test_every_exception_of_the_rooms_has_a_code(kind):
    """One that is raised and not listed would reach clients as an unknown error."""
    assert any(each in ERROR_CODES for each in kind.__mro__)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError("disk"), ErrorCode.KAFKA_STORAGE_ERROR),
        (FileNotFoundError("gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KeyError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_subclasses_follow_their_nearest_listed_ancestor(error, code):
    """And what nobody expected is unknown."""
    assert code is error_code_of(error)


def test_fenced_producers_are_told_in_words_that_they_know():
    """KIP-588: whoever does not know the newer code is given the one that there was before."""
    fenced = ErrorCode.PRODUCER_FENCED
    assert fenced_in_words_of(1, 2, fenced) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert fenced_in_words_of(2, 2, fenced) is fenced
    assert fenced_in_words_of(1, 2, ErrorCode.NONE) is ErrorCode.NONE
