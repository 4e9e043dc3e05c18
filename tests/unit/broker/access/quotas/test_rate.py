"""Measured rate against the quota: throttle times are computed as in Apache Kafka."""

from __future__ import annotations

import pytest

from broker.access.quotas.rate import Rate, TokenBucket


@pytest.fixture
def rate() -> Rate:
    """A hundred a second, over ten windows and the current one."""
    return Rate(100.0, 11, 1000)


def test_a_new_client_may_use_ten_seconds_at_once(rate: Rate) -> None:
    assert rate.largest_single_amount == 1000
    assert rate.record(1000, 5) == 0
    assert rate.record(100, 5) == 1000


@pytest.mark.parametrize("take", [1, 7, 250, 1000])
def test_a_client_that_obeys_throttling_gets_its_quota(rate: Rate, take: int) -> None:
    """In the long run, whatever the size of its requests, if each could be sent at once."""
    now_ms, taken = 0, 0
    while now_ms < 600_000:
        taken += take
        now_ms += rate.record(take, now_ms) or 1
    assert taken / (now_ms / 1000) == pytest.approx(100, rel=0.15)


def test_samples_older_than_all_windows_do_not_count(rate: Rate) -> None:
    rate.record(5000, 0)
    assert not rate.is_unused(10_999)
    assert rate.is_unused(11_000)
    assert rate.record(1000, 11_000) == 0


def test_usage_that_is_undone_does_not_count(rate: Rate) -> None:
    assert rate.record(5000, 0) > 0
    assert rate.record(-5000, 0) == 0
    assert rate.is_unused(0)


def test_the_quota_may_change(rate: Rate) -> None:
    rate.record(1000, 0)
    rate.bound = 50.0
    assert rate.record(0, 0) == 10_000


def test_a_long_stream_keeps_few_samples(rate: Rate) -> None:
    for now_ms in range(0, 100_000, 10):
        rate.record(1, now_ms)
    assert len(rate._samples) <= 12


def test_one_window_alone() -> None:
    rate = Rate(10.0, 1, 1000)
    assert rate.record(10, 0) == 0
    assert rate.record(10, 0) == 1000


def test_a_bucket_holds_the_tokens_of_all_windows() -> None:
    """A debt takes as long as its tokens need to arrive. Tokens beyond the capacity are lost."""
    bucket = TokenBucket(2.0, 11, 1000)
    assert bucket.record(22, 50_000) == 0
    assert bucket.record(3, 50_000) == 1500
    assert bucket.wait_ms(50_500) == 1000
    assert bucket.record(0, 51_500) == 0
    assert bucket.record(22, 500_000) == 0
    assert bucket.record(1, 500_000) == 500
