"""Several processes of one broker, which earlier versions had (num.workers)."""

from __future__ import annotations

from .values import ConfigValue


def one_process_reason(name: str, value: ConfigValue) -> str | None:
    """Return why a number of processes is refused; None for 1."""
    if value == 1:
        return None
    return "a broker serves with one process; for more cores start several brokers of one cluster (docs/guides/tune.md)"
