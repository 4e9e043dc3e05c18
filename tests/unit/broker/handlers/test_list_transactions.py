"""ListTransactions filters ids by an expression. DescribeTransactions answers each id of the request."""

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
def test_the_expression_matches_whole_ids(client: TxnClient, pattern: str, found: list[str]):
    assert client.transactions(transactional_id_pattern=pattern) == f"NONE {found} []"


@pytest.mark.parametrize("pattern", ["(", "a**", r"\C", "a{12345}", "(?P<n>a)(?P<n>b)"])
def test_an_expression_that_kafka_rejects_is_rejected(client: TxnClient, pattern: str):
    """One of the expressions is valid in RE2 and invalid in RE2J."""
    assert client.transactions(transactional_id_pattern=pattern) == "INVALID_REGULAR_EXPRESSION [] []"


def test_a_repeated_id_is_described_twice(client: TxnClient):
    answer = client.call(DESCRIBE_TRANSACTIONS, 0, transactional_ids=["x", "z", "x"])
    assert [each.transactional_id for each in answer.transaction_states] == ["x", "z", "x"]
