"""The registration of a member: its addresses, features and directories."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from broker.network.listener import Listener
from config import BrokerConfig
from controller.endpoints import SECURITY_PROTOCOLS
from metadata.features import SUPPORTED_FEATURES
from protocol.messages.broker_registration import Feature
from protocol.messages.broker_registration import Listener as RegisteredListener
from protocol.schema import Struct
from replication.lifecycle import Identity, LifecycleTimes
from replication.observing import ObserverLimits
from runtime.ids import random_id


def identity(
    config: BrokerConfig, cluster_id: str, bound: Iterable[Listener], log_dirs: list[bytes], previous_epoch: int
) -> Identity:
    """Return the registration of a run. Blocks if the name of this machine is looked up."""
    return Identity(
        config.node_id,
        cluster_id,
        random_id(),
        _listeners(config, bound),
        _features(),
        config.rack,
        log_dirs,
        previous_epoch,
    )


def times(config: BrokerConfig) -> LifecycleTimes:
    """Return the times of heartbeats and sessions."""
    return LifecycleTimes(
        config.get_int("broker.heartbeat.interval.ms"),
        config.get_int("broker.session.timeout.ms"),
        config.get_int("initial.broker.registration.timeout.ms"),
        config.get_int("log.dir.failure.timeout.ms"),
    )


def observer_limits(config: BrokerConfig) -> ObserverLimits:
    """Return the limits of fetches from the metadata log."""
    return ObserverLimits(
        config.get_int("controller.quorum.fetch.max.bytes"),
        config.get_int("controller.quorum.fetch.snapshot.max.bytes"),
        config.get_int("controller.quorum.retry.backoff.ms"),
    )


def _listeners(config: BrokerConfig, bound: Iterable[Listener]) -> list[Struct]:
    """Return the advertised listeners. As in Kafka, port 0 is the bound one, and no host is this machine's name."""
    ports = {each.name: each.port for each in bound}
    return [
        RegisteredListener(
            name=each.name,
            host=each.host or socket.getfqdn(),
            port=each.port or ports[each.name],
            security_protocol=SECURITY_PROTOCOLS[each.security_protocol],
        )
        for each in config.advertised_listeners
    ]


def _features() -> list[Struct]:
    return [
        Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in SUPPORTED_FEATURES.items()
    ]
