"""The quorum of one node, with real directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.startup.node import Node, open_node
from config import BrokerConfig, load
from controller.formatting import make_ready
from controller.quorum import MetadataQuorum, Voter
from metadata.decision import Refused
from metadata.feature_updates import FeatureUpdate
from protocol.error_codes import ErrorCode
from protocol.primitives import ZERO_UUID
from runtime.ids import random_id
from storage.fs import LOCAL
from tests.support.controllers import ControllerHarness

OTHER = Voter(2, b"a" * 16, (("CONTROLLER", "localhost", 1),))


def config(directory: Path) -> BrokerConfig:
    listener = "PLAINTEXT://127.0.0.1:9092"
    return load(None, overrides={"node.id": "1", "listeners": listener, "log.dirs": str(directory)})


def start(directory: Path) -> tuple[Node, MetadataQuorum]:
    """Return the node, and its quorum with a controller that is not used."""
    node = open_node(config(directory), 1000)
    harness = ControllerHarness()
    quorum = MetadataQuorum(config(directory), node.metadata_log, node.directory_ids, harness.controller, lambda: 2000)
    return node, quorum


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """Return a directory whose log does not name its voter (kraft.version 0)."""
    path = str(tmp_path)
    make_ready(LOCAL, [path], path, 1, {}, new_id=random_id, now_ms=1, static_quorum=True)
    return tmp_path


def test_the_log_names_its_voter_after_an_upgrade(static: Path):
    """KIP-853: from kraft.version 0 to 1 on a running node; quorum-state follows at the next start."""
    node, quorum = start(static)
    assert quorum.kraft_version == 0
    assert quorum.voter.directory_id == ZERO_UUID
    assert "kraft.version" not in quorum.features().levels
    quorum.update_features([FeatureUpdate("kraft.version", 1)], validate_only=True).result()
    assert quorum.kraft_version == 0
    quorum.update_features([FeatureUpdate("kraft.version", 1)]).result()
    before = quorum.voter
    assert before.directory_id == node.directory_ids[str(static)]
    node.close(3000)
    again, quorum = start(static)
    assert (quorum.kraft_version, quorum.voter) == (1, before)
    assert quorum.features().levels["kraft.version"] == 1
    assert '"data_version":1' in (static / "__cluster_metadata-0/quorum-state").read_text()
    again.close(4000)


@pytest.mark.parametrize("what", ["adding", "removing"])
def test_voters_do_not_change_under_kraft_version_0(static: Path, what: str):
    node, quorum = start(static)
    with pytest.raises(Refused) as refused:
        (quorum.add_voter if what == "adding" else quorum.remove_voter)(None, OTHER)
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert refused.value.message == f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
    node.close(2000)


def test_an_unregistered_broker_stops_and_starts(tmp_path: Path):
    """Its stop is clean, with the epoch of its registration. Its start registers it again."""
    from metadata.registration import unregister_broker
    from metadata.replay import replay_all

    node, _ = start(tmp_path)
    records = unregister_broker(node.image, 1)
    node.metadata_log.append(records, 2000)
    replay_all(node.image, records)
    assert node.image.brokers == {}
    node.close(3000)
    again, _ = start(tmp_path)
    assert again.image.brokers[1].is_active
    assert again.broker_epoch > node.broker_epoch
    again.close(4000)
