"""Requests for Spark's queries to a broker's metrics endpoint."""

from __future__ import annotations

import pytest

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.queries import read_queries


@pytest.mark.parametrize("url", ["http://localhost:9404x", "http://127.0.0.1:1/queries"])
def test_unusable_address_is_one_line(url: str) -> None:
    with pytest.raises(CommandError) as refused:
        read_queries(url, 1)
    assert "\n" not in str(refused.value)
