"""`pybroker perf`: measure a cluster, with the output of Apache Kafka's performance tools."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show
from pybroker.cli.client.progress import ProgressBar
from pybroker.cli.option_values import key_value, natural, positive, regex, seconds
from pybroker.perf.date_formats import DATE_FORMAT, checked_format
from pybroker.text_files import file_bytes

if TYPE_CHECKING:
    from pybroker.cli.client.session import Session
    from pybroker.perf.producing import Produced

#: The lines of --payload-file are kept in memory.
_PAYLOAD_FILE_BYTES = 1 << 30
#: The duration of transactions, if only their id is given: that of Kafka's tool.
_TRANSACTION_MS = 3000
_EXAMPLES = """\
examples:
  pybroker perf produce --topic load --num-records 1000000 --record-size 100 -X acks=all
  pybroker perf produce --topic load --num-records 60000 --throughput 1000 --producer-props linger.ms=5
  pybroker perf consume --topic load --num-records 1000000
  pybroker perf end-to-end --topic load --num-records 1000"""


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker perf", "Measure the throughput and latency of a cluster.", _EXAMPLES)
    produced = parser.add_action("produce", _produce, "measure throughput and latency of a producer")
    _add_load(produced)
    content = produced.add_mutually_exclusive_group()
    content.add_argument("--record-size", type=positive, metavar="BYTES", help="size of values of random letters (100)")
    content.add_argument("--payload-file", type=Path, metavar="FILE", help="use the lines of this file as values")
    produced.add_argument(
        "--payload-delimiter",
        type=_delimiter,
        default=b"\n",
        metavar="TEXT",
        help="what separates the values in the file (\\n)",
    )
    content.add_argument("--payload-monotonic", action="store_true", help="use the numbers 0, 1, 2, ... as values")
    produced.add_argument(
        "--warmup-records",
        type=int,
        default=0,
        metavar="N",
        help="report the records after the first N in a line of their own, too (0)",
    )
    produced.add_argument(
        "--reporting-interval", type=positive, default=5000, metavar="MS", help="time between two reports (5000)"
    )
    produced.add_argument(
        "--throughput", type=_throughput, default=-1.0, metavar="N", help="records per second; -1: no limit"
    )
    produced.add_argument(
        "--key-distribution",
        choices=("none", "range", "random"),
        default="none",
        help="keys of records: none, each number of a range in turn, or any of them (none)",
    )
    produced.add_argument("--record-key-range", type=positive, metavar="N", help="keys are the numbers from 0 to N-1")
    produced.add_argument(
        "--random-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of random keys and values (0)",
    )
    produced.add_argument(
        "--producer-props", type=key_value, nargs="+", default=[], metavar="KEY=VALUE", help="the same as -X"
    )
    produced.add_argument("--transactional-id", metavar="ID", help="send in transactions of this producer")
    produced.add_argument(
        "--transaction-duration-ms",
        type=positive,
        metavar="MS",
        help="send in transactions, and commit each after this time (with an id: 3000)",
    )
    consumed = parser.add_action("consume", _consume, "measure the throughput of a consumer")
    _add_load(consumed, "--messages", has_topic=False)
    topics = consumed.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic")
    topics.add_argument("--include", type=regex, metavar="REGEX", help="the topics whose names match, instead of one")
    consumed.add_argument("--group", help="(default: a new one)")
    consumed.add_argument("--from-latest", action="store_true", help="(default: from the beginning)")
    consumed.add_argument(
        "--idle", type=seconds, default=10.0, metavar="SECONDS", help="give up after this long without a record (10)"
    )
    consumed.add_argument("--allow-fewer", action="store_true", help="fewer records are no error")
    consumed.add_argument("--hide-header", action="store_true", help="print no headings")
    consumed.add_argument(
        "--show-detailed-stats", action="store_true", help="print a line each interval instead of one at the end"
    )
    consumed.add_argument(
        "--reporting-interval", type=positive, default=5000, metavar="MS", help="time between two of these lines (5000)"
    )
    consumed.add_argument(
        "--date-format",
        type=_date_format,
        default=DATE_FORMAT,
        metavar="FORMAT",
        help="format of times, in Java's letters y, M, d, H, m, s, S (yyyy-MM-dd HH:mm:ss:SSS)",
    )
    both = parser.add_action(
        "end-to-end", _end_to_end, "measure the latency from producer to consumer, one record at a time"
    )
    _add_load(both)
    both.add_argument("--record-size", type=positive, default=100, metavar="BYTES", help="size of a value (100)")
    both.add_argument("--producer-acks", choices=("0", "1", "all"), default="all", help="(all)")
    return parser


def _add_load(parser: ClientParser, *names: str, has_topic: bool = True) -> None:
    if has_topic:
        parser.add_argument("--topic", required=True)
    parser.add_argument("--num-records", *names, type=natural, required=True, metavar="N")


def _throughput(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not (value > 0 or value == -1):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number above 0 nor -1")
    return value


def _delimiter(text: str) -> bytes:
    """Return the bytes of a delimiter, of which \\n and \\t are a line's end and a tab."""
    if not text:
        raise argparse.ArgumentTypeError("it must not be empty")
    return text.replace("\\n", "\n").replace("\\t", "\t").encode()


