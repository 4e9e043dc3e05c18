"""Every API has a rule. A rule removes items from a request and adds errors to the response."""

from __future__ import annotations

from broker.access.authorization.rules import RULES
from broker.controlling.apis import controller_apis
from broker.requests.served_api import discover
from protocol.registry import API_BY_KEY


def test_every_api_has_a_rule() -> None:
    """No API can be served without authorization, neither by a broker nor by a controller."""
    without = [API_BY_KEY[key].name for key in (*discover(), *controller_apis()) if key not in RULES]
    assert without == []


def test_no_rule_is_without_an_api() -> None:
    assert set(RULES) == {*discover(), *controller_apis()}
