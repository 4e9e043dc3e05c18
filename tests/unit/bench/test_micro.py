"""The functions of the hot path, how their instructions are counted, and when one counts as slower."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.micro import check, instructions
from bench.micro.__main__ import timer
from bench.micro.check import BASELINE, Change, changes, multiples
from bench.micro.functions import FUNCTIONS, REFERENCE


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_can_be_called_repeatedly(name: str, tmp_path: Path) -> None:
    """Its setup exists, and a call leaves nothing that affects the next one."""
    call = FUNCTIONS[name](tmp_path)

    for _ in range(3):
        call()


def test_a_timer_runs_the_setup_once(tmp_path: Path) -> None:
    calls = []
    seconds = timer(lambda folder: lambda: calls.append(folder), tmp_path)

    assert seconds(2) >= 0
    assert seconds(3) >= 0
    assert calls == [tmp_path] * 5


def test_multiples_are_of_the_reference() -> None:
    assert multiples({REFERENCE: 4.0, "a": 2.0, "b": 12.0}) == {"a": 0.5, "b": 3.0}


def test_instructions_are_those_between_two_calls() -> None:
    """callgrind writes one part before each function, and one for each of its calls."""
    parts = []
    for number, _ in enumerate(FUNCTIONS):
        parts += ["desc: Trigger\ntotals: 999999\n", f"summary: 1\ntotals: {(number + 1) * 200 * 7}\n"]

    assert instructions.instructions_per_call(parts) == {
        name: 7 * (number + 1) for number, name in enumerate(FUNCTIONS)
    }


def test_a_missing_part_is_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        instructions.instructions_per_call(["totals: 1\n", "totals: 2\n"])


@pytest.mark.parametrize(
    ("kind", "now", "is_regression"),
    [("time", 1.25, False), ("time", 1.26, True), ("instructions", 1.05, False), ("instructions", 1.06, True),
     ("time", 0.5, False), ("time", math.nan, False)],
)  # fmt: skip
def test_a_regression_is_beyond_the_tolerance(kind: str, now: float, is_regression: bool) -> None:
    change = Change(kind, "f", 1.0, now)

    assert change.is_regression is is_regression
    assert str(change).endswith("SLOWER") is is_regression


def test_new_functions_and_missing_kinds_do_not_regress() -> None:
    before = {"time": {"a": 1.0, "gone": 1.0}, "instructions": {"a": 1.0}}
    now = {"time": {"a": 3.0, "new": 9.0}}

    found = list(changes(before, now))

    assert {change.name for change in found} == {"a", "gone", "new"}
    assert [change.name for change in found if change.is_regression] == ["a"]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Replace the measurement, and move the baseline elsewhere."""
    values = {REFERENCE: 1.0, "a": 2.0}
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setitem(check.MEASURES, "time", lambda: dict(values))
    return values


def test_the_check_fails_without_a_baseline_and_on_a_regression(measured: dict[str, float]) -> None:
    assert check.main(["--only", "time"]) == 2
    assert check.main(["--only", "time", "--update"]) == 0
    assert check.main(["--only", "time"]) == 0

    measured["a"] *= 1.3

    assert check.main(["--only", "time"]) == 1
    measured[REFERENCE] *= 1.3  # a slower machine
    assert check.main(["--only", "time"]) == 0


def test_an_update_keeps_values_that_it_did_not_measure(measured: dict[str, float]) -> None:
    """The other kind, and other versions of Python."""
    other = {"2.7": {"time": {"a": 1.0}}}
    check.BASELINE.write_text(json.dumps(other))

    assert check.main(["--only", "time", "--update"]) == 0

    written = json.loads(check.BASELINE.read_text())
    assert written["2.7"] == other["2.7"]
    assert len(written) == 2


def test_the_baseline_has_every_measured_function() -> None:
    """A renamed function would never be compared again."""
    for kinds in json.loads(BASELINE.read_text()).values():
        for found in kinds.values():
            assert set(found) == set(FUNCTIONS) - {REFERENCE}
