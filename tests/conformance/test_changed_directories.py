"""Both brokers refuse to start with a changed log.dirs or metadata.log.dir that would hide topics.

They change nothing, and with the old settings all topics are there again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import BROKERS, HOST, RunningBroker
from tests.support.data_client import DataClient, batch
from tests.support.nodes import contents

_KAFKA = (
    "Found unexpected metadata location in data directory `{other}/__cluster_metadata-0`"
    " (the configured metadata directory is {metadata})."
)
_OURS = "{other}: has a metadata log (__cluster_metadata-0), but the configured metadata directory is {metadata}"
#: The message of each broker if another directory has the metadata log, and if the new one is not formatted either.
MESSAGES = {
    "ours": {"log": _OURS, "unformatted": "{metadata}: has no meta.properties, while {other} has one: is it mounted?"},
    "kafka": {"log": _KAFKA, "unformatted": _KAFKA},
}


@pytest.fixture(params=["ours", "kafka"])
def stopped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """Return a stopped broker with two log directories, `logs` and `more`, and a topic with a record in each."""
    broker = BROKERS[request.param](tmp_path, {"log.dirs": f"{tmp_path}/logs,{tmp_path}/more"})
    with DataClient(HOST, broker.port) as client:
        client.create_topic("orders", 2)
        for partition in range(2):
            client.produce("orders", batch(b"two apples"), partition)
    assert len(list(tmp_path.glob("*/orders-*"))) == 2
    assert broker.stop() in (0, 143)
    yield broker
    broker.kill()


def test_changed_settings_are_refused(stopped: RunningBroker, tmp_path: Path) -> None:
    """The other order, the metadata log elsewhere, and a new first directory."""
    logs, more, new = (f"{tmp_path}/{name}" for name in ("logs", "more", "new"))
    changes = (
        ({"log.dirs": f"{more},{logs}"}, "log", more),
        ({"log.dirs": f"{logs},{more}", "metadata.log.dir": more}, "log", more),
        ({"log.dirs": f"{new},{logs},{more}"}, "unformatted", new),
    )
    before = {name: contents(tmp_path / name) for name in ("logs", "more")}
    settings = stopped._properties
    for change, message, metadata in changes:
        stopped._properties = {**settings, **change}
        printed = len(stopped.output)
        stopped.spawn()
        assert stopped.wait() == 1
        assert MESSAGES[stopped.kind][message].format(other=logs, metadata=metadata) in stopped.output[printed:]
        assert {name: contents(tmp_path / name) for name in before} == before
    stopped._properties = settings
    stopped.start()
    with DataClient(HOST, stopped.port) as client:
        assert [client.values("orders", partition) for partition in range(2)] == [[b"two apples"], [b"two apples"]]
