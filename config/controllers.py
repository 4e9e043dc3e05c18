"""Check the configuration of a controller (process.roles=controller), which is the only voter of its quorum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .errors import Problem, rule
from .membership import voter_ids
from .values import ConfigValue

_VOTERS = "controller.quorum.voters"
_SERVERS = "controller.quorum.bootstrap.servers"
_NAMES = "controller.listener.names"


def controller_problems(values: Mapping[str, ConfigValue]) -> Iterator[Problem]:
    """Yield why these values describe no controller alone, with Apache Kafka's messages where it has the rule."""
    node_id = values["node.id"]
    names, voters, servers = (_texts(values, key) for key in (_NAMES, _VOTERS, _SERVERS))
    if not names:
        sentence = (
            f"{_NAMES} must contain at least one value appearing in the 'listeners' configuration when running the "
            "KRaft controller role"
        )
        yield rule(sentence, _NAMES)
    if voters and voter_ids(values) != {node_id}:
        if node_id not in voter_ids(values):
            sentence = (
                f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set "
                f"of voters {_VOTERS}={sorted(voter_ids(values))}"
            )
            yield Problem(_VOTERS, ",".join(voters), sentence, f"{node_id}@host:port", sentence=sentence)
        else:
            others = ", ".join(str(each) for each in sorted(voter_ids(values) - {node_id}))
            reason = f"a quorum of several controllers is not supported (others: {others})"
            yield Problem(_VOTERS, ",".join(voters), reason, "this node alone")
    if len(servers) > 1:
        reason = "a quorum of several controllers is not supported"
        yield Problem(_SERVERS, ",".join(servers), reason, "the address of this controller alone")


def _texts(values: Mapping[str, ConfigValue], key: str) -> tuple[str, ...]:
    value = values[key]
    return value if isinstance(value, tuple) else ()
