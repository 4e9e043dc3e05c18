"""Each key that has an effect in members alone has a test of that effect, or a sentence why there is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from config.keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS
from config.keys.why_inert import OF_ONE_NODE

TESTS = Path(__file__).parents[2]

_HERE = "unit/broker/membership/test_member_keys.py"
_CLIENT = "unit/broker/network/test_outbound_client.py"
_FETCHES = "unit/broker/membership/test_fetch_limits.py"
_READS = "conformance/cluster/test_follower_reads.py"
_TOKENS = "unit/broker/network/test_outbound_tokens.py"
_TIMES = "integration/membership/test_other_times.py"
_SECURED = "conformance/cluster/test_secured_nodes.py::test_nodes_log_in_at_each_other"
_RENEWALS = f"{_TOKENS}::test_time_of_renewals"
_OF_THROTTLES = "conformance/cluster/test_replication_throttles.py::test_a_new_replica_is_throttled"

EFFECTS = {
    "broker.heartbeat.interval.ms": f"{_HERE}::test_time_between_heartbeats",
    "broker.session.timeout.ms": f"{_HERE}::test_half_a_session_is_the_longest_wait_after_failures",
    "initial.broker.registration.timeout.ms": "integration/membership/test_refused_members.py::test_no_controller",
    "server.max.startup.time.ms": f"{_HERE}::test_start_ends_after_a_time",
    "controlled.shutdown.enable": f"{_TIMES}::test_stop_without_a_controlled_shutdown",
    "controller.socket.timeout.ms": f"{_TIMES}::test_controller_that_is_silent_is_asked_again",
    "controller.quorum.voters": f"{_HERE}::test_addresses_of_the_controllers",
    "controller.quorum.bootstrap.servers": f"{_HERE}::test_addresses_of_the_controllers",
    "controller.quorum.fetch.max.bytes": f"{_HERE}::test_sizes_of_the_metadata_log_s_parts",
    "controller.quorum.fetch.snapshot.max.bytes": f"{_HERE}::test_sizes_of_a_snapshot_s_parts",
    "controller.quorum.request.timeout.ms": f"{_TIMES}::test_controller_that_is_silent_is_asked_again",
    "controller.quorum.retry.backoff.ms": f"{_HERE}::test_pause_after_a_failed_fetch_of_metadata",
    "socket.connection.setup.timeout.ms": f"{_CLIENT}::test_peer_that_accepts_and_says_nothing",
    "socket.connection.setup.timeout.max.ms": f"{_CLIENT}::test_peer_that_accepts_and_says_nothing",
    "log.dir.failure.timeout.ms": f"{_HERE}::test_failed_directory_that_nobody_hears_of",
    "sasl.mechanism.inter.broker.protocol": "integration/test_outbound_client.py::test_each_security_protocol",
    "sasl.mechanism.controller.protocol": _SECURED,
    "sasl.login.callback.handler.class": f"{_TOKENS}::test_configuration_without_a_token",
    "sasl.login.connect.timeout.ms": f"{_TOKENS}::test_silent_provider",
    "sasl.login.read.timeout.ms": f"{_TOKENS}::test_silent_provider",
    "sasl.login.retry.backoff.ms": f"{_TOKENS}::test_start_waits_for_the_provider",
    "sasl.login.retry.backoff.max.ms": f"{_TOKENS}::test_configuration_without_a_token",
    "sasl.login.refresh.buffer.seconds": _RENEWALS,
    "sasl.login.refresh.min.period.seconds": _RENEWALS,
    "sasl.login.refresh.window.factor": _RENEWALS,
    "sasl.login.refresh.window.jitter": _RENEWALS,
    "sasl.oauthbearer.client.credentials.client.id": f"{_TOKENS}::test_provider_is_asked_with_id_secret_and_scope",
    "sasl.oauthbearer.client.credentials.client.secret": f"{_TOKENS}::test_provider_is_asked_with_id_secret_and_scope",
    "sasl.oauthbearer.scope": f"{_TOKENS}::test_provider_is_asked_with_id_secret_and_scope",
    "sasl.oauthbearer.token.endpoint.url": f"{_TOKENS}::test_file_is_read_at_each_login",
    "replication.quota.window.num": f"{_HERE}::test_windows_of_replication_throttles",
    "replication.quota.window.size.seconds": f"{_HERE}::test_windows_of_replication_throttles",
    "num.replica.fetchers": f"{_FETCHES}::test_number_of_fetchers_changes_while_the_broker_runs",
    "replica.fetch.backoff.ms": f"{_HERE}::test_pause_after_a_failed_fetch",
    "replica.fetch.max.bytes": f"{_HERE}::test_most_bytes_of_a_partition",
    "replica.fetch.min.bytes": f"{_HERE}::test_requests_of_followers",
    "replica.fetch.response.max.bytes": f"{_HERE}::test_requests_of_followers",
    "replica.fetch.wait.max.ms": f"{_HERE}::test_requests_of_followers",
    "replica.high.watermark.checkpoint.interval.ms": f"{_HERE}::test_times_between_checkpoints_of_high_watermarks",
    "replica.lag.time.max.ms": f"{_HERE}::test_lag_of_followers_is_checked_twice_in_its_time",
    "replica.selector.class": f"{_READS}::test_the_leader_names_the_replica_in_the_rack",
    "replica.socket.receive.buffer.bytes": f"{_FETCHES}::test_connections_of_followers_have_the_limits_of_the_keys",
    "replica.socket.timeout.ms": f"{_FETCHES}::test_connections_of_followers_have_the_limits_of_the_keys",
    "leader.replication.throttled.rate": _OF_THROTTLES,
    "follower.replication.throttled.rate": _OF_THROTTLES,
    "leader.replication.throttled.replicas": _OF_THROTTLES,
    "follower.replication.throttled.replicas": _OF_THROTTLES,
}

_BY_CONTROLLERS = "controllers have no such key any more, and members send them nothing of it"
#: Keys of earlier versions that members accept and ignore.
WITHOUT_EFFECT = {
    "control.plane.listener.name": "the listener for requests of a controller under ZooKeeper",
    "controlled.shutdown.max.retries": "heartbeats ask for the shutdown until a controller answers",
    "controlled.shutdown.retry.backoff.ms": "heartbeats ask for the shutdown until a controller answers",
    "eligible.leader.replicas.enable": "the feature eligible.leader.replicas.version of the cluster decides",
    "inter.broker.protocol.version": "the feature metadata.version of the cluster decides",
    "leader.imbalance.per.broker.percentage": _BY_CONTROLLERS,
    "offsets.commit.required.acks": "commits wait for all in-sync replicas",
    "controller.message.queue.size": _BY_CONTROLLERS,
    "replica.lag.max.messages": "replica.lag.time.max.ms alone decides who is in sync",
}


def keys_of_members(*, removed: bool) -> set[str]:
    """Return the keys whose reason does not hold in a member."""
    rows = [row for table in (BROKER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS) for row in table.values()]
    return {row.name for row in rows if row.inert in OF_ONE_NODE and row.removed is removed}


def test_each_key_has_a_test() -> None:
    assert EFFECTS.keys() == keys_of_members(removed=False)


def test_each_removed_key_has_a_reason() -> None:
    assert WITHOUT_EFFECT.keys() == keys_of_members(removed=True)
    assert all(len(sentence.split()) > 3 for sentence in WITHOUT_EFFECT.values())


@pytest.mark.parametrize("named", sorted(set(EFFECTS.values())))
def test_the_named_tests_exist(named: str) -> None:
    path, _, name = named.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
