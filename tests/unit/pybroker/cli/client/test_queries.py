"""What is asked of a broker's metrics about Spark's queries."""

from __future__ import annotations

import pytest

from pybroker.cli.client.errors import CommandError
from pybroker.cli.client.queries import read_queries


@pytest.mark.parametrize("url", ["http://localhost:9404x", "http://127.0.0.1:1/queries"])
def test_address_that_is_of_no_use_is_one_line(url: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(CommandError) as refused:
        read_queries(url, 1)
    assert "\n" not in str(refused.value)
