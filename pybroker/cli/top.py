"""`pybroker top`: show throughput of topics and lag of groups, refreshed every few seconds."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker.cli.client.command import run
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import show, table, table_within
from pybroker.cli.option_values import positive, seconds

if TYPE_CHECKING:
    from pybroker.cli.client.session import Place, Session

_EXAMPLES = """\
examples:
  pybroker top
  pybroker top --interval 5 --sort lag
  pybroker top --once --json | jq '.groups[] | select(.lag > 1000)'"""

_HOME = "\x1b[H\x1b[J"
_OTHER_SCREEN, _FIRST_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HEAD_LINES = 2
#: Columns that a narrow terminal drops first.
_LESS_WANTED = ("partitions", "topics", "state", "most", "records")


class Sample(NamedTuple):
    """One sample of a cluster."""

    at_s: float
    starts: Mapping[Place, int]
    ends: Mapping[Place, int]
    committed: Mapping[str, Mapping[Place, int]]
    states: Mapping[str, str]


class View(NamedTuple):
    """The output: rows for --json, and the same as tables."""

    records_per_s: float | None
    topics: list[dict[str, object]]
    groups: list[dict[str, object]]


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker top", "Throughput, topics and lag of a cluster as they change.", _EXAMPLES)
    parser.add_argument("--interval", type=seconds, default=2.0, metavar="SECONDS", help="between two samples (2)")
    parser.add_argument(
        "--once", action="store_true", help="print the rates between two samples, and stop; the same as --count 1"
    )
    parser.add_argument(
        "--count", type=positive, metavar="N", help="stop after this many refreshes (default: at Ctrl-C)"
    )
    parser.add_argument("--sort", choices=("rate", "name", "records", "lag"), default="rate", help="(rate)")
    parser.add_argument("--internal", action="store_true", help="also internal topics")
    parser.add_argument("--no-groups", action="store_true", help="topics alone")
    parser.add_client_options()
    parser.set_defaults(run=_top)
    return parser


def _top(session: Session, options: argparse.Namespace) -> None:
    count = 1 if options.once else options.count
    on_terminal = sys.stdout.isatty() and not options.json
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if on_terminal and count is None:
            sys.stdout.write(_OTHER_SCREEN)
        _turns(session, options, count, on_terminal=on_terminal)
    except KeyboardInterrupt:
        pass  # Ctrl-C is the normal end
    finally:
        signal.signal(signal.SIGTERM, former)
        if on_terminal and count is None:
            sys.stdout.write(_FIRST_SCREEN)
            sys.stdout.flush()


def _turns(session: Session, options: argparse.Namespace, count: int | None, *, on_terminal: bool) -> None:
    before = _look(session, options)
    shown = 0
    while count is None or shown < count:
        until_s = before.at_s + options.interval
        while (left := until_s - time.monotonic()) > 0:
            session.admin.poll(min(left, 0.2))
            session.check()
        now = _look(session, options)
        _show(session, options, compare(before, now, options.sort), on_terminal=on_terminal, again=count is None)
        before = now
        shown += 1


def _look(session: Session, options: argparse.Namespace) -> Sample:
    from pybroker.cli.group_offsets import committed_offsets

    places = [place for place in session.partitions() if options.internal or not place[0].startswith("__")]
    at_s = time.monotonic()
    ends = session.ends(places, if_there=True)
    starts = session.starts(places, if_there=True)
    committed: dict[str, Mapping[Place, int]] = {}
    states: dict[str, str] = {}
    if not options.no_groups:
        listed = session.wait(session.admin.list_consumer_groups(request_timeout=session.timeout_s))
        for each in listed.valid:
            if each.type.name in ("CLASSIC", "CONSUMER"):
                states[each.group_id] = each.state.name.lower()
                committed[each.group_id] = committed_offsets(session, each.group_id)
    return Sample(at_s, starts, ends, committed, states)


def compare(before: Sample, now: Sample, order: str) -> View:
    """Return rates between two samples, and the state of the second."""
    seconds_between = max(now.at_s - before.at_s, 1e-9)
    topics: dict[str, dict[str, object]] = {}
    written: dict[str, int] = {}
    for place, end in sorted(now.ends.items()):
        topic = place[0]
        row = topics.setdefault(topic, {"topic": topic, "partitions": 0, "records": 0, "records_per_s": 0.0, "lag": 0})
        row["partitions"] = int(str(row["partitions"])) + 1
        row["records"] = int(str(row["records"])) + end - now.starts.get(place, end)
        written[topic] = written.get(topic, 0) + max(0, end - before.ends.get(place, end))
    groups = []
    for group, offsets in sorted(now.committed.items()):
        lags = {place: max(0, now.ends[place] - offset) for place, offset in offsets.items() if place in now.ends}
        former = before.committed.get(group, {})
        read = sum(max(0, offset - former.get(place, offset)) for place, offset in offsets.items())
        groups.append(
            {
                "group": group,
                "state": now.states[group],
                "topics": len({place[0] for place in lags}),
                "records_per_s": round(read / seconds_between, 1),
                "lag": sum(lags.values()),
                "most": max(lags.values(), default=0),
            }
        )
        for (topic, _), lag in lags.items():
            topics[topic]["lag"] = max(int(str(topics[topic]["lag"])), lag)
    for topic, row in topics.items():
        row["records_per_s"] = round(written[topic] / seconds_between, 1)
    key = {"rate": "records_per_s", "records": "records", "lag": "lag"}.get(order)
    rows = list(topics.values())
    if key is not None:
        rows.sort(key=lambda row: -float(str(row[key])))
        if key != "records":
            groups.sort(key=lambda row: -float(str(row[key])))
    return View(round(sum(written.values()) / seconds_between, 1), rows, groups)


def _show(session: Session, options: argparse.Namespace, view: View, *, on_terminal: bool, again: bool) -> None:
    if options.json:
        row = {"records_per_s": view.records_per_s, "topics": view.topics, "groups": view.groups}
        show([{"time": round(time.time() * 1000), "cluster_id": session.cluster.cluster_id, **row}], as_json=True)
        return
    partitions = sum(int(str(row["partitions"])) for row in view.topics)
    head = (
        f"{time.strftime('%H:%M:%S')}  {view.records_per_s:.1f} records/s  {len(view.topics)} topics  "
        f"{partitions} partitions  brokers: {len(session.cluster.nodes)}  cluster {session.cluster.cluster_id}"
    )
    width, height = shutil.get_terminal_size()
    tables = [view.topics, view.groups] if view.groups else [view.topics]
    lines = [head]
    for rows in tables:
        lines += ["", *(table_within(width, rows, _LESS_WANTED) if on_terminal else table(rows))]
    if on_terminal and again:
        lines = fitted(lines, len(view.topics), width, height)
        sys.stdout.write(_HOME)
        sys.stdout.write("\n".join(lines))
    else:
        print("\n".join(lines) + "\n")
    sys.stdout.flush()


def fitted(lines: Sequence[str], topics: int, width: int, height: int) -> list[str]:
    """Return the lines that fit the terminal: topics take at most half of it if there are groups."""
    behind = len(lines) - _HEAD_LINES - 1 - topics
    room = max(1, height - _HEAD_LINES - 1 - min(behind, max(1, (height - _HEAD_LINES) // 2)))
    begin = _HEAD_LINES + 1
    kept = [*lines[: begin + min(topics, room)], *lines[begin + topics :]]
    return [line[:width] for line in kept[:height]]
