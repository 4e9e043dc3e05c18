"""Requests that a test wants to go wrong."""

import pytest

from broker.control.faults import Fault, FaultyDispatcher
from broker.requests.dispatcher import CloseConnection, Waiting
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FETCH
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop
from tests.support.network import served_by
from tests.support.request_stage import RequestStage, decoded


class Stage(RequestStage):
    """A dispatcher whose handlers write down what they serve; Heartbeat has a fast path, too."""

    def __init__(self):
        self.loop = FakeLoop()
        self.served = []
        handlers = dict.fromkeys((HEARTBEAT, METADATA, PRODUCE), self.serve)
        super().__init__(FaultyDispatcher(served_by(handlers, {HEARTBEAT: self.fast_path})))
        self.dispatcher.call_later = Timers(self.loop, self.loop.clock).call_later
        self.reply = None

    def fast_path(self, version):
        return lambda *_: self.served.append("fast path")

    def serve(self, ctx, request):
        self.served.append(ctx.api.name)
        return ctx.api.response() if self.reply is None else self.reply


def requests_of(stage, api):
    return sum(each.requests for each in stage.dispatcher.prepared if each.api is api)


def test_so_many_fail_and_are_not_served_then_all_is_as_ever():
    """Of that API alone."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(2, error=ErrorCode.REBALANCE_IN_PROGRESS))

    stage.ask(METADATA, 12)
    codes = [decoded(stage.ask()).error_code for _ in range(3)]

    assert codes == [27, 27, 0]
    assert stage.served == ["Metadata", "fast path", "Heartbeat"]
    assert requests_of(stage, HEARTBEAT) == 3


def test_faults_of_an_api_come_in_the_order_in_which_they_were_ordered():
    """One after the other."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.ILLEGAL_GENERATION))
    assert [decoded(stage.ask()).error_code for _ in range(3)] == [25, 22, 0]


def test_an_error_stands_where_the_request_has_partitions():
    """With the names of what it asks for."""
    stage = Stage()
    stage.dispatcher.add(PRODUCE.key, Fault(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    partitions = [PartitionProduceData(index=index, records=b"") for index in (0, 3)]
    data = [TopicProduceData(name="t", partition_data=partitions)]

    answer = decoded(stage.ask(PRODUCE, 9, acks=-1, timeout_ms=9, topic_data=data), PRODUCE, 9)

    (response,) = answer.responses
    assert [(each.index, each.error_code) for each in response.partition_responses] == [(0, 6), (3, 6)]


def test_an_error_for_who_awaits_no_answer_closes_the_connection():
    """An answer would be taken for that of the next request."""
    stage = Stage()
    stage.dispatcher.add(PRODUCE.key, Fault(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(CloseConnection, match="NOT_LEADER_OR_FOLLOWER"):
        stage.ask(PRODUCE, 9, acks=0, timeout_ms=9, topic_data=[])
    assert stage.served == []


def test_a_delayed_request_is_served_in_its_time_and_once():
    """Its connection is muted until then; the next is served at once."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, delay_ms=500))

    waiting = stage.ask()
    assert isinstance(waiting, Waiting)
    assert waiting.deferred.mutes
    stage.loop.advance(499)
    assert (waiting.deferred.done, stage.served) == (False, [])
    stage.loop.advance(1)
    assert waiting.deferred.done
    assert decoded(stage.finish(waiting)).error_code == 0

    assert stage.served == ["Heartbeat"]
    assert requests_of(stage, HEARTBEAT) == 1


def test_a_delayed_request_is_not_hit_by_the_next_fault():
    """It has had its own."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, delay_ms=500))
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    waiting = stage.ask()
    stage.loop.advance(500)
    assert decoded(stage.finish(waiting)).error_code == 0
    assert decoded(stage.ask()).error_code == 25


@pytest.mark.parametrize(("is_served", "served"), [(False, []), (True, ["fast path", "Heartbeat"])])
def test_a_connection_is_closed_before_or_after_the_work(is_served, served):
    """After it only the answer is lost."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, is_served=is_served))
    with pytest.raises(CloseConnection, match="Heartbeat"):
        stage.ask()
    assert stage.served == served


def test_a_lost_answer_that_was_to_come_later_is_given_up():
    """As where the client hangs up."""
    stage = Stage()
    stage.reply = Deferred()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, is_served=True))
    with pytest.raises(CloseConnection):
        stage.ask()
    assert stage.reply.cancelled


def test_cleared_faults_do_not_come():
    """Nor what was left of one that has begun."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(2, error=ErrorCode.UNKNOWN_MEMBER_ID))
    assert decoded(stage.ask()).error_code == 25
    stage.dispatcher.clear()
    assert decoded(stage.ask()).error_code == 0


def test_a_version_that_is_not_served_has_its_own_answer():
    """A fault for its API or not."""
    stage = Stage()
    stage.dispatcher.add(FETCH.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(CloseConnection, match="not served"):
        stage.ask(FETCH, 13)
