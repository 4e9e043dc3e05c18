"""Whether a soak's samples are flat: what grows is found, what only sticks out is not."""

from __future__ import annotations

import random

import pytest

from tests.soak.picture import picture
from tests.soak.samples import Sample, drift, judged


def samples(seconds: int = 600, *, grows_mib: float = 0.0, spike_mib: float = 0.0) -> list[Sample]:
    """100 MiB, 5 more or less by chance, of which `grows_mib` come in steps over the time."""
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
def test_what_stays_and_what_sticks_out_is_flat(spike_mib: float) -> None:
    """Within two hundredths."""
    assert abs(drift(samples(spike_mib=spike_mib), "memory_mib")) < 0.02
    assert drift(samples(), "descriptors") == 0


def test_what_grows_is_found_by_how_much_it_has_grown() -> None:
    """20 MiB on a median of 110."""
    assert drift(samples(grows_mib=20), "memory_mib") == pytest.approx(20 / 110, abs=0.03)


def test_a_run_of_a_sample_is_flat() -> None:
    """There is nothing to compare."""
    assert drift(samples(1), "memory_mib") == drift([], "memory_mib") == 0


def test_the_first_quarter_of_a_stretch_is_not_judged() -> None:
    """Of 400 s there are 300."""
    stretch = judged(samples(), 200)

    assert (stretch[0].seconds, stretch[-1].seconds) == (300, 599)


def test_the_picture_has_each_series_the_kills_and_what_is_judged() -> None:
    """Two kills in each of four charts; a shade in each."""
    drawn = picture(samples(), [10, 20], 300.0)

    assert drawn.count("<polyline") == 4
    assert drawn.count('stroke="#d9534f"') == 8
    assert drawn.count('fill="#eef4ee"') == 4
