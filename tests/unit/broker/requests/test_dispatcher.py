"""The dispatcher: every request passes through it."""

import csv
import struct

import pytest

from broker.requests.dispatcher import (
    CloseConnection,
    Dispatcher,
    Waiting,
    advertised_apis,
)
from broker.requests.served_api import Implementation, ServedApi, discover, handles
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.registry import API_BY_KEY
from protocol.schema import Api
from protocol.versions import NO_VERSIONS
from runtime.deferred import Deferred
from storage.errors import LogOffline
from tests.support.network import dispatcher_of, request_frame, served_by
from tests.support.request_stage import RequestStage, decoded
from tests.support.schema_facts import FACTS


def ask(handler, api=HEARTBEAT, version=4, **fields):
    """Return the dispatcher's response to one request."""
    return RequestStage(dispatcher_of({api: handler})).ask(api, version, **fields)


@pytest.mark.parametrize("version", list(HEARTBEAT.versions))
def test_a_request_reaches_its_handler_and_is_answered(version):
    """At every version, with old and with flexible headers."""
    seen = []

    def handler(ctx, request):
        seen.append((ctx.connection, ctx.api, ctx.api_version, ctx.correlation_id, ctx.client_id))
        seen.append(request.group_id)
        return HEARTBEAT.response(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    answer = decoded(ask(handler, version=version, group_id="g"), version=version)

    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [("the connection", HEARTBEAT, version, 77, "client"), "g"] == seen


def test_a_deferred_is_awaited_unless_it_is_done():
    """A handler need not know whether its response is ready at once."""
    answer = decoded(ask(lambda ctx, request: Deferred.resolved(HEARTBEAT.response(error_code=5))))
    assert answer.error_code == 5

    deferred = Deferred()
    waiting = ask(lambda ctx, request: deferred)
    assert isinstance(waiting, Waiting)
    deferred.resolve(HEARTBEAT.response(error_code=6))
    assert decoded(dispatcher_of({}).finish("the connection", waiting)).error_code == 6


def test_a_fast_path_may_answer_later_or_not_at_all():
    """The fast path's response is a frame. The handler gets the request unchanged."""
    deferreds = [Deferred(), Deferred()]
    left = iter(deferreds)
    handlers = {HEARTBEAT: lambda ctx, request: HEARTBEAT.response(error_code=len(request.group_id))}
    stage = RequestStage(Dispatcher(served_by(handlers, {HEARTBEAT: lambda version: lambda *_: next(left)})))
    waiting = [stage.ask(group_id="group") for _ in deferreds]
    for deferred, value in zip(deferreds, ([b"a frame"], None), strict=True):
        deferred.resolve(value)

    assert stage.finish(waiting[0]) == [b"a frame"]
    assert decoded(stage.finish(waiting[1])).error_code == 5


@pytest.mark.parametrize(("size", "mutes"), [(1_000, False), (1_000_000, True)])
def test_a_large_waiting_request_mutes_its_connection(size, mutes):
    """The decoded request keeps the frame in memory."""
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(records=bytes(size))])]
    waiting = ask(lambda ctx, request: Deferred(mutes=False), api=PRODUCE, version=9, topic_data=data)
    assert waiting.deferred.mutes is mutes


def test_none_means_no_response():
    """acks=0, at once or later."""
    assert ask(lambda ctx, request: None) is None
    assert ask(lambda ctx, request: Deferred.resolved(None)) is None


@pytest.mark.parametrize(
    ("error", "code"), [(LogOffline("/data", "gone"), ErrorCode.KAFKA_STORAGE_ERROR), (ZeroDivisionError(), -1)]
)
def test_an_exception_becomes_an_error_response_of_the_api(error, code, caplog):
    """The table of exceptions gives the code. Only an unexpected exception logs a traceback."""

    def handler(ctx, request):
        raise error

    assert code == decoded(ask(handler)).error_code
    assert (code == -1) == ("Traceback" in caplog.text)


