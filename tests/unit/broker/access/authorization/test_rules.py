"""Every API has a rule; what a rule takes out of a request, and what it puts into the answer."""

from __future__ import annotations

from broker.access.authorization.rules import RULES
from broker.requests.served_api import discover
from protocol.registry import API_BY_KEY


def test_every_api_has_a_rule() -> None:
    """So that none can be served unasked."""
    without = [API_BY_KEY[key].name for key in discover() if key not in RULES]
    assert without == []


def test_no_rule_is_left_over() -> None:
    assert sorted(RULES) == sorted(discover())