def _date_format(text: str) -> str:
    try:
        return checked_format(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _produce(session: Session, options: argparse.Namespace) -> None:
    from pybroker.perf.producing import Load, record_keys

    if (options.key_distribution == "none") != (options.record_key_range is None):
        raise UsageError("--key-distribution range or random belongs to --record-key-range, and requires it")
    if not options.num_records:
        raise UsageError("--num-records must be at least 1")
    if options.warmup_records >= options.num_records:
        raise UsageError("--warmup-records must be less than --num-records")
    _check_topic(session, options.topic)
    payloads = _payloads(options)
    keys = record_keys(options.key_distribution, options.record_key_range or 1, options.random_seed)
    properties = {"linger.ms": 0, **dict(options.producer_props)}
    transaction_s = _transaction_s(session, options, properties)
    if options.warmup_records > 0 and not options.json:
        print(
            f"Warmup first {options.warmup_records} records. "
            "Steady state results will print after the complete test summary.",
            flush=True,
        )
    load = Load(
        *(session, options.topic, payloads, properties, keys),
        warmup=options.warmup_records,
        transaction_s=transaction_s,
    )
    reports: list[bool] = []  # of each: is it after the warm-up
    with ProgressBar("Producing") as bar:

        def report(window: Produced) -> None:
            bar.end()
            reports.append(load.steady is not None)
            if options.json:
                return
            if reports.count(True) == 1:
                print("In steady state.")
            print(window.line(whole=False), flush=True)

        shown = _shown(bar, options.num_records)
        done = load.run(
            options.num_records, options.throughput, report, shown, window_s=options.reporting_interval / 1000
        )
    steady = load.steady
    if options.json:
        show([done.row() if steady is None else {**done.row(), "steady": steady.row()}], as_json=True)
        return
    print(done.line(whole=True))
    if steady is not None:
        print(steady.line(whole=True, name="steady state records"))


def _transaction_s(session: Session, options: argparse.Namespace, properties: dict[str, object]) -> float | None:
    """Return the duration of transactions, None without them. Set the property transactional.id."""
    given = options.transactional_id or {**session.properties, **properties}.get("transactional.id")
    duration_ms = options.transaction_duration_ms
    if given is None and duration_ms is None:
        return None
    properties["transactional.id"] = given or f"performance-producer-{uuid.uuid4()}"
    return float(_TRANSACTION_MS if duration_ms is None else duration_ms) / 1000


def _check_topic(session: Session, topic: str) -> None:
    from pybroker.cli.topics import describe

    if not describe(session, [topic], if_there=True):
        raise CommandError(f"there is no topic {topic}: create it by pybroker topics create {topic}")


def _payloads(options: argparse.Namespace) -> Iterator[bytes]:
    from pybroker.perf.producing import monotonic_payloads, random_payloads

    if options.payload_monotonic:
        return monotonic_payloads()
    if options.payload_file is None:
        return cycle(random_payloads(options.record_size or 100, options.random_seed))
    try:
        text = file_bytes(options.payload_file, _PAYLOAD_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"{options.payload_file}: {error.strerror}") from None
    found = [each for each in text.split(options.payload_delimiter) if each]
    if not found:
        raise UsageError(f"{options.payload_file}: it has no values")
    return cycle(found)


def _consume(session: Session, options: argparse.Namespace) -> None:
    from pybroker.perf.consuming import HEADINGS, WINDOW_HEADINGS, Consumed, Wanted, consume

    topics = [options.topic]
    if options.include is None:
        _check_topic(session, options.topic)
    else:
        topics = sorted(filter(options.include.fullmatch, session.admin.list_topics(timeout=session.timeout_s).topics))
        if not topics:
            raise CommandError(f"{options.include.pattern}: no topic matches")
    group = options.group or f"perf-consumer-{uuid.uuid4().hex[:8]}"
    wanted = Wanted(topics, group, options.num_records, options.idle, options.from_latest)
    if not options.json and not options.hide_header:
        print(WINDOW_HEADINGS if options.show_detailed_stats else HEADINGS, flush=True)
    last = Consumed()
    with ProgressBar("Consuming") as bar:

        def report(run: Consumed) -> None:
            nonlocal last
            if options.show_detailed_stats and not options.json:
                bar.end()
                print(run.window_line(run.since(last), options.date_format), flush=True)
            last = copy(run)

        done = consume(
            session, wanted, report, options.reporting_interval / 1000, show=_shown(bar, options.num_records)
        )
    if options.json:
        show([done.row()], as_json=True)
    elif not options.show_detailed_stats:
        print(done.line(options.date_format))
    if not done.is_whole:
        count = f"{done.records} of {options.num_records} records arrived"
        line = f"{','.join(topics)}: {count}, then none for {options.idle:g} s"
        if not options.allow_fewer:
            raise CommandError(line)
        print(line, file=sys.stderr)


def _end_to_end(session: Session, options: argparse.Namespace) -> None:
    from pybroker.perf.producing import random_payloads
    from pybroker.perf.round_trip import measure

    _check_topic(session, options.topic)
    payload = random_payloads(options.record_size)[0]
    began = time.perf_counter()
    with ProgressBar("Round trips") as bar:
        show_done = _shown(bar, options.num_records)
        found = measure(session, options.topic, options.num_records, payload, options.producer_acks, show_done)
    if options.json:
        row = {"records": found.count, "seconds": round(time.perf_counter() - began, 3), **found.row()}
        show([row], as_json=True)
        return
    print(f"Avg latency: {found.average_ms:.4f} ms\n")
    half, p99, p999 = found.percentiles_ms(0.5, 0.99, 0.999)
    print(f"Percentiles: 50th = {half:g}, 99th = {p99:g}, 99.9th = {p999:g}")
    sys.stdout.flush()


def _shown(bar: ProgressBar, total: int) -> Callable[[int], None]:
    return lambda done: bar.show(done, total, f"{done} of {total} records")