def test_a_failure_that_repeats_has_one_traceback(caplog):
    """Clients retry, and the same lines must not fill the disk."""

    def handler(ctx, request):
        raise ZeroDivisionError

    dispatcher = dispatcher_of({HEARTBEAT: handler})
    frame = memoryview(request_frame(HEARTBEAT, 4, 77))[4:]
    for _ in range(100):
        dispatcher.dispatch(None, frame)

    assert caplog.text.count("Traceback") == 1
    assert len(caplog.records) <= 4


def test_an_api_without_an_error_field_closes():
    """The response could not carry the error."""
    api = Api(key=18, name="ApiVersions", versions="0", flexible="none", request=[], response=[])

    def handler(ctx, request):
        raise ZeroDivisionError

    with pytest.raises(CloseConnection):
        ask(handler, api, 0)


def test_a_response_against_its_schema_is_an_unknown_error():
    """It is a bug of the broker, and the client gets UNKNOWN_SERVER_ERROR."""
    assert decoded(ask(lambda ctx, request: HEARTBEAT.response(error_code=70_000))).error_code == -1


@pytest.mark.parametrize("size", range(16))
def test_truncated_requests_are_malformed(size):
    """Wherever the request ends. The message uses the words of the protocol."""
    frame = request_frame(HEARTBEAT, 4, 1, group_id="g")[4:]
    dispatcher = dispatcher_of({HEARTBEAT: lambda ctx, request: HEARTBEAT.response()})

    with pytest.raises(ProtocolError, match=r"^(HeartbeatRequest v4: )?the (bytes end |client id reaches beyond)"):
        dispatcher.dispatch(None, memoryview(frame[: min(size, len(frame) - 1)]))


def failing_fast_path(error):
    """A dispatcher with a fast path that raises."""

    def fast_path(*_):
        raise error

    def handler(ctx, request):
        raise AssertionError("what the fast path may have written would be written twice")

    served = ServedApi(HEARTBEAT.key, HEARTBEAT.versions)
    served.implementation = Implementation(HEARTBEAT, handler, lambda version: fast_path)
    return Dispatcher({HEARTBEAT.key: served})


@pytest.mark.parametrize(
    ("error", "code"),
    [(LogOffline("/data", "gone"), ErrorCode.KAFKA_STORAGE_ERROR), (IndexError(), -1), (struct.error(), -1)],
)
def test_an_exception_of_a_fast_path_is_an_error_response(error, code, caplog):
    """An exception that means a truncated header elsewhere is a bug here, with one traceback."""
    dispatcher = failing_fast_path(error)
    frame = memoryview(request_frame(HEARTBEAT, 4, 77, group_id="g"))[4:]
    for _ in range(3):
        assert code == decoded(dispatcher.dispatch(None, frame)).error_code
    assert caplog.text.count("Traceback") == (code == -1)


def test_a_fast_path_may_close_the_connection():
    """A handler may do the same."""
    with pytest.raises(CloseConnection):
        failing_fast_path(CloseConnection()).dispatch(None, memoryview(request_frame(HEARTBEAT, 4, 77))[4:])


def test_malformed_bytes_are_reported_before_a_failed_fast_path():
    frame = memoryview(request_frame(HEARTBEAT, 4, 77, group_id="g"))[4:-1]
    with pytest.raises(ProtocolError):
        failing_fast_path(IndexError()).dispatch(None, frame)


def test_bytes_after_a_request_are_ignored():
    """librdkafka sends three extra bytes with Metadata v13, and Kafka answers."""
    frame = request_frame(HEARTBEAT, 4, 77, group_id="g")[4:] + b"abc"
    dispatcher = dispatcher_of({HEARTBEAT: lambda ctx, request: HEARTBEAT.response()})

    assert decoded(dispatcher.dispatch(None, memoryview(frame))).error_code == 0


def test_unserved_versions_and_apis_close():
    """As in Kafka. Only ApiVersions has a response for this case."""
    dispatcher = dispatcher_of({HEARTBEAT: lambda ctx, request: HEARTBEAT.response()})
    for key, version in ((12, 5), (12, -1), (0, 3), (4, 0), (999, 0)):
        frame = key.to_bytes(2) + version.to_bytes(2, signed=True) + bytes(4) + b"\xff\xff" + bytes(10)
        with pytest.raises((CloseConnection, ProtocolError)):
            dispatcher.dispatch(None, memoryview(frame))


