"""All code that reads foreign bytes, with the recorded seeds, the committed corpus, and a little fuzzing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.corpus import as_line, corpus
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS, one_input
from tests.support.scale import scaled

REPOSITORY = Path(__file__).parents[2]
#: Processor time per input; beyond it a fuzzer reports a finding.
SLOW_S = 5
RUNS = min(100_000, scaled(5_000))
#: Ends the fuzzing if inputs are slow.
MINUTES = 3


@pytest.mark.parametrize("letter", TARGETS)
def test_recorded_and_committed_inputs_raise_nothing_else(letter: str) -> None:
    """A target raises nothing else than it declares, and ends soon."""
    inputs = [data for data in (*seeds(), *corpus()) if data[:1] == letter.encode()]
    assert inputs, "each target has something to begin with"
    for data in inputs:
        began = time.process_time()
        assert one_input(data)
        assert time.process_time() - began < SLOW_S, data.hex()


def test_truncated_inputs_raise_nothing_else() -> None:
    """Each input, truncated at every byte, as a broken connection or a crash leaves it."""
    shortest = {letter: min((data for data in seeds() if data[:1] == letter.encode()), key=len) for letter in TARGETS}
    for data in shortest.values():
        for end in range(1, len(data)):
            one_input(data[:end])


def test_corpus_lines_are_in_canonical_form() -> None:
    lines = [as_line(data) for data in corpus()]
    assert len(set(lines)) == len(lines)
    assert {line[0] for line in lines} <= set(TARGETS)


if find_spec("atheris") is not None:  # there is no wheel of atheris for other processors

    def test_a_little_fuzzing_finds_nothing(tmp_path: Path) -> None:
        """A short, seeded `make fuzz`: libFuzzer begins with the corpus and is guided by coverage."""
        command = [sys.executable, "-m", "tests.fuzz", "--corpus-alone", "--found", str(tmp_path)]
        command += ["--runs", f"{RUNS}", "--seed", "1", "--minutes", f"{MINUTES}"]
        # Coverage depends on the order of sets, so it is fixed, like the inputs.
        environment = {**os.environ, "PYTHONHASHSEED": "1"}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, errors="replace", timeout=600
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        assert "stat::number_of_executed_units" in done.stderr
