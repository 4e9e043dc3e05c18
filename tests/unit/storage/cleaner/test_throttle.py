"""The throttle, with a clock that the test controls."""

from storage.cleaner.throttle import Throttle


class Time:
    """A clock that moves only when `sleep` is called."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_bytes_are_limited_per_second() -> None:
    """S15.5: log.cleaner.io.max.bytes.per.second."""
    time = Time()
    throttle = Throttle(1000, time.clock, time.sleep)
    for _ in range(100):
        throttle.count(500)
    assert 49 < time.now <= 50.5


def test_slow_work_is_not_throttled() -> None:
    time = Time()
    throttle = Throttle(1000, time.clock, time.sleep)
    for _ in range(50):
        time.now += 1
        throttle.count(900)
    assert time.now == 50


def test_no_bound_means_no_sleep() -> None:
    """Kafka's default is the largest double."""
    time = Time()
    throttle = Throttle(1.7976931348623157e308, time.clock, time.sleep)
    throttle.count(1 << 40)
    assert time.now == 0
