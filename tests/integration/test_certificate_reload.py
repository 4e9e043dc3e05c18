"""Certificates are replaced under load: open connections stay, new ones get the new certificate.

An unusable file keeps the old certificates, and the log has the file and the reason.
"""

from __future__ import annotations

import shutil
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from cryptography import x509

from protocol.messages.metadata import METADATA
from tests.support.brokers import HOST, OurBroker
from tests.support.certificates import PASSWORD, Authority
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.wire import Closed, WireClient

_TOPIC = "written-all-the-while"
_SCRIPT = """
from pybroker.engine_process import enter

enter()
import broker.access.authentication.tls_listener as listener
from broker.main import run
listener._LOOK_MS = 200
run()
"""
_KEPT = "Listener MUTUAL keeps its certificates: "
_RELOADED = "Listener MUTUAL has reloaded its certificates"


class FrequentlyChecking(OurBroker):
    """Checks for new certificates five times a second."""

    def _command(self, config: Path) -> list[str]:
        return [sys.executable, "-c", _SCRIPT, str(config)]


class Stage:
    """A listener that asks for certificates; `keys` and `trusted` are its stores, PEM or PKCS12."""

    def __init__(self, directory: Path, suffix: str) -> None:
        self.old, self.new = (Authority(_made(directory / name), name) for name in ("old", "new"))
        self.keys, self.trusted = (directory / f"{name}{suffix}" for name in ("keys", "trusted"))
        self._suffix = suffix
        self.replace(self.keys, self.old.issue("server"))
        self.replace(self.trusted, self.old.path)
        port, self.port = free_port(), free_port()
        store = {".pem": {"type": "PEM"}, ".p12": {"type": "PKCS12", "password": PASSWORD}}[suffix]
        own = {
            "ssl.client.auth": "required",
            "ssl.keystore.location": str(self.keys),
            "ssl.truststore.location": str(self.trusted),
            **{f"ssl.{kind}.{key}": value for kind in ("keystore", "truststore") for key, value in store.items()},
        }
        self.broker = FrequentlyChecking(
            directory / "broker",
            {
                "listeners": f"PLAINTEXT://{HOST}:{port},MUTUAL://{HOST}:{self.port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MUTUAL:SSL",
                **{f"listener.name.mutual.{key}": value for key, value in own.items()},
            },
            port=port,
        )

    def replace(self, store: Path, by: Path) -> None:
        """Replace the store atomically, so that the listener never reads half of it."""
        copy = store.with_suffix(".tmp")
        shutil.copy(by.with_suffix(self._suffix), copy)
        copy.replace(store)

    def client(self, authority: Authority) -> WireClient:
        """Connect with a certificate of this authority; raise `Closed` if the broker rejects it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.old.path)
        context.load_verify_locations(self.new.path)
        context.load_cert_chain(authority.issue("client"))
        try:
            client = WireClient(HOST, self.port, secure=lambda plain: context.wrap_socket(plain, server_hostname=HOST))
        except OSError as error:
            raise Closed(str(error)) from None
        try:
            ask(client)
        except (OSError, Closed) as error:
            client.close()
            raise Closed(str(error)) from None
        return client

    def wait_for_log(self, line: str, times: int = 1) -> None:
        """Wait until the log has the line this many times."""
        eventually(lambda: self.broker.output.count(line) >= times, lambda: self.broker.output)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def ask(client: WireClient) -> None:
    assert client.call(METADATA, 12, topics=[]).error_code == 0


def issuer(client: WireClient) -> str:
    """Return the name of the authority that signed the broker's certificate."""
    assert isinstance(client.socket, ssl.SSLSocket)
    shown = client.socket.getpeercert(binary_form=True)
    assert shown is not None
    [name] = x509.load_der_x509_certificate(shown).issuer
    return str(name.value)


class Load:
    """A producer and a consumer of librdkafka that run all the time; `failed` are their errors."""

    def __init__(self, stage: Stage) -> None:
        own = str(stage.old.issue("worker"))
        self.failed: list[KafkaError] = []
        settings = {
            "bootstrap.servers": f"{HOST}:{stage.port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(stage.old.path),
            "ssl.certificate.location": own,
            "ssl.key.location": own,
            "error_cb": self.failed.append,
        }
        self._producer = Producer({**settings, "linger.ms": 0})
        self._consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
        self.sent = self.read = 0
        self._is_over = threading.Event()
        self._send(1)
        self._consumer.subscribe([_TOPIC])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(_TOPIC, b"%d" % self.sent)
            self.sent += 1
        assert self._producer.flush(60) == 0

    def _poll(self, timeout_s: float) -> None:
        message = self._consumer.poll(timeout_s)
        if message is not None and message.error() is None:
            assert message.value() == b"%d" % self.read
            self.read += 1

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._send(1)
            self._poll(0.05)

    def wait_for_progress(self) -> None:
        """Wait until both have sent and read another record."""
        sent, read = self.sent, self.read
        eventually(lambda: self.sent > sent and self.read > read, lambda: (self.sent, self.read, self.failed))

    def end(self) -> None:
        """Stop, and read the rest; records were in order and each once."""
        self._is_over.set()
        self._thread.join()
        deadline = time.monotonic() + 60
        while self.read < self.sent and time.monotonic() < deadline:
            self._poll(0.2)
        self._consumer.close()


@pytest.fixture(params=[".pem", ".p12"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, request.param)
    yield made
    made.broker.stop()


def test_certificates_are_replaced_under_load(stage: Stage) -> None:
    with ExitStack() as stack:
        connected = stack.enter_context(stage.client(stage.old))
        work = Load(stage)
        stack.callback(work.end)
        work.wait_for_progress()  # librdkafka has all its connections by now
        assert issuer(connected) == "old"
        with pytest.raises(Closed):
            stage.client(stage.new)

        stage.replace(stage.keys, stage.new.issue("server"))
        stage.wait_for_log(_RELOADED, 1)
        with stage.client(stage.old) as another:
            assert issuer(another) == "new"
        ask(connected)
        work.wait_for_progress()

        stage.replace(stage.trusted, stage.new.path)
        stage.wait_for_log(_RELOADED, 2)
        stack.enter_context(stage.client(stage.new))
        with pytest.raises(Closed):
            stage.client(stage.old)
        ask(connected)
        work.wait_for_progress()

        for number, (store, key) in enumerate(((stage.keys, "keystore"), (stage.trusted, "truststore")), 1):
            whole = store.read_bytes()
            store.write_bytes(whole[: len(whole) // 3])
            stage.wait_for_log(_KEPT, number)
            [*_, line] = [each for each in stage.broker.output.splitlines() if _KEPT in each]
            assert f"listener.name.mutual.ssl.{key}.location={store}" in line
            assert PASSWORD not in line
            with stage.client(stage.new) as another:
                assert issuer(another) == "new"
            ask(connected)
            work.wait_for_progress()
            store.write_bytes(whole)
            stage.wait_for_log(_RELOADED, 2 + number)
    assert work.failed == []
    assert work.read == work.sent
    assert stage.broker.output.count(_KEPT) == 2
