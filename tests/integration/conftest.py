"""Fixtures that integration tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker.testing import Broker
from tests.support.brokers import marked_broker
from tests.support.certificates import Authority
from tests.support.echo_application import Application, Slice
from tests.support.network import ServerThread
from tests.support.shell import Shell


@pytest.fixture
def application(tmp_path):
    Slice.releases = 0
    application = Application(tmp_path / "segment")
    yield application
    os.close(application.fd)


@pytest.fixture(params=["uvloop", "asyncio"])
def server(request, application):
    with ServerThread(application.handlers, use_uvloop=request.param == "uvloop") as server:
        yield server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Return an authority that signs certificates."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def sh(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell whose commands talk to the test's broker."""
    return Shell(broker.bootstrap_servers, capsys)


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run a broker with default properties, or that of the marker `broker`, unless a file has a broker of its own."""
    with marked_broker(request, tmp_path_factory.mktemp("broker"), Broker) as running:
        yield running
