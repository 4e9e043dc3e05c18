"""InitProducerId v6 with two-phase commit (KIP-939)."""

from pathlib import Path

import pytest

from coordinator.transaction.transaction import NO_TIMEOUT_MS
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from tests.support.txn_broker import TxnBroker


@pytest.mark.parametrize(
    ("allowed", "enable2_pc", "keep", "code"),
    [
        ("false", False, False, ErrorCode.NONE),
        ("false", True, False, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("false", True, True, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("true", True, False, ErrorCode.NONE),
        ("true", True, True, ErrorCode.UNSUPPORTED_VERSION),
        ("true", False, True, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_two_phase_commit_has_to_be_enabled(
    tmp_path: Path, allowed: str, enable2_pc: bool, keep: bool, code: ErrorCode
) -> None:
    """Such transactions have no timeout. Prepared state is not kept yet."""
    broker = TxnBroker(tmp_path, {"transaction.two.phase.commit.enable": allowed})
    timeout_ms = -1 if enable2_pc else 60_000
    answer = broker.client.call(
        INIT_PRODUCER_ID,
        6,
        transactional_id="x",
        transaction_timeout_ms=timeout_ms,
        enable2_pc=enable2_pc,
        keep_prepared_txn=keep,
    )
    assert answer.error_code == code
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
    if code is ErrorCode.NONE:
        shard = broker.transactions.at("x")
        assert not isinstance(shard, ErrorCode)
        assert shard.transactions["x"].timeout_ms == (NO_TIMEOUT_MS if enable2_pc else 60_000)
    broker.close()