def test_handles_rejects_invalid_registrations():
    """A second handler for an API is found at import."""
    discover()[API_VERSIONS.key].load()
    with pytest.raises(TypeError):
        handles(API_VERSIONS)(lambda ctx, request: None)


def test_the_broker_advertises_the_versions_of_kafka(facts):
    """For every served API, without legacy versions. Produce is advertised from 0 on, though it is served from 3."""
    rows = discover(legacy=False)
    advertised = {each.api_key: (each.min_version, each.max_version) for each in advertised_apis(rows.values())}
    kafka = {int(row["api_key"]): row for row in facts}

    assert advertised == {key: (int(kafka[key]["broker_min"]), int(kafka[key]["broker_max"])) for key in advertised}
    assert sorted(advertised) == list(advertised)
    assert rows[PRODUCE.key].served.min == 3


def test_unstable_versions_are_served_if_they_are_enabled():
    """In 4.3 that is InitProducerId v6 alone."""
    more = {
        key: (row.served.max, row.advertised.max)
        for key, row in discover(unstable=True).items()
        if row.served.max != discover()[key].served.max
    }
    assert more == {INIT_PRODUCER_ID.key: (6, 6)}


def test_legacy_versions_are_those_of_kafka_3_9(facts):
    """They run from the first version in 3.9.1 to the last in 4.3. Every advertised version is served.

    Version 0 of the share groups' APIs was early access in 3.9.1. It is not served, because 4.3 has no schema for it.
    """
    apis = discover()

    for fact in facts:
        served = apis.get(int(fact["api_key"]))
        if served is not None:
            versions = API_BY_KEY[served.key].versions
            oldest = fact["v3_9_1_client_min"] if fact["v3_9_1_client_min"] not in ("", "-1") else fact["broker_min"]
            newest = fact["broker_max"] or fact["client_max"]  # Kafka serves some versions that it does not advertise
            assert (served.served.min, served.served.max) == (max(int(oldest), versions.min), int(newest)), served.name
            assert served.advertised == (served.served if fact["broker_max"] else NO_VERSIONS)


@pytest.fixture
def facts():
    """Return the rows of facts/api-versions.tsv."""
    with open(FACTS / "api-versions.tsv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_requests_are_counted_by_api_and_version():
    """Each request counts once, whatever its outcome, also if a fast path leaves it to the handler in the end."""
    deferred = Deferred()
    answer = HEARTBEAT.response()
    served = ServedApi(HEARTBEAT.key, HEARTBEAT.versions)
    served.implementation = Implementation(HEARTBEAT, lambda *_: answer, lambda version: serve)
    dispatcher = Dispatcher({HEARTBEAT.key: served})

    def serve(connection, frame, position, correlation_id):
        return deferred

    frame = memoryview(request_frame(HEARTBEAT, 4, 77))[4:]
    waiting = dispatcher.dispatch("the connection", frame)
    deferred.resolve(None)
    assert decoded(dispatcher.finish("the connection", waiting)).error_code == 0
    for _ in range(2):
        dispatcher.dispatch("the connection", memoryview(request_frame(HEARTBEAT, 3, 77))[4:])

    assert {each.version: each.requests for each in dispatcher.prepared} == {4: 1, 3: 2}


def test_a_handler_without_its_service_closes_the_connection(caplog):
    """The handler is not called. The error names the handler and the service."""

    def handler(ctx, request, *, groups):
        raise AssertionError("called without its service")

    with pytest.raises(CloseConnection, match="handler needs groups, which this process does not offer"):
        ask(handler)
    assert "HEARTBEAT requests are not served" in caplog.text


def test_a_handler_gets_the_services_that_it_declares():
    """By name. It is bound once for each version."""
    dispatcher = dispatcher_of(
        {HEARTBEAT: lambda ctx, request, *, code: HEARTBEAT.response(error_code=code)}, {"code": 5, "other": 6}
    )
    frame = memoryview(request_frame(HEARTBEAT, 4, 77))[4:]
    assert [decoded(dispatcher.dispatch("the connection", frame)).error_code for _ in range(2)] == [5, 5]
