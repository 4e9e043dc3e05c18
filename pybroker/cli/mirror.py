"""`pybroker mirror`: copy topics and groups of a cluster into another, with offsets, until clients move over."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.option_values import key_value, seconds

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker mirror --source kafka:9092 --bootstrap-server localhost:9092
  pybroker mirror --source kafka:9092 --topic orders --topic audit --groups 'shop.*'
  pybroker mirror --source kafka:9092 --until-end      (for the switch-over: clients no longer write to the source)"""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser(
        "pybroker mirror", "Copy topics of a cluster, with their offsets, and follow until the switch-over.", _EXAMPLES
    )
    parser.add_argument("--source", required=True, metavar="HOST:PORT,...", help="the cluster to copy")
    parser.add_argument("--source-config", type=Path, metavar="FILE", help="client properties for the source")
    parser.add_argument(
        "--source-property",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one client property for the source",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC", help="copy this topic; can be repeated"
    )
    chosen.add_argument("--topics", type=_regex, metavar="REGEX", help="copy topics whose names match (default: all)")
    groups = parser.add_mutually_exclusive_group()
    groups.add_argument(
        "--groups", type=_regex, metavar="REGEX", help="copy offsets of groups whose names match (default: all)"
    )
    groups.add_argument("--no-groups", action="store_true", help="copy no offsets of groups")
    parser.add_argument(
        "--gaps",
        choices=("markers", "records"),
        default="markers",
        help="what to write at offsets that have no record in the source: an empty transaction's marker, which "
        "consumers do not see (the default), or a record without a value, which is faster in compacted topics",
    )
    parser.add_argument("--until-end", action="store_true", help="stop at the current end of the source")
    parser.add_argument(
        "--interval",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help="between checks for new topics and offsets (10)",
    )
    parser.add_client_options()
    parser.set_defaults(run=_mirror)
    return parser


def _mirror(session: Session, options: argparse.Namespace) -> None:
    from pybroker.cli.client.connection import connection
    from pybroker.cli.client.session import Session as Made
    from pybroker.mirror.groups import GroupOffsets
    from pybroker.mirror.interrupt import Interrupt
    from pybroker.mirror.run import MirrorRun, marker_maker

    if "" in options.topic:
        raise UsageError("which topic?")
    source = Made(
        connection(options.source, options.timeout, file=options.source_config, properties=options.source_property)
    )
    if source.cluster.cluster_id == session.cluster.cluster_id:
        raise UsageError("--source and --bootstrap-server are the same cluster")
    groups = None if options.no_groups else GroupOffsets(source, session, options.groups)
    with ExitStack() as stack, Interrupt() as interrupt:
        prefix = f"pybroker-mirror-{source.cluster.cluster_id}-"
        MirrorRun(source, session, options, groups, marker_maker(stack, session, prefix), interrupt).run()


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
