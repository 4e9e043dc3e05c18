"""Records of a share-partition in flight: begin, acquire and acknowledge in a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.coordinators.share.acknowledgement import Acknowledge, Acknowledged
from broker.coordinators.share.acquisition import AcquireRequest
from broker.coordinators.share.limits import Limits
from broker.coordinators.share.partition import InFlight
from coordinator.group.refused import Refused
from coordinator.share.state import ShareState, StateBatch
from protocol.error_codes import ErrorCode

TENS = [(first, first + 9) for first in range(0, 60, 10)]
"""The batches of a log, by their first and last offsets."""
ACCEPT, RELEASE, REJECT, RENEW, GAP = (Acknowledge[name] for name in ("ACCEPT", "RELEASE", "REJECT", "RENEW", "GAP"))


def wanted(member: str = "m", most: int = 500, size: int = 500, *, exact: bool = False) -> AcquireRequest:
    return AcquireRequest(member, most, size, exact)


def begun(start: int = 0) -> InFlight:
    """Return the state of a share-partition without readers so far."""
    return InFlight(ShareState(1, -1), start)


def acknowledge(
    flight: InFlight,
    member: str,
    *batches: tuple[int, int, Sequence[int]],
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> tuple[int, tuple[StateBatch, ...]]:
    """Plan and apply; return the state batches for the share coordinator."""
    changes, renewals = flight.plan(member, [Acknowledged(*batch) for batch in batches], limits)
    told = flight.stored(changes)
    flight.apply(changes)
    flight.renew(renewals, 99_000)
    return told


def refusal(act: Callable[..., object], *args: Any, **fields: Any) -> tuple[ErrorCode, str | None]:
    """Return the error code and message of the rejection."""
    with pytest.raises(Refused) as caught:
        act(*args, **fields)
    return caught.value.code, caught.value.message
