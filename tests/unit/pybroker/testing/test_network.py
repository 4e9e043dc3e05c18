"""Which nodes of a cluster hold back what, for each cut of its network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pybroker.testing.errors import BrokerError
from pybroker.testing.network import Network

WHOLE: Mapping[str, object] = {"clients": False, "sending_to": [], "receiving_from": []}


class Node:
    """Notes its commands. `fails` makes it die of the next command."""

    def __init__(self, port: int) -> None:
        self.is_running = True
        self.is_suspended = False
        self.listeners = {"PLAINTEXT": f"127.0.0.1:{port}"}
        self.cuts: Any = dict(WHOLE)
        self.told = 0
        self.fails = False

    def _ask(self, command: str, **arguments: object) -> None:
        assert command == "cut_off"
        if self.fails:
            self.is_running = False
        if not self.is_running:
            raise BrokerError("the broker is not running")
        self.told += 1
        self.cuts = arguments

    def _tell(self, line: bytes) -> None:
        self._ask(**json.loads(line)["arguments"], command="cut_off")


@pytest.fixture
def nodes() -> list[Node]:
    return [Node(1), Node(2), Node(3)]


@pytest.fixture
def network(nodes: list[Node]) -> Network:
    made = Network()
    made.nodes = nodes
    return made


def cut(nodes: list[Node]) -> list[tuple[object, object]]:
    """The ports that each node sends nothing to, and receives nothing from."""
    return [(each.cuts["sending_to"], each.cuts["receiving_from"]) for each in nodes]


@pytest.mark.parametrize("clients", [True, False])
def test_a_node_is_cut_off_at_both_ends(network: Network, nodes: list[Node], clients: bool) -> None:
    """Each node holds back what passes on connections that it has opened itself."""
    network.cut_off(nodes[0], clients=clients)
    assert cut(nodes) == [([2, 3], [2, 3]), ([1], [1]), ([1], [1])]
    assert [each.cuts["clients"] for each in nodes] == [clients, False, False]
    assert (network.is_cut_off(nodes[0]), network.is_cut_off(nodes[1])) == (True, False)
    network.reconnect(nodes[0])
    assert [each.cuts for each in nodes] == [WHOLE] * 3


def test_a_link_is_cut_in_one_direction_or_both(network: Network, nodes: list[Node]) -> None:
    network.cut_link(nodes[0], nodes[1], one_way=True)
    assert cut(nodes) == [([2], []), ([], [1]), ([], [])]
    assert network.passes(nodes[1], nodes[0])
    assert not network.are_linked(nodes[1], nodes[0])
    network.cut_link(nodes[1], nodes[2], one_way=False)
    assert cut(nodes) == [([2], []), ([3], [1, 3]), ([2], [2])]
    network.reconnect(nodes[2])
    assert cut(nodes) == [([2], []), ([], [1]), ([], [])]
    network.reconnect()
    assert [each.cuts for each in nodes] == [WHOLE] * 3
    with pytest.raises(BrokerError, match="no link to itself"):
        network.cut_link(nodes[0], nodes[0], one_way=False)


def test_each_node_is_told_of_changes_alone(network: Network, nodes: list[Node]) -> None:
    network.cut_link(nodes[0], nodes[1], one_way=True)
    network.cut_link(nodes[0], nodes[1], one_way=True)
    assert [each.told for each in nodes] == [1, 1, 0]


def test_stopped_nodes_learn_when_they_run(network: Network, nodes: list[Node]) -> None:
    """A suspended one cannot answer; a started one has to know before it connects to others."""
    nodes[1].is_suspended = True
    nodes[2].is_running = False
    network.cut_off(nodes[0], clients=True)
    assert cut(nodes)[1:] == [([], [])] * 2
    nodes[1].is_suspended = False
    network.update()
    nodes[2].is_running = True
    network.begin(nodes[2])
    assert cut(nodes)[1:] == [([1], [1])] * 2
    network.update()
    network.reconnect()
    network.begin(nodes[2])  # it has nothing to be told
    assert [each.told for each in nodes] == [2, 2, 2]


def test_a_node_that_dies_is_no_failure(network: Network, nodes: list[Node]) -> None:
    nodes[1].fails = True
    network.cut_off(nodes[0], clients=True)
    assert cut(nodes)[2] == ([1], [1])
