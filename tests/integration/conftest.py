"""A server of the network room on real sockets, under either event loop."""

from __future__ import annotations

import os

import pytest

from tests.support.echo_application import Application, Slice
from tests.support.network import ServerThread


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
