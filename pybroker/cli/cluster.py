"""`pybroker cluster`: show the cluster's id and its brokers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker cluster", "A cluster and its brokers.")
    parser.add_action("describe", _describe, "show the brokers, as clients see them")
    parser.add_action("id", _id, "print the cluster id")
    return parser


def _describe(session: Session, options: argparse.Namespace) -> None:
    cluster = session.cluster
    controller = cluster.controller.id if cluster.controller is not None else None
    rows: list[dict[str, object]] = [
        {
            "broker": each.id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "controller": each.id == controller,
        }
        for each in sorted(cluster.nodes, key=lambda node: node.id)
    ]
    if options.json:
        show([{"cluster_id": cluster.cluster_id, "controller": controller, "brokers": rows}], as_json=True)
        return
    print(f"cluster {cluster.cluster_id}")
    show(rows, as_json=False)


def _id(session: Session, options: argparse.Namespace) -> None:
    if options.json:
        show([{"cluster_id": session.cluster.cluster_id}], as_json=True)
    else:
        print(session.cluster.cluster_id)
