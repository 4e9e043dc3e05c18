"""`pybroker restore DIR TOPIC --bootstrap-server HOST:PORT`: write an archived topic into a topic, each record once.

Exit codes: 0 all records are written; 1 the archive, the topic, the broker, Java or Spark is unavailable, or the topic
cannot be restored into; 2 a bad command line; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from pybroker.cli.archive_options import add_client, add_spark, properties_of, run
from pybroker.cli.parser import OneLineParser

_PROG = "pybroker restore"


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    options = _options(arguments)
    return run(_PROG, lambda report: _run(options, report))


def _run(options: argparse.Namespace, report: Callable[[str], None]) -> int:
    from pybroker.archive.jobs import Spark
    from pybroker.archive.restoring import Target, restore
    from pybroker.archive.store import Archive

    topic = options.into or options.topic
    target = Target(options.properties, topic, append=options.append, exact_offsets=options.exact_offsets)
    spark = Spark(options.master, options.memory)
    try:
        with Archive(options.archive.absolute(), writing=False) as archive:
            results = restore(archive, options.topic, target, spark, options.state, report)
    finally:
        spark.stop()
    for each in results:
        kept = f"offsets below {each.kept_below} are kept" if each.kept_below else "offsets are not kept"
        report(f"{topic}-{each.partition}: {each.written} records written, {each.found} were there; {kept}")
    if options.json:
        fields = {"archive": str(options.archive), "topic": options.topic, "into": topic}
        print(json.dumps({**fields, "partitions": [asdict(each) for each in results]}))
    return 0


def command_line() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(prog=_PROG, description="Restore an archived topic into a topic, each record once.")
    parser.add_argument("archive", type=Path, metavar="DIR", help="the archive, made by pybroker archive")
    parser.add_argument("topic", metavar="TOPIC", help="the archived topic")
    add_client(parser, required=True)
    parser.add_argument("--into", metavar="TOPIC", help="the topic to write to (default: the same name)")
    parser.add_argument("--append", action="store_true", help="append after existing records")
    parser.add_argument("--exact-offsets", action="store_true", help="fail unless every record keeps its offset")
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="where to store the progress (a file in the archive)"
    )
    add_spark(parser)
    return parser


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_line()
    options = parser.parse_args(arguments)
    options.properties = properties_of(parser, options)
    return options
