"""Whether a soak's samples are flat: growth is found, and single peaks are not growth."""

from __future__ import annotations

import random

import pytest

from tests.soak.picture import picture
from tests.soak.samples import Sample, drift, judged


def samples(seconds: int = 600, *, grows_mib: float = 0.0, spike_mib: float = 0.0) -> list[Sample]:
    """100 MiB, give or take 5 at random, of which `grows_mib` come in steps over time."""
    chance = random.Random(4)
    return [
        Sample(
            seconds=float(at),
            memory_mib=100
            + chance.uniform(-5, 5)
            + grows_mib * (at // 20 * 20) / seconds
            + (spike_mib if at % 10 == 0 else 0),
            descriptors=50.0,
            median_ms=1.0,
            slowest_ms=2.0,
        )
        for at in range(seconds)
    ]


@pytest.mark.parametrize("spike_mib", [0, 500])
def test_steady_samples_and_peaks_are_flat(spike_mib: float) -> None:
    """Within two hundredths."""
    assert abs(drift(samples(spike_mib=spike_mib), "memory_mib")) < 0.02
    assert drift(samples(), "descriptors") == 0


def test_growth_is_found_with_its_amount() -> None:
    """20 MiB on a median of 110."""
    assert drift(samples(grows_mib=20), "memory_mib") == pytest.approx(20 / 110, abs=0.03)


def test_a_run_with_one_sample_is_flat() -> None:
    """There is nothing to compare."""
    assert drift(samples(1), "memory_mib") == drift([], "memory_mib") == 0


def test_the_first_quarter_of_a_stretch_is_not_judged() -> None:
    """300 s remain of 400 s."""
    stretch = judged(samples(), 200)

    assert (stretch[0].seconds, stretch[-1].seconds) == (300, 599)


def test_the_picture_has_each_series_kill_and_judged_part() -> None:
    """Two kills in each of four charts, and a shade in each."""
    drawn = picture(samples(), [10, 20], 300.0)

    assert drawn.count("<polyline") == 4
    assert drawn.count('stroke="#d9534f"') == 8
    assert drawn.count('fill="#eef4ee"') == 4
