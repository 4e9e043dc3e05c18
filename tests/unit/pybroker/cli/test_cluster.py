"""`pybroker cluster`: brokers that a single broker does not have, and feature levels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.cli.client.session import Session
from pybroker.cli.cluster import command_line


class Administration:
    """A client that knows a broker which serves and one which is fenced."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, request: Any) -> Any:
        self.sent.append(request)
        brokers = [
            SimpleNamespace(broker_id=number, host="h", port=number, rack=None, is_fenced=number == 2)
            for number in (2, 1)
        ]
        return SimpleNamespace(brokers=brokers, error_code=0)

    def check(self, answer: Any) -> None:
        assert answer.error_code == 0


def test_fenced_brokers_are_shown_with_their_state(capsys: pytest.CaptureFixture[str]) -> None:
    client = Administration()

    @contextmanager
    def administration() -> Iterator[Administration]:
        yield client

    cluster = SimpleNamespace(cluster_id="c", controller=SimpleNamespace(id=1), nodes=[])
    session = SimpleNamespace(cluster=cluster, administration=administration)
    options = command_line().parse(["describe", "--include-fenced-brokers"])
    options.run(cast(Session, session), options)

    assert [line.split() for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["1", "h", "1", "-", "true", "unfenced"],
        ["2", "h", "2", "-", "false", "fenced"],
    ]
    assert client.sent[0].include_fenced_brokers is True


@pytest.mark.parametrize("words", ["share.version=-1", "share.version=x", "share.version=32768", "share.version", "=1"])
def test_invalid_feature_level_is_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line().parse(["update-features", "--feature", words])
    assert words in capsys.readouterr().err
