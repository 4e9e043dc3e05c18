"""Requests recorded with Apache Kafka, sent again in their order: every answer equals Kafka's.

The sweeps (tests/data/wire/sweep-*.tsv) request each version of each API, valid and invalid. They build on one another
(one file's topics are written to in the next), so one fresh broker gets all of them, then the sessions of stock
clients; a test checks one file's answers, or one client's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.conformance.client_sessions import CLIENTS, ClientSessions
from tests.conformance.conftest import StartBroker
from tests.conformance.sweep_rules import LEFT_OUT, sweep_rules
from tests.conformance.sweep_stage import SweepStage
from tests.support.answers import Names
from tests.support.brokers import HOST
from tests.support.replay import Replay
from tests.support.wire import WireClient, served_versions
from tests.support.wire_frames import recorded_exchanges

SWEEPS = ("admin", "data", "groups", "txn", "default")

PROPERTIES = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@dataclass
class Replayed:
    """The differences from the recording: in each sweep, and in the sessions of each client."""

    sweeps: dict[str, list[str]] = field(default_factory=dict)
    sessions: dict[str, list[str]] = field(default_factory=dict)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def replayed(request: pytest.FixtureRequest, start_broker: StartBroker) -> Replayed:
    """Replay everything against a fresh broker."""
    broker = start_broker(request.param, {**PROPERTIES, **AUTHORIZER})
    names = Names(port={29192: broker.port}, path={"/var/lib/kafka-logs-0": str(broker.log_dir)})
    found = Replayed()
    with WireClient(HOST, broker.port) as client:
        rules = sweep_rules(served_versions(client))
        stage = SweepStage(broker, client)
        stage.before_all()
        replay = Replay(broker, rules, names)
        for sweep in SWEEPS:
            found.sweeps[sweep] = []
            for exchange in filter(stage.plays, recorded_exchanges(f"sweep-{sweep}.tsv")):
                stage.before(exchange)
                differences = replay.differences(exchange)
                stage.after(exchange)
                if exchange.correlation_id not in LEFT_OUT:
                    found.sweeps[sweep] += [f"{exchange.source} v{exchange.version} {each}" for each in differences]
        sessions = ClientSessions(replay, rules, names, client)
        for name in CLIENTS:
            found.sessions[name] = sessions.differences(name)
        replay.close()
    broker.stop()
    return found


@pytest.mark.parametrize("sweep", SWEEPS)
def test_answers_are_as_recorded(replayed: Replayed, sweep: str) -> None:
    """Field by field, except the ids, times, counters and sizes of sweep_rules.py; closed connections are closed."""
    assert replayed.sweeps[sweep] == []


@pytest.mark.parametrize("client", CLIENTS)
def test_sessions_of_stock_clients_get_the_recorded_error_codes(replayed: Replayed, client: str) -> None:
    """All recorded requests of the client, in its order and on as many connections."""
    assert replayed.sessions[client] == []
