"""Faults that a test injects into requests."""

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
    """A dispatcher whose handlers record the requests that they serve; Heartbeat also has a fast path."""

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


def test_a_number_of_requests_fail():
    """They are not served, and other APIs are unaffected."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(2, error=ErrorCode.REBALANCE_IN_PROGRESS))

    stage.ask(METADATA, 12)
    codes = [decoded(stage.ask()).error_code for _ in range(3)]

    assert codes == [27, 27, 0]
    assert stage.served == ["Metadata", "fast path", "Heartbeat"]
    assert requests_of(stage, HEARTBEAT) == 3


def test_faults_of_an_api_apply_in_order():
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.ILLEGAL_GENERATION))
    assert [decoded(stage.ask()).error_code for _ in range(3)] == [25, 22, 0]


def test_injected_error_is_in_each_partition():
    """The response has the topics and partitions of the request."""
    stage = Stage()
    stage.dispatcher.add(PRODUCE.key, Fault(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    partitions = [PartitionProduceData(index=index, records=b"") for index in (0, 3)]
    data = [TopicProduceData(name="t", partition_data=partitions)]

    answer = decoded(stage.ask(PRODUCE, 9, acks=-1, timeout_ms=9, topic_data=data), PRODUCE, 9)

    (response,) = answer.responses
    assert [(each.index, each.error_code) for each in response.partition_responses] == [(0, 6), (3, 6)]


def test_error_for_acks_0_closes_the_connection():
    """The client would take a response for that of its next request."""
    stage = Stage()
    stage.dispatcher.add(PRODUCE.key, Fault(1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(CloseConnection, match="NOT_LEADER_OR_FOLLOWER"):
        stage.ask(PRODUCE, 9, acks=0, timeout_ms=9, topic_data=[])
    assert stage.served == []


def test_delayed_request_is_served_once():
    """Its connection is muted until then. The next request is served at once."""
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


def test_delayed_request_gets_no_second_fault():
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, delay_ms=500))
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    waiting = stage.ask()
    stage.loop.advance(500)
    assert decoded(stage.finish(waiting)).error_code == 0
    assert decoded(stage.ask()).error_code == 25


@pytest.mark.parametrize(("is_served", "served"), [(False, []), (True, ["fast path", "Heartbeat"])])
def test_connection_closes_before_or_after_the_request(is_served, served):
    """After it, only the response is lost."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, is_served=is_served))
    with pytest.raises(CloseConnection, match="Heartbeat"):
        stage.ask()
    assert stage.served == served


def test_lost_response_cancels_a_waiting_request():
    """As when the client disconnects."""
    stage = Stage()
    stage.reply = Deferred()
    stage.dispatcher.add(HEARTBEAT.key, Fault(1, is_served=True))
    with pytest.raises(CloseConnection):
        stage.ask()
    assert stage.reply.cancelled


def test_cleared_faults_do_not_apply():
    """A fault that has begun ends too."""
    stage = Stage()
    stage.dispatcher.add(HEARTBEAT.key, Fault(2, error=ErrorCode.UNKNOWN_MEMBER_ID))
    assert decoded(stage.ask()).error_code == 25
    stage.dispatcher.clear()
    assert decoded(stage.ask()).error_code == 0


def test_unsupported_version_gets_its_own_response():
    """With and without a fault for its API."""
    stage = Stage()
    stage.dispatcher.add(FETCH.key, Fault(1, error=ErrorCode.UNKNOWN_MEMBER_ID))
    with pytest.raises(CloseConnection, match="not served"):
        stage.ask(FETCH, 13)
