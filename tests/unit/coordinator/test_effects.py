"""Applying the effects of a decision."""

from coordinator.effects import Effects, carry_out
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SYNC_GROUP
from tests.support.groups import ParkedRequest


def test_carry_out_writes_then_calls_back_then_answers():
    effects: Effects[str] = Effects()
    seen: list[object] = []
    parked = ParkedRequest()
    effects.reply(parked, SYNC_GROUP.response(error_code=0))
    effects.reply(None, SYNC_GROUP.response())
    effects.write(["a", "b"], on_written=lambda: effects.write(["c"]))

    def write(records, producer):
        assert parked.response is None
        seen.append(list(records))
        return ErrorCode.NONE

    assert carry_out(effects, write) is ErrorCode.NONE
    assert seen == [["a", "b"], ["c"]]
    assert parked.code is ErrorCode.NONE


def test_carry_out_returns_the_first_error_and_continues():
    effects: Effects[str] = Effects()
    failed: list[ErrorCode] = []
    effects.write(["a"], on_written=lambda: failed.append(ErrorCode.NONE), on_failed=failed.append)
    effects.write(["b"])
    codes = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR])

    assert carry_out(effects, lambda records, producer: next(codes)) is ErrorCode.NOT_COORDINATOR
    assert failed == [ErrorCode.NOT_COORDINATOR]
