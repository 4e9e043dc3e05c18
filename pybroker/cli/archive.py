"""`pybroker archive DIR --topics T,...`: write records of topics into Parquet files, each once; verify, compact.

Exit codes: 0 success; 1 the log, the archive, the broker, Java or Spark is
unavailable, or the archive has errors; 2 a bad command line; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.cli.archive_options import add_client, add_spark, count, positive, properties_of, run
from pybroker.cli.parser import OneLineParser

if TYPE_CHECKING:
    from pybroker.archive.inputs import Input
    from pybroker.archive.jobs import Spark
    from pybroker.archive.store import Archive

_PROG = "pybroker archive"
_MIB = 1 << 20

Report = Callable[[str], None]


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    options = _options(arguments)
    return run(_PROG, lambda report: _run(options, report))


def _run(options: argparse.Namespace, report: Report) -> int:
    from pybroker.archive.jobs import Spark
    from pybroker.archive.store import Archive

    writing = bool(options.topics or options.compact)
    spark = Spark(options.master, options.memory)
    fields: dict[str, Any] = {"archive": str(options.archive)}
    verified = True
    try:
        with Archive(options.archive.absolute(), writing=writing, making=bool(options.topics)) as archive:
            if options.format is not None:
                archive.set_table(options.format)
            if options.topics:
                fields |= _archive(options, archive, spark, report)
            if options.compact:
                fields |= _compact(options, archive, spark, report)
            if options.verify:
                fields |= _verify(options, archive, spark, report)
                verified = fields["verified"]
    finally:
        spark.stop()
    if options.json:
        print(json.dumps(fields))
    return 0 if verified else 1


def _archive(options: argparse.Namespace, archive: Archive, spark: Spark, report: Report) -> dict[str, Any]:
    from pybroker.archive.archiving import archive_ranges
    from pybroker.archive.jobs import write_ranges
    from pybroker.archive.parquet import count_rows
    from pybroker.archive.planning import wanted_ranges

    isolation = options.isolation_level or archive.manifest.isolation
    archive.set_isolation(isolation)
    source = _input(options, isolation)
    skip = options.on_data_loss == "skip"
    plan = wanted_ranges(source.ends(options.topics), archive.manifest.ends(), skip_lost=skip)
    for lost in plan.lost:
        offsets = f"offsets {lost.start} to {lost.end - 1}"
        report(f"{lost.topic}-{lost.partition}: {offsets} were deleted before they were archived")
    ranges, files = archive_ranges(
        archive, plan.ranges, write_ranges(spark, source), count_rows, step_offsets=options.step_offsets, report=report
    )
    records = sum(each.records for each in ranges)
    report(f"{records} records are archived in {len(files)} files" if ranges else "no new records")
    return {
        "records": records,
        "files": len(files),
        "ranges": [{**each._asdict(), "checksum": f"{each.checksum:016x}"} for each in ranges],
        "lost": [each._asdict() for each in plan.lost],
    }


def _compact(options: argparse.Namespace, archive: Archive, spark: Spark, report: Report) -> dict[str, Any]:
    from pybroker.archive.compacting import compact
    from pybroker.archive.jobs import rewrite_files
    from pybroker.archive.parquet import count_rows

    target = options.target_file_mib * _MIB
    before, after = compact(archive, rewrite_files(spark, archive), count_rows, target, report)
    if not before:
        report("there is nothing to compact")
    return {"compacted": {"before": before, "after": after}}


def _verify(options: argparse.Namespace, archive: Archive, spark: Spark, report: Report) -> dict[str, Any]:
    from pybroker.archive.verifying import verify

    source = _input(options, archive.manifest.isolation) if options.bootstrap_server or options.directory else None
    found = verify(archive, spark, source)
    for problem in found.problems:
        report(problem)
    for each in found.ranges:
        state = "whole" if each.is_whole else "differs from the manifest"
        report(f"{each.range.name}: {each.range.records} records, {state}; the log: {each.log}")
    report("verified: no problems" if found.is_right else "verification failed")
    ranges = [
        {
            **{name: getattr(each.range, name) for name in ("topic", "partition", "start", "end", "records")},
            "whole": each.is_whole,
            "log": each.log,
        }
        for each in found.ranges
    ]
    return {"verified": found.is_right, "problems": found.problems, "checked": ranges}


def _input(options: argparse.Namespace, isolation: str) -> Input:
    from pybroker.archive.inputs import BrokerInput, DirectoryInput

    if options.directory is not None:
        return DirectoryInput(
            *(str(options.directory.absolute()), isolation == "read_committed"),
            active=options.include_active,
            lag=options.lag,
        )
    return BrokerInput({**options.properties, "isolation.level": isolation}, options.lag)


def command_line() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(prog=_PROG, description="Archive topics into Parquet files, each record once.")
    parser.add_argument("archive", type=Path, metavar="DIR", help="the archive; --topics creates it if it is missing")
    parser.add_argument(
        "--topics", type=_topics, metavar="T,...", help="archive these topics, from where the last run ended"
    )
    add_client(parser, required=False)
    parser.add_argument(
        "--directory", type=Path, metavar="DATA", help="read the broker's data directory, instead of asking it"
    )
    parser.add_argument(
        "--include-active", action="store_true", help="with --directory: archive the active segment too"
    )
    parser.add_argument(
        "--lag", type=count, default=0, metavar="N", help="do not archive the last N offsets of each partition"
    )
    parser.add_argument(
        "--isolation-level",
        choices=("read_committed", "read_uncommitted"),
        help="the records to archive; later runs must use the same level (default: the archive's, or read_committed)",
    )
    parser.add_argument(
        "--on-data-loss",
        choices=("fail", "skip"),
        default="fail",
        help="whether to fail or to skip records that were deleted before they were archived (%(default)s)",
    )
    parser.add_argument(
        "--step-offsets",
        type=positive,
        default=10_000_000,
        metavar="N",
        help="write and commit about this many offsets at a time (%(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "delta"),
        help="delta: also write a Delta table in this and later runs (default: the archive's; parquet for a new one)",
    )
    parser.add_argument("--compact", action="store_true", help="merge small files into large ones")
    parser.add_argument(
        "--target-file-mib", type=positive, default=128, metavar="N", help="the size of large files (%(default)s)"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare rows and checksums with the manifest, and with the log if one is given",
    )
    add_spark(parser)
    return parser


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = command_line()
    options = parser.parse_args(arguments)
    _check(parser, options)
    options.properties = properties_of(parser, options) if options.bootstrap_server else {}
    return options


def _check(parser: OneLineParser, options: argparse.Namespace) -> None:
    if options.bootstrap_server and options.directory:
        parser.error("--bootstrap-server and --directory: choose one of them")
    if options.topics and not (options.bootstrap_server or options.directory):
        parser.error("--topics requires --bootstrap-server or --directory")
    if not (options.topics or options.compact or options.verify):
        parser.error("choose --topics, --compact, --verify, or several of them")
    if options.format is not None and not (options.topics or options.compact):
        parser.error("--format requires --topics or --compact")
    if options.include_active and not options.directory:
        parser.error("--include-active requires --directory")
    if options.property and not options.bootstrap_server:
        parser.error("--property requires --bootstrap-server")
    if any(name == "isolation.level" for name, _ in options.property):
        parser.error("use --isolation-level instead of --property isolation.level")


def _topics(text: str) -> list[str]:
    topics = [each.strip() for each in text.split(",") if each.strip()]
    if not topics:
        raise argparse.ArgumentTypeError("no topic is named")
    return sorted(set(topics))
