"""Each API, called by users with no right, all rights, a single right, or all but one: the answers equal Apache
Kafka's.

The tests do not say which rights an API needs. Both brokers get all pairs of a request (support/asked.py) and a user
(support/rights.py); at the small size only those where whole kinds are denied, and some of the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.requests.served_api import discover
from protocol.registry import API_BY_KEY
from security.acl import Operation
from tests.support.asked import ASKED, Asked
from tests.support.recorded_answers import RecordedAnswers, plain
from tests.support.rights import ANYBODY, NOBODY, USERS, Mode, User
from tests.support.scale import scaled
from tests.support.secured import SecuredBroker

SEED = 20_264
USERS_OF_A_REQUEST = 4
ALWAYS = [NOBODY, ANYBODY, *(user for user in USERS if (user.operation, user.mode) == (Operation.ALL, Mode.DENIED))]
OTHERS = [user for user in USERS if user not in ALWAYS]


def cells() -> Iterator[tuple[Asked, User]]:
    """Yield each request with its users, in this order."""
    chance = random.Random(SEED)
    for asked in ASKED:
        some = chance.sample(OTHERS, min(len(OTHERS), scaled(USERS_OF_A_REQUEST)))
        for user in (*ALWAYS, *some):
            yield asked, user


def answers(kind: str, directory: Path) -> dict[str, Any]:
    """Return a broker's answers, by request and user."""
    secured = SecuredBroker(kind, directory)
    try:
        return {
            f"{API_BY_KEY[asked.key].name} v{asked.version} {asked.about} by {user}": secured.answer(asked, user)
            for asked, user in cells()
        }
    finally:
        secured.close()


def test_every_api_has_a_request() -> None:
    """A served API without a request here fails."""
    assert sorted({asked.key for asked in ASKED}) == sorted(discover(legacy=False))


def test_answers_equal_kafkas(tmp_path: Path, recorded: RecordedAnswers) -> None:
    """Error codes of all named objects, and the authorized operations."""
    ours = plain(answers("ours", tmp_path / "ours"))
    kafka = recorded.of("answers", lambda: answers("kafka", tmp_path / "kafka"))
    assert {title: (ours[title], kafka[title]) for title in kafka if ours[title] != kafka[title]} == {}
