"""The error code that a client gets for each exception of the packages."""

import pytest

import config.errors
import protocol.records.errors
import storage.errors
from broker.requests.error_code_map import ERROR_CODES, error_code_of, fenced_code_for
from metadata.decision import Refused
from protocol.error_codes import ErrorCode

ROOTS = (storage.errors.StorageError, protocol.records.errors.RecordsError, config.errors.ConfigError)


def below(kind):
    """Return the class and all of its subclasses."""
    yield kind
    for derived in kind.__subclasses__():
        yield from below(derived)


@pytest.mark.parametrize(
    "kind",
    [kind for root in ROOTS for kind in below(root) if not kind.__subclasses__()],
    ids=lambda kind: kind.__name__,
)
def test_every_exception_of_our_packages_has_a_code(kind):
    """An exception that is raised and not listed would reach clients as an unknown error."""
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
    """An unexpected exception is an unknown error."""
    assert code is error_code_of(error)


def test_a_refusal_has_its_own_code():
    """Also where no handler expects it: a client retries COORDINATOR_LOAD_IN_PROGRESS, and no unknown error."""
    refused = Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no controller answers")
    assert error_code_of(refused) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_fenced_producers_get_a_code_that_they_know():
    """KIP-588: a client that does not know the newer code gets the one that preceded it."""
    fenced = ErrorCode.PRODUCER_FENCED
    assert fenced_code_for(1, 2, fenced) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert fenced_code_for(2, 2, fenced) is fenced
    assert fenced_code_for(1, 2, ErrorCode.NONE) is ErrorCode.NONE
