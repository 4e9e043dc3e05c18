"""Commands of programs in other languages for a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybroker.testing.cluster_commands import ClusterCommands
from pybroker.testing.errors import BrokerError


class Node:
    """Notes what is asked of it."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.calls: list[object] = []

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: self.calls.append((name, arguments) if arguments else name)

    def _ask(self, command: str, **arguments: object) -> str:
        self.calls.append((command, arguments))
        return "asked"


class Cluster:
    def __init__(self) -> None:
        self.controller = Node(1000)
        self.brokers = (Node(0), Node(1))

        self.calls: list[object] = []

    def cut_link(self, one: Node, other: Node, *, one_way: bool) -> None:
        self.calls.append((one.node_id, other.node_id, one_way))

    def reconnect(self) -> None:
        self.calls.append("reconnect")

    def wait_until_in_sync(self, topic: str, timeout_s: float) -> None:
        raise BrokerError(f"{topic} is not in sync after {timeout_s:g} s")


def ask(cluster: Cluster, command: object, **arguments: object) -> dict[str, Any]:
    fake: Any = cluster
    commands = ClusterCommands(fake)
    answer: dict[str, Any] = commands.answer(json.dumps({"id": 7, "command": command, "arguments": arguments}).encode())
    assert answer.pop("id") == 7
    return answer


def test_nodes_are_brokers_and_the_controller() -> None:
    cluster = Cluster()
    assert ask(cluster, "kill", node=1) == {"result": None}
    assert ask(cluster, "stop", node="controller") == {"result": None}
    assert (cluster.brokers[1].calls, cluster.controller.calls) == (["kill"], ["pause"])


def test_other_commands_go_to_the_broker() -> None:
    cluster = Cluster()
    assert ask(cluster, "roll", node=0, topic="orders") == {"result": "asked"}
    assert cluster.brokers[0].calls == [("roll", {"topic": "orders"})]


def test_the_network_is_cut_for_nodes_and_links() -> None:
    cluster = Cluster()
    for command, arguments in (
        ("cut_off", {"node": 0}),
        ("cut_off", {"node": "controller", "clients": False}),
        ("cut_link", {"one": 1, "other": "controller", "one_way": True}),
        ("reconnect", {"node": 0}),
        ("reconnect", {}),
        ("clear_faults", {"node": "controller"}),
    ):
        assert "error" not in ask(cluster, command, **arguments)
    assert cluster.brokers[0].calls == [("cut_off", {"clients": True}), "reconnect"]
    assert cluster.controller.calls == [("cut_off", {"clients": False}), ("clear_faults", {})]
    assert cluster.calls == [(1, 1000, True), "reconnect"]


@pytest.mark.parametrize(
    ("command", "arguments", "reason"),
    [
        ("kill", {"node": 2}, 'there is no node 2: brokers are 0 to 1, or "controller"'),
        ("kill", {"node": True}, "there is no node True"),
        ("kill", {}, "missing a required argument: 'node'"),
        ("kill", {"node": 0, "force": 1}, "unexpected keyword argument 'force'"),
        ("roll", {"topic": "orders"}, "those of a node have the argument node"),
        ("answer", {"line": ""}, "no command of a cluster"),
        ("_node", {"topic": ""}, "no command of a cluster"),
        ("roll", {"node": "c", "topic": "orders"}, "there is no node 'c'"),
        ("cut_link", {"one": 0, "other": 2}, "there is no node 2"),
        ("wait_until_in_sync", {"topic": "t", "timeout_s": 0.5}, "t is not in sync after 0.5 s"),
        (3, {}, "a command has a name"),
    ],
)
def test_refused_commands_have_a_reason(command: object, arguments: dict[str, object], reason: str) -> None:
    assert reason in ask(Cluster(), command, **arguments)["error"]


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff"])
def test_a_line_that_is_no_command_has_an_answer(line: bytes) -> None:
    cluster: Any = Cluster()
    commands = ClusterCommands(cluster)
    answer = commands.answer(line)
    assert answer["id"] is None
    assert answer["error"]
