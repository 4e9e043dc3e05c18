"""Compare pybroker with Apache Kafka: `make bench`, or `python -m bench compare [--loads NAME ...]` for some loads.

    --rounds 3 --seconds 4 --warm 20     number and length of the rounds, after a warm-up of so many seconds
    --alone                              pybroker alone

Both brokers run at the same time on the first core; the load generator runs on the second and drives them in turn.
Each load first warms up both brokers, because a JVM needs a while to reach its full speed. On a noisy machine, trust
the figures of processor time: they are the broker's own, from /proc, and do not depend on what else limited the load.
Apache Kafka comes from its jars, which are fetched once, and runs on the installed Java with the options of its own
start script. A ratio above 1 says that pybroker is better. Reads are served from the page cache unless a load is
called cold.

A whole run writes docs/how-it-works/benchmarks.md and benchmarks.svg beside it; a partial run is only printed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.comparison import clients, connections, generator, loads, machine, mixed, tails
from bench.comparison.brokers import BOTH, PROPERTIES, Kafka, create, start_again, started
from bench.comparison.figures import Category, Figure, rounded
from bench.comparison.picture import picture
from bench.comparison.session import Session, make_figure
from bench.comparison.table import replace_between_marks, table
from bench.comparison.usage import cpu_seconds, memory_mb

_DOCUMENT = Path(__file__).parents[1] / "docs" / "how-it-works" / "benchmarks.md"
_PICTURE = _DOCUMENT.with_suffix(".svg")
_IDLE_S = 3


def measure_starts(session: Session) -> Iterator[Figure]:
    """Measure how long brokers with formatted directories take to start, and their memory a moment later."""
    took = [[start_again(broker) for _ in range(session.rounds)] for broker in session.brokers]
    yield make_figure(Category.START, "start", "s until it answers", took, lambda seconds: seconds)
    time.sleep(_IDLE_S)
    yield from measure_memory("idle", session)


def measure_memory(load: str, session: Session) -> Iterator[Figure]:
    used = [[memory_mb(broker.pid)] for broker in session.brokers]
    yield make_figure(Category.MEMORY, load, "MB of memory", used, lambda mb: mb)


MEASURES: dict[str, Callable[[Session], Iterable[Figure]]] = {
    "start": measure_starts,
    **{name: partial(loads.measure, name=name) for name in loads.LOADS},
    **{name: partial(tails.measure, name=name) for name in tails.TAILS},
    "clients": clients.measure,
    "memory": partial(measure_memory, "after all of it"),
    "connections": connections.measure_burst,
    "polls": connections.measure_polls,
    "mixed": mixed.measure,  # last, as some heaps do not survive its requests of 100 MB
}


def show(name: str, what: str, values: Sequence[float], *, more_is_better: bool = False) -> None:
    """Print the measured values: ours, and Apache Kafka's if it ran."""
    shown = Figure(Category.CPU, name, what, (values[0],), tuple(values[1:]), more_is_better)
    kafka = f"   kafka {rounded(values[1]):>9}   ratio {rounded(shown.ratio):>6}" if len(values) > 1 else ""
    print(f"{name:36} {what:26} ours {rounded(values[0]):>9}{kafka}", flush=True)


def report(session: Session, figures: Sequence[Figure]) -> str:
    """Return the measured part of the document."""
    return (
        f"Measured on: {machine.description()}. Load generator: {generator.language()}. {session.rounds} rounds of "
        f"{session.seconds:g} s after {session.warm_s:g} s of the same load.\n\n"
        f"![A chart for each category]({_PICTURE.name})\n\n{table(figures)}"
    )


def write(session: Session, figures: Sequence[Figure]) -> None:
    """Put the table and the picture into the documents."""
    _PICTURE.write_text(picture(figures))
    _DOCUMENT.write_text(replace_between_marks(_DOCUMENT.read_text(), report(session, figures)))
    print(f"written: {_DOCUMENT}, {_PICTURE}")


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="pybroker beside Apache Kafka")
    names = ", ".join(MEASURES)
    parser.add_argument("--loads", nargs="+", metavar="NAME", choices=MEASURES, help=names)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=20)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    options = parser.parse_args(argv)
    print(f"load generator: {generator.language()}", flush=True)
    kinds = BOTH[:1] if options.alone else BOTH
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="compare-") as scratch, started(Path(scratch), kinds=kinds) as brokers:
        session = Session(brokers, options.rounds, options.seconds, options.warm)
        for name in options.loads or MEASURES:
            for found in MEASURES[name](session):
                medians = [statistics.median(values) for values in (found.ours, found.kafka) if values]
                show(found.load, found.name, medians, more_is_better=found.more_is_better)
                figures.append(found)
    print(f"\n{report(session, figures)}")
    if not options.loads and not options.alone:
        write(session, figures)


__all__ = ["PROPERTIES", "Kafka", "cpu_seconds", "create", "main", "memory_mb", "show", "started"]

if __name__ == "__main__":
    main(sys.argv[1:])
