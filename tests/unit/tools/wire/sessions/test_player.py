"""A recorded session against brokers that answer from a script."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import pytest

from protocol.framing import frame
from protocol.headers import encode_request_header, encode_response_header
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.schema import Api
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.differences import Difference
from tools.wire.sessions.link import LinkBroken
from tools.wire.sessions.player import WHOLE_ANSWER, Player, error_codes
from tools.wire.sessions.recording import Kind, RecordingUnreadable, SessionEvent

_WAIT_S = 30


def request(api: Api, version: int, number: int = 1, **fields: object) -> bytes:
    return encode_request_header(api, version, number, "me") + api.request.encode(version, api.request(**fields))


def answer(api: Api, version: int, number: int = 1, **fields: object) -> bytes:
    return encode_response_header(api, version, number) + api.response.encode(version, api.response(**fields))


class Script:
    """Takes one connection, and answers each request with the next frame; None closes it."""

    def __init__(self, frames: Sequence[bytes | None]) -> None:
        self._frames = frames
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(_WAIT_S)
        self.address = Address(*self._server.getsockname())
        self.received: list[bytes] = []
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._server, self._server.accept()[0] as client:
            client.settimeout(_WAIT_S)
            for each in self._frames:
                size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
                self.received.append(client.recv(size, socket.MSG_WAITALL))
                if each is None:
                    return
                client.sendall(frame(each))
            client.recv(1)

    def end(self) -> None:
        self._thread.join(_WAIT_S)
        assert not self._thread.is_alive()


@contextmanager
def scripted(*frames: bytes | None) -> Iterator[Script]:
    script = Script(frames)
    yield script
    script.end()


def session(*frames: tuple[Kind, bytes], closed_by: str = "client") -> list[SessionEvent]:
    inner = [SessionEvent(kind, 1, 0, data) for kind, data in frames]
    return [SessionEvent(Kind.OPEN, 1, 0), *inner, SessionEvent(Kind.CLOSE, 1, 0, by=closed_by)]


def differences(script: Script, events: list[SessionEvent]) -> list[Difference]:
    player = Player([script.address], timeout_s=_WAIT_S, sleep=lambda _: None)
    return [each for compared in player.play(events) for each in compared.differences]


ASK = request(INIT_PRODUCER_ID, 4, 1, transactional_id="t", transaction_timeout_ms=1)
GIVEN = answer(INIT_PRODUCER_ID, 4, 1, producer_id=5, producer_epoch=0)


def test_ids_of_now_are_in_the_requests_that_follow() -> None:
    """The first answer gives another producer id, and another epoch."""
    again = {"transactional_id": "t", "transaction_timeout_ms": 1}
    recorded = session(
        (Kind.REQUEST, ASK),
        (Kind.ANSWER, GIVEN),
        (Kind.REQUEST, request(INIT_PRODUCER_ID, 4, 2, producer_id=5, producer_epoch=0, **again)),
        (Kind.ANSWER, answer(INIT_PRODUCER_ID, 4, 2, producer_id=5, producer_epoch=1)),
    )
    with scripted(
        answer(INIT_PRODUCER_ID, 4, 1, producer_id=9, producer_epoch=3),
        answer(INIT_PRODUCER_ID, 4, 2, producer_id=9, producer_epoch=4),
    ) as script:
        assert differences(script, recorded) == []
    expected = request(INIT_PRODUCER_ID, 4, 2, producer_id=9, producer_epoch=3, **again)
    assert script.received == [ASK, expected]


def test_error_that_is_another() -> None:
    """By its path."""
    with scripted(answer(INIT_PRODUCER_ID, 4, 1, error_code=53)) as script:
        found = differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN)))
    assert found == [Difference("error_code", 0, 53), Difference("producer_id", 5, -1)]


def test_broker_that_is_not_ready_is_asked_again() -> None:
    """As clients do; and what was not ready then may be now."""
    loading = answer(INIT_PRODUCER_ID, 4, 1, error_code=14)
    with scripted(loading, loading, GIVEN) as script:
        assert differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))) == []
    assert script.received == [ASK] * 3
    with scripted(GIVEN) as script:
        assert differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, loading))) == []


def test_connection_that_is_closed_instead() -> None:
    """All answers that would have come on it are missing."""
    recorded = session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN), (Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))
    with scripted(None) as script:
        found = differences(script, recorded)
    told = f"{script.address}: the connection was closed"
    assert found == [Difference(WHOLE_ANSWER, "an answer", told)] * 2


def test_connection_that_the_broker_has_closed() -> None:
    """It is to do so again."""
    recorded = session((Kind.REQUEST, ASK), closed_by="broker")
    with scripted(None) as script:
        assert differences(script, recorded) == []
    with scripted(GIVEN) as script:
        assert differences(script, recorded) == [Difference(WHOLE_ANSWER, "closed", "an answer")]


def test_answers_that_cannot_be_read() -> None:
    """And those to another request."""
    recorded = session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))
    with scripted(GIVEN[:7]) as script:
        (found,) = differences(script, recorded)
    assert (found.path, found.recorded) == (WHOLE_ANSWER, "an answer")
    assert str(found.now).startswith("unreadable: ")
    with scripted(answer(INIT_PRODUCER_ID, 4, 7)) as script:
        (found,) = differences(script, recorded)
    assert found.now == "the answer to another request arrived"


def test_api_that_nobody_knows() -> None:
    """Bytes are compared."""
    ask, told = b"\x03\xe8\0\x02\0\0\0\x01", b"\0\0\0\x01abc"
    for now, count in ((told, 0), (told + b"d", 1)):
        with scripted(now) as script:
            assert len(differences(script, session((Kind.REQUEST, ask), (Kind.ANSWER, told)))) == count


def test_broker_behind_an_address_of_then() -> None:
    """Connections to a broker by its id go to the one that stands for it now."""
    node = {"key": "g", "node_id": 4, "host": "far.example", "port": 9}
    with scripted(GIVEN) as other:
        host, port = other.address
        here = answer(FIND_COORDINATOR, 3, 1, node_id=1, host=host, port=port)
        with scripted(here) as script:
            ask = request(FIND_COORDINATOR, 3, 1, key="g")
            del node["key"]
            events = session((Kind.REQUEST, ask), (Kind.ANSWER, answer(FIND_COORDINATOR, 3, 1, **node)))
            second = [
                SessionEvent(Kind.OPEN, 2, 0, node=4),
                SessionEvent(Kind.REQUEST, 2, 0, ASK),
                SessionEvent(Kind.ANSWER, 2, 0, GIVEN),
            ]
            assert differences(script, [*events, *second]) == []
    assert other.received == [ASK]


@pytest.mark.parametrize(
    "events",
    [
        [SessionEvent(Kind.REQUEST, 1, 0, ASK)],
        [SessionEvent(Kind.OPEN, 1, 0), SessionEvent(Kind.ANSWER, 1, 0, GIVEN)],
        [SessionEvent(Kind.OPEN, 1, 0), SessionEvent(Kind.REQUEST, 1, 0, b"\0")],
    ],
    ids=["not opened", "not asked", "no request"],
)
def test_session_that_does_not_add_up(events: list[SessionEvent]) -> None:
    """It is no recording."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        player = Player([Address(*server.getsockname())])
        with pytest.raises(RecordingUnreadable):
            list(player.play(events))


def test_pauses_are_kept_unless_they_are_not_wanted() -> None:
    """Counted from the beginning; answers are not waited for so."""
    slept: list[float] = []
    events = [SessionEvent(Kind.OPEN, 1, 500.0), SessionEvent(Kind.CLOSE, 1, 500.0, by="client")]
    for keeps_pace, count in ((True, 2), (False, 0)):
        slept.clear()
        with socket.create_server(("127.0.0.1", 0)) as server:
            player = Player([Address(*server.getsockname())], keeps_pace=keeps_pace, sleep=slept.append)
            assert list(player.play(events)) == []
        assert [round(each, -2) for each in slept] == [500.0] * count


def test_nobody_listens() -> None:
    """After all that were named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = Address(*server.getsockname())
    with pytest.raises(LinkBroken, match="refused"):
        list(Player([nobody, nobody]).play([SessionEvent(Kind.OPEN, 1, 0)]))


def test_error_codes() -> None:
    """At any depth, but not in records."""
    assert error_codes({"error_code": 3, "x": [{"topic_error_code": 5}, {"error_code": 0}]}) == {3, 5}
    assert error_codes({"records": [{"error_code": 1}]}) == set()
