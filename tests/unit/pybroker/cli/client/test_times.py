"""Times on a command line."""

from __future__ import annotations

import argparse

import pytest

from pybroker.cli.client.times import duration_ms, time_ms, utc_time_ms

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("-5m", NOW_MS - 300_000),
        ("-250ms", NOW_MS - 250),
        ("-2w", NOW_MS - 14 * 86_400_000),
        ("@17", 17),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-15T00:13:20.5+02:00", NOW_MS + 500),
    ],
)
def test_times_in_each_form(text: str, expected: int) -> None:
    """A duration ago, since the epoch, or a date."""
    assert time_ms(text, NOW_MS) == expected


def test_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """A date alone is its midnight."""
    assert time_ms("2023-11-14T12:00", 0) - time_ms("2023-11-14", 0) == 12 * 3_600_000


@pytest.mark.parametrize("text", ["@99999999999999999999", "-9999w", "1960-01-01"])
def test_time_before_the_epoch_is_rejected(text: str) -> None:
    """Negative timestamps mean ends of the log in requests."""
    with pytest.raises(argparse.ArgumentTypeError, match="before 1970, or too late"):
        time_ms(text, NOW_MS)


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "5m", "-5y", "@", "2023-13-01"])
def test_bad_time_is_one_line(text: str) -> None:
    """It shows the accepted forms."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time such as"):
        time_ms(text, NOW_MS)


def test_times_of_kafkas_tools() -> None:
    """Without a zone they are UTC."""
    expected = NOW_MS + 250
    for text in ("2023-11-14T22:13:20.250", "2023-11-14T22:13:20.25Z", "2023-11-15T00:13:20.250+02:00"):
        assert utc_time_ms(text) == expected


@pytest.mark.parametrize("text", ["2023-11-14", "1960-01-01T00:00", "now", "2023-11-14 22:13"])
def test_bad_times_of_kafkas_tools(text: str) -> None:
    """They reject a date alone."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time such as"):
        utc_time_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("P1DT2H3M4.5S", 93_784_500), ("PT0S", 0), ("p2d", 172_800_000), ("PT10M", 600_000), ("PT1,25S", 1250)],
)
def test_durations(text: str, expected: int) -> None:
    """As Java parses them."""
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "P1H", "-PT5M", "P1W", "PT\u0665M"])
def test_bad_duration_is_one_line(text: str) -> None:
    """It shows the accepted forms."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration such as"):
        duration_ms(text)
