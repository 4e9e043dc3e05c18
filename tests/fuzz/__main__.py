"""Coverage-guided fuzzing of all code that reads foreign bytes, with libFuzzer (atheris), for a limited time.

    python -m tests.fuzz --minutes 10 [--targets lb] [--corpus-alone]
    python -m tests.fuzz --runs 3000 --seed 1 --corpus-alone
    python -m tests.fuzz --show FILE

It begins with the recorded seeds, the committed corpus and the inputs that earlier runs found in .cache/fuzz. It ends
at the first finding, with its traceback and the name of the file that reproduces it. Fix the error, and add the line
that `--show` prints for the file to corpus.txt.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
from pathlib import Path

import atheris

from tests.fuzz.corpus import as_line, corpus

FOUND = Path(".cache/fuzz")
ROOMS = ["protocol", "storage", "metadata", "coordinator", "security", "runtime", "config", "controller", "broker"]
#: An input that takes longer, or makes the process grow by more, is a finding.
TIMEOUT_S = 30
MEMORY_MB = 1024


def main() -> None:
    """Run libFuzzer, which ends the process with a code above 0 after a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz all that reads bytes.")
    parser.add_argument("--minutes", type=float, default=10, help="how long (10)")
    parser.add_argument("--runs", type=int, help="end after so many inputs, too")
    parser.add_argument("--seed", type=int, default=0, help="of what is tried: the same inputs each time (by chance)")
    parser.add_argument("--targets", default="", help="only those of these letters (tests/fuzz/targets.py)")
    parser.add_argument("--corpus-alone", action="store_true", help="begin with the committed corpus: soon at work")
    parser.add_argument("--found", type=Path, default=FOUND, help="where what is found is kept (.cache/fuzz)")
    parser.add_argument("--show", type=Path, help="print a finding as a line for corpus.txt, and end")
    arguments = parser.parse_args()
    if arguments.show:
        print(as_line(arguments.show.read_bytes()))
        return

    with atheris.instrument_imports(include=ROOMS, enable_loader_override=False):
        from tests.fuzz.seeds import MAX_BYTES, seeds
        from tests.fuzz.targets import one_input
    _instrument_compiled()
    letters = arguments.targets.encode()

    def test_one_input(data: bytes) -> int:
        if letters and data[:1] not in letters:
            return -1
        return 0 if one_input(data) else -1

    found = arguments.found / "corpus"
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as begin:
        inputs = corpus() if arguments.corpus_alone else itertools.chain(corpus(), seeds())
        for number, data in enumerate(inputs):
            if not letters or data[:1] in letters:
                (Path(begin) / f"{number}").write_bytes(data)
        options = [
            f"-max_total_time={max(1, int(arguments.minutes * 60))}",
            f"-runs={-1 if arguments.runs is None else arguments.runs}",
            f"-seed={arguments.seed}",
            f"-max_len={MAX_BYTES}",
            f"-timeout={TIMEOUT_S}",
            f"-rss_limit_mb={_told_of_others_mb() + MEMORY_MB}",
            f"-artifact_prefix={arguments.found}/",
            "-print_final_stats=1",
        ]
        atheris.Setup([sys.argv[0], *options, str(found), begin], test_one_input)
        atheris.Fuzz()


def _told_of_others_mb() -> int:
    """Return the memory in MB that libFuzzer attributes to this process but that it did not use.

    libFuzzer reads the peak memory. On Linux a process inherits the peak of its parent, which may be a whole test run.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _instrument_compiled() -> None:
    """Instrument decoders too, which are generated and compiled on first use."""
    from protocol.compiler import Source

    compiled = Source.compile
    Source.compile = lambda *args: atheris.instrument_func(compiled(*args))  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
