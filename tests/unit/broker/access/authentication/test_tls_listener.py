"""A listener's certificates while the broker runs, and which threads run the steps of TLS handshakes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import pkcs12

from broker.access.authentication import tls_listener
from broker.access.authentication.tls_listener import TlsListener
from broker.main_process import MainProcess
from config import load
from runtime.deferred import Deferred
from runtime.timers import Timers
from tests.support.certificates import PASSWORD, Authority
from tests.support.fake_loop import FakeLoop


class Watched:
    """A listener with a keystore. The test moves the broker's clock."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.store = self.authority.issue("server").with_suffix(".p12")
        self.loop = FakeLoop()
        config = load(overrides={"ssl.keystore.location": str(self.store), "ssl.keystore.password": PASSWORD})
        broker: Any = SimpleNamespace(
            config=config, timers=Timers(self.loop, self.loop.clock), handshakes=object(), offload=self._offload
        )
        self.reading: list[tuple[Callable[[], ssl.SSLContext], Deferred[ssl.SSLContext]]] = []
        self.is_held = False
        listener: Any = SimpleNamespace(name="IN", security_protocol="SSL")
        self.broker = broker
        self.listener = TlsListener(listener, broker)

    def _offload(self, function: Callable[[], ssl.SSLContext]) -> Deferred[ssl.SSLContext]:
        deferred: Deferred[ssl.SSLContext] = Deferred()
        self.reading.append((function, deferred))
        if not self.is_held:
            self.release()
        return deferred

    def release(self, place: int = 0) -> None:
        """Run the jobs that were moved off the loop."""
        function, deferred = self.reading.pop(place)
        try:
            deferred.resolve(function())
        except Exception as error:
            deferred.fail(error)

    @property
    def context(self) -> ssl.SSLContext:
        """Return the certificate that a new connection gets."""
        return self.listener._secured.context

    def look(self) -> None:
        self.loop.advance(tls_listener._LOOK_MS)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_new_certificates_are_found(watched: Watched) -> None:
    before = watched.context
    watched.look()
    assert watched.context is before
    watched.authority.issue("server")
    watched.look()
    assert watched.context is not before


@pytest.mark.parametrize(
    "failure", [UnsupportedAlgorithm("an old cipher"), TypeError("no key"), PermissionError(13, "no")]
)
def test_an_unusable_store_does_not_end_the_checks(
    watched: Watched, failure: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the failure, the old certificates stay, and a log line gives the reason.

    The next valid store is used.
    """

    def fail(data: bytes, password: bytes) -> None:
        raise failure

    before = watched.context
    with monkeypatch.context() as patch:
        patch.setattr(pkcs12, "load_pkcs12", fail)
        watched.authority.issue("server")
        watched.look()
    assert watched.context is before
    assert "IN keeps its certificates" in caplog.text
    watched.authority.issue("server")
    watched.look()
    assert watched.context is not before


def test_stores_are_read_off_the_loop(watched: Watched) -> None:
    """The hash of a store's password may take long. If two stores are being read, the later one counts."""
    before = watched.context
    watched.is_held = True
    for _ in range(2):
        watched.authority.issue("server")
        watched.look()
    assert watched.context is before
    watched.release(1)
    after = watched.context
    assert after is not before
    watched.release()
    assert watched.context is after


def test_an_unexpected_error_does_not_end_the_checks(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    before = watched.context
    with monkeypatch.context() as patch:
        patch.setattr(watched.listener, "_reload", lambda: 1 // 0)
        watched.authority.issue("server")
        watched.look()
    watched.look()
    assert watched.context is not before


def test_a_file_that_disappears_during_a_check(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two checks, or within one."""
    before = watched.context
    watched.store.unlink()
    monkeypatch.setattr("os.path.exists", lambda path: True)
    watched.look()
    assert watched.context is before
    watched.authority.issue("server")
    watched.look()
    assert watched.context is not before


def test_handshakes_have_threads_of_their_own(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that only connect neither delay the data path nor stop the broker from receiving."""
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(tls_listener, "TlsTransport", lambda *args: made.append(args))
    nothing: Any = None
    watched.listener.connect(nothing, nothing, nothing, nothing)
    assert watched.broker.handshakes in made[0]

    loop = asyncio.new_event_loop()
    broker = MainProcess(load(), loop)
    for _ in range(10):
        broker.handshakes(lambda: None)
    assert broker.server._queued_requests == 0
    assert broker.handshakes is not broker.offload
    broker._close_pools()
    broker.workers.close()
    loop.close()
