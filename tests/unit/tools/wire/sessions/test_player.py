"""Replay of a recorded session to a scripted broker."""

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
    """Accepts one connection and answers each request with the next frame; None closes it."""

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


def test_current_ids_are_in_later_requests() -> None:
    """The first response has another producer id and epoch."""
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


def test_other_error_is_a_difference() -> None:
    """With its path."""
    with scripted(answer(INIT_PRODUCER_ID, 4, 1, error_code=53)) as script:
        found = differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN)))
    assert found == [Difference("error_code", 0, 53), Difference("producer_id", 5, -1)]


def test_unready_broker_is_retried() -> None:
    """As clients do."""
    loading = answer(INIT_PRODUCER_ID, 4, 1, error_code=14)
    with scripted(loading, loading, GIVEN) as script:
        assert differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))) == []
    assert script.received == [ASK] * 3
    with scripted(GIVEN) as script:
        assert differences(script, session((Kind.REQUEST, ASK), (Kind.ANSWER, loading))) == []


def test_closed_connection_is_a_difference() -> None:
    """All later responses of the connection are missing."""
    recorded = session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN), (Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))
    with scripted(None) as script:
        found = differences(script, recorded)
    expected_text = f"{script.address}: the connection was closed"
    assert found == [Difference(WHOLE_ANSWER, "an answer", expected_text)] * 2


def test_recorded_close_is_expected() -> None:
    recorded = session((Kind.REQUEST, ASK), closed_by="broker")
    with scripted(None) as script:
        assert differences(script, recorded) == []
    with scripted(GIVEN) as script:
        assert differences(script, recorded) == [Difference(WHOLE_ANSWER, "closed", "an answer")]


def test_undecodable_response_is_a_difference() -> None:
    """So is a response with another correlation id."""
    recorded = session((Kind.REQUEST, ASK), (Kind.ANSWER, GIVEN))
    with scripted(GIVEN[:7]) as script:
        (found,) = differences(script, recorded)
    assert (found.path, found.recorded) == (WHOLE_ANSWER, "an answer")
    assert str(found.now).startswith("unreadable: ")
    with scripted(answer(INIT_PRODUCER_ID, 4, 7)) as script:
        (found,) = differences(script, recorded)
    assert found.now == "the answer to another request arrived"


def test_unknown_api_is_compared_by_bytes() -> None:
    ask, expected_text = b"\x03\xe8\0\x02\0\0\0\x01", b"\0\0\0\x01abc"
    for now, count in ((expected_text, 0), (expected_text + b"d", 1)):
        with scripted(now) as script:
            assert len(differences(script, session((Kind.REQUEST, ask), (Kind.ANSWER, expected_text)))) == count


def test_recorded_address_is_mapped_to_the_current_broker() -> None:
    """Connections to a broker go to the one that has its id now."""
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
    ids=["without open", "without request", "malformed request"],
)
def test_inconsistent_session_is_rejected(events: list[SessionEvent]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        player = Player([Address(*server.getsockname())])
        with pytest.raises(RecordingUnreadable):
            list(player.play(events))


def test_pauses_are_kept_by_default() -> None:
    """They count from the start, independently of responses."""
    slept: list[float] = []
    events = [SessionEvent(Kind.OPEN, 1, 500.0), SessionEvent(Kind.CLOSE, 1, 500.0, by="client")]
    for keeps_pace, count in ((True, 2), (False, 0)):
        slept.clear()
        with socket.create_server(("127.0.0.1", 0)) as server:
            player = Player([Address(*server.getsockname())], keeps_pace=keeps_pace, sleep=slept.append)
            assert list(player.play(events)) == []
        assert [round(each, -2) for each in slept] == [500.0] * count


def test_unreachable_brokers_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = Address(*server.getsockname())
    with pytest.raises(LinkBroken, match="refused"):
        list(Player([nobody, nobody]).play([SessionEvent(Kind.OPEN, 1, 0)]))


def test_error_codes_are_found() -> None:
    """At any depth, but not in records."""
    assert error_codes({"error_code": 3, "x": [{"topic_error_code": 5}, {"error_code": 0}]}) == {3, 5}
    assert error_codes({"records": [{"error_code": 1}]}) == set()
