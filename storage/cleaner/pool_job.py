"""The function that the broker gives to a process of its pool for a cleaning round.

The broker imports this module only. The code of a round, a fifth of storage, is imported by the process that runs it.
"""

from __future__ import annotations

from storage.cleaner.job import CleanJob, CleanResult


def run_round(job: CleanJob) -> CleanResult:
    """Run a round. Raises what `storage.cleaner.round.clean` raises."""
    from storage.cleaner.round import clean

    return clean(job)
