"""Check the configuration of a broker whose controllers are other nodes (process.roles=broker)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .errors import Problem, rule
from .values import ConfigValue

_VOTERS = "controller.quorum.voters"
_SERVERS = "controller.quorum.bootstrap.servers"
_NAMES = "controller.listener.names"


def member_problems(values: Mapping[str, ConfigValue]) -> Iterator[Problem]:
    """Yield why these values describe no member, with Apache Kafka's messages where it has the rule."""
    node_id = values["node.id"]
    if node_id in voter_ids(values):
        sentence = (
            "If process.roles contains just the 'broker' role, the node id "
            f"{node_id} must not be included in the set of voters {_VOTERS}={sorted(voter_ids(values))}"
        )
        yield Problem(_VOTERS, _joined(values, _VOTERS), sentence, "other node ids", sentence=sentence)
    if not values[_VOTERS] and not values[_SERVERS]:
        yield rule(f"process.roles=broker: set {_SERVERS} to the addresses of the controllers", _SERVERS)
    if not values[_NAMES]:
        sentence = f"{_NAMES} must contain at least one value when running KRaft with just the broker role"
        yield rule(sentence, _NAMES)


def controller_addresses(values: Mapping[str, ConfigValue]) -> list[tuple[str, int]]:
    """Return host and port of each controller in controller.quorum.bootstrap.servers, or else in the voters."""
    servers, voters = values[_SERVERS], values[_VOTERS]
    assert isinstance(servers, tuple)
    assert isinstance(voters, tuple)
    found = [each.rpartition(":") for each in servers or [each.partition("@")[2] for each in voters]]
    return [(host.strip("[]"), int(port)) for host, _, port in found]


def quorum_problems(values: Mapping[str, ConfigValue]) -> Iterator[Problem]:
    """Yield why a node that is broker and controller cannot be the only voter."""
    others = sorted(voter_ids(values) - {values["node.id"]})
    if others and values["node.id"] in voter_ids(values):
        reason = f"a quorum of several controllers is not supported (others: {', '.join(map(str, others))})"
        yield Problem(_VOTERS, _joined(values, _VOTERS), reason, "this node alone")
    servers = values[_SERVERS]
    if values[_NAMES] and isinstance(servers, tuple) and len(servers) > 1:
        reason = "a quorum of several controllers is not supported"
        yield Problem(_SERVERS, _joined(values, _SERVERS), reason, "the address of this node alone")


def voter_ids(values: Mapping[str, ConfigValue]) -> set[int]:
    """Return the node ids in controller.quorum.voters, whose entries are id@host:port."""
    voters = values[_VOTERS]
    return {int(each.partition("@")[0]) for each in voters} if isinstance(voters, tuple) else set()


def _joined(values: Mapping[str, ConfigValue], key: str) -> str:
    value = values[key]
    return ",".join(value) if isinstance(value, tuple) else str(value)
