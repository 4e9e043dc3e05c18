"""The rate of copies and fetches, over the last windows."""

from __future__ import annotations

import pytest

from broker.tiering.rate_quota import RateQuota


def test_first_transfer_is_free() -> None:
    quota = RateQuota(100, 11, 1000)
    assert quota.delay_ms(0) == 0
    quota.note(10_000, 0)
    assert quota.delay_ms(0) > 0


def test_rate_falls_as_time_passes() -> None:
    """Within one window the time is that of a whole one."""
    quota = RateQuota(100, 11, 1000)
    quota.note(300, 500)
    assert quota.delay_ms(600) == 2000
    assert quota.delay_ms(2999) == 1
    assert quota.delay_ms(3000) == 0


def test_old_windows_are_forgotten() -> None:
    quota = RateQuota(1, 3, 1000)
    quota.note(1_000_000, 0)
    assert quota.delay_ms(0) == 3000
    assert quota.delay_ms(2999) == 1
    assert quota.delay_ms(3000) == 0


@pytest.mark.parametrize("rate", [1000, 50_000])
def test_many_transfers_keep_to_the_rate(rate: int) -> None:
    quota, now_ms, total = RateQuota(rate, 11, 1000), 0, 0
    while now_ms < 60_000:
        if delay_ms := quota.delay_ms(now_ms):
            now_ms += delay_ms
        else:
            quota.note(7000, now_ms)
            total += 7000
    assert rate * 55 <= total <= rate * 66 + 7000


def test_changed_rate_counts_at_once() -> None:
    quota = RateQuota(1, 11, 1000)
    quota.note(5000, 0)
    quota.bytes_per_second = 1 << 60
    assert quota.delay_ms(1) == 0
