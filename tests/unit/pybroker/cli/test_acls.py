"""`pybroker acls`: what is not meant to be all."""

from __future__ import annotations

from typing import cast

import pytest

from pybroker.cli.acls import command_line
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.session import Session


@pytest.mark.parametrize("action", ["list", "add", "remove"])
@pytest.mark.parametrize(
    "option", ["--topic", "--group", "--transactional-id", "--allow-principal", "--deny-principal"]
)
def test_empty_words_stand_for_nobody(action: str, option: str) -> None:
    """As of a shell's variable that is not set: `remove --allow-principal "$WHO" --topic orders` is of WHO alone."""
    other = "User:ann" if option in ("--topic", "--group", "--transactional-id") else "orders"
    words = ["--allow-principal", other] if other == "User:ann" else ["--topic", other]
    options = command_line().parse([action, option, "", *words, "--operation", "read"])
    with pytest.raises(UsageError, match=f"{option}: which one"):
        options.run(cast(Session, None), options)


def test_all_at_once_are_not_removed() -> None:
    """Nor those of an operation, or of a host."""
    for words in ([], ["--operation", "read"], ["--host", "10.0.0.1"]):
        options = command_line().parse(["remove", *words])
        with pytest.raises(UsageError, match="of which resource or principal"):
            options.run(cast(Session, None), options)
