"""Run many schedules, and list the seeds that fail, each with a short script: `make simulate`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from time import process_time

from tests.simulation.mutations import MUTATIONS, Mutation, planted
from tests.simulation.ranges import Range, record, revision
from tests.simulation.schedule import Failure, many, replay, run
from tests.simulation.scripts import parse
from tests.simulation.shrink import shrink

#: So many catches of a fault are enough for a mean.
CATCHES = 20
#: After so many seeds their range is recorded.
RECORDED = 1_000
#: The controllers of a range of seeds without --controller.
BOTH = "each in half"


def main() -> int:
    """Return 1 if a check failed, or a mutation was not caught."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10_000, help="how many seeds (default: 10000)")
    parser.add_argument("--controller", choices=("own", "reference"), help="the controller (default: each in half)")
    parser.add_argument("--shrink", type=int, default=3, help="how many failures to shrink (default: 3)")
    parser.add_argument("--record", type=Path, metavar="PAGE", help="add the seeds to the table of this Markdown page")
    parser.add_argument("--replay", type=Path, help="replay the script in this file")
    parser.add_argument(
        "--mutations", nargs="*", metavar="NAME", help="plant these faults (default: all), --count schedules each"
    )
    options = parser.parse_args()
    if options.replay is not None:
        found = replay(*parse(options.replay.read_text()))
        print(found[1] if found else "all checks hold")
        return int(found is not None)
    seeds = range(options.first, options.first + options.count)
    with many():
        if options.mutations is not None:
            chosen = [each for each in MUTATIONS if not options.mutations or each.name in options.mutations]
            caught = [_catch(each, seeds) for each in chosen]
            return int(not all(caught))
        failures = _simulate(seeds, options.controller, options.shrink, options.record)
    return int(bool(failures))


def _simulate(seeds: range, controller: str | None, shrunk: int, page: Path | None) -> Counter[str]:
    """Run all seeds. Return how often each check failed."""
    began, failures = process_time(), Counter[str]()
    own_controller = None if controller is None else controller == "own"
    code = revision() if page is not None else ""
    for first in range(seeds.start, seeds.stop, RECORDED):
        part = range(first, min(first + RECORDED, seeds.stop))
        failed: list[Failure] = []
        for seed in part:
            failure = run(seed, own_controller)
            if failure is None:
                continue
            failed.append(failure)
            failures[failure.check] += 1
            print(f"seed {seed}: {failure.message}", flush=True)
            if failures.total() <= shrunk:
                print(shrink(failure).script, flush=True)
        if page is not None:
            texts = tuple(f"seed {each.seed}: {each.check}" for each in failed)
            record(page, Range(part[0], part[-1], code, controller or BOTH, texts))
    seconds = process_time() - began
    print(f"{len(seeds)} schedules from seed {seeds.start} in {seconds:.0f} s of CPU ({len(seeds) / seconds:.0f}/s)")
    for check, count in failures.most_common():
        print(f"{count} of {check}")
    return failures


def _catch(mutation: Mutation, seeds: range) -> bool:
    """Print how many schedules it takes on average to catch a fault, in up to CATCHES."""
    began, caught, checks = process_time(), 0, Counter[str]()
    tried = 0
    with planted(mutation):
        for seed in mutation.seeds(seeds):
            tried += 1
            failure = mutation.run(seed)
            if failure is not None:
                caught += 1
                checks[failure.check] += 1
                if caught == CATCHES:
                    break
    seconds = process_time() - began
    each = f"{tried / caught:8.1f} schedules {seconds / caught:7.2f} s" if caught else "NOT CAUGHT"
    print(f"{mutation.name:36} {each}  {', '.join(name for name, _ in checks.most_common(2))}", flush=True)
    return caught > 0


if __name__ == "__main__":
    sys.exit(main())
