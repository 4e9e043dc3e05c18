"""ListTransactions: the expression that ids are chosen by. DescribeTransactions: one answer for each that is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.messages.describe_transactions import DESCRIBE_TRANSACTIONS
from tests.support.txn_broker import TxnBroker
from tests.support.txn_client import TxnClient


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TxnClient]:
    broker = TxnBroker(tmp_path)
    for name in ("x", "xy", "z"):
        assert broker.client.init(name).startswith("NONE")
    yield broker.client
    broker.close()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("x.*", ["x Empty", "xy Empty"]), ("x", ["x Empty"]), ("", ["x Empty", "xy Empty", "z Empty"]), ("q", [])],
)
def test_ids_match_as_a_whole(client: TxnClient, pattern: str, found: list[str]):
    assert client.transactions(transactional_id_pattern=pattern) == f"NONE {found} []"


@pytest.mark.parametrize("pattern", ["(", "a**", r"\C", "a{12345}", "(?P<n>a)(?P<n>b)"])
def test_what_is_no_expression_to_kafka_is_refused(client: TxnClient, pattern: str):
    """Also what RE2 takes and RE2J does not."""
    assert client.transactions(transactional_id_pattern=pattern) == "INVALID_REGULAR_EXPRESSION [] []"


def test_an_id_that_is_asked_for_twice_is_described_twice(client: TxnClient):
    answer = client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=["x", "z", "x"])
    assert [each.transactional_id for each in answer.transaction_states] == ["x", "z", "x"]
