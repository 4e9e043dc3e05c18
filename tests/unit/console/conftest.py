"""A browser of the console."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.consoles import DATA, MadeUpClient, browse


@pytest.fixture
def client() -> MadeUpClient:
    return MadeUpClient()


@pytest.fixture
def browser(client: MadeUpClient) -> TestClient:
    return browse(client, [DATA])
