"""DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152)."""

import pytest

from coordinator.transaction.admin import Filters, describe_transaction, list_transactions
from coordinator.transaction.state import TransactionState
from protocol.error_codes import ErrorCode
from tests.support.transactions import TransactionHarness


@pytest.fixture
def h() -> TransactionHarness:
    """`a` is Empty, `b` has been Ongoing for 5 s, `c` is complete; producer ids 1000 to 1002."""
    harness = TransactionHarness()
    for number, name in enumerate("abc"):
        harness.init(name)
        if name != "a":
            harness.add((1000 + number, 0), "t-1", "t-0", "s-3", transactional_id=name)
    harness.end((1002, 0), True, transactional_id="c")
    harness.write_markers()
    harness.wall_ms += 5_000
    return harness


def listed(h: TransactionHarness, **filters: object) -> str:
    found = list_transactions(h.shard, Filters(**filters), h.wall_ms)  # type: ignore[arg-type]
    return "".join(sorted(each.transactional_id for each in found))


def test_description_has_all_that_is_known(h):
    found = describe_transaction(h.shard, "b")
    assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (
        0,
        "Ongoing",
        1001,
        0,
    )
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (60_000, h.wall_ms - 5_000)
    assert [(each.topic, each.partitions) for each in found.topics] == [("s", [3]), ("t", [0, 1])]


def test_unused_id_is_not_found(h):
    assert describe_transaction(h.shard, "z").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, "abc"),
        ({"states": {TransactionState.ONGOING}}, "b"),
        ({"states": {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT}}, "ac"),
        ({"states": frozenset()}, ""),  # unknown names of states
        ({"producer_ids": {1000, 1002, 7}}, "ac"),
        ({"duration_ms": 0}, "abc"),
        ({"duration_ms": 4_999}, "abc"),
        ({"duration_ms": 5_000}, "a"),  # an id without a transaction counts as open since 1970
        ({"duration_ms": -1}, "abc"),
        ({"matches": "b".__eq__}, "b"),
        ({"matches": "b".__eq__, "producer_ids": {1000}}, ""),
    ],
)
def test_filters_let_pass(h, filters, names):
    assert listed(h, **filters) == names
