"""Counts one request against its client's quotas, and throttles the client above them.

The answer is sent at once with the throttle time (KIP-219). Later requests of the client stay in the socket, and are
served after that time. Only requests of clients with a quota have a charge.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from metadata.decision import Refused
from protocol.error_codes import ErrorCode
from protocol.fetch_answer import FetchAnswer
from protocol.messages.fetch import FETCH
from protocol.messages.produce import PRODUCE

if TYPE_CHECKING:
    from broker.access.quotas.client_quotas import ClientLimits
    from broker.requests.context import ClientConnection
    from protocol.schema import Api
    from runtime.clock import Clock

_PER_CENT = 100 / 1_000_000_000  # of a second, a nanosecond
_LONGEST_MS = 2**31 - 1  # the largest throttle time of an answer


class Charge:
    """The charge of one request of `size` bytes. Its time runs from now on, except between `pause` and `resume`."""

    __slots__ = ("_api", "_clock", "_connection", "_limits", "_size", "_spent_ns", "_started_ns", "_wait_ms")

    def __init__(self, clock: Clock, connection: ClientConnection, limits: ClientLimits, api: Api, size: int) -> None:
        self._clock = clock
        self._connection = connection
        self._limits = limits
        self._api = api
        self._size = size
        self._wait_ms: int | None = None  # once it is known
        self._spent_ns = 0  # until it was paused last
        self._started_ns: int | None = perf_counter_ns()  # None while it is paused

    def pause(self) -> None:
        """Stop the time: the request waits for something. That is not counted, as in Kafka."""
        self._spent_ns = self._time_ns()
        self._started_ns = None

    def resume(self) -> None:
        """Let the time run on."""
        self._started_ns = perf_counter_ns()

    # -- called by handlers --------------------------------------------------------------------------------------------

    def most_fetched(self, max_bytes: int) -> int:
        """Return how many of `max_bytes` may be fetched at once. A larger answer could never be sent."""
        rate = self._limits.fetched
        return max_bytes if rate is None else min(max_bytes, int(rate.largest_single_amount))

    def allows_fetched(self, size: int) -> bool:
        """Whether so many bytes of records may be sent now. They are counted only if so.

        A batch above the limit of all windows is sent if nothing else was sent (in Kafka its client waits for ever).
        """
        now_ms = self._clock.monotonic_ms()
        self._wait_ms = self._spend_time(now_ms)
        rate = self._limits.fetched
        if rate is not None:
            is_first = rate.is_unused(now_ms)
            self._wait_ms = max(self._wait_ms, rate.record(size, now_ms))
            if is_first:
                return True
            if self._wait_ms:
                rate.record(-size, now_ms)
        return not self._wait_ms

    def count_fetched(self, size: int) -> None:
        """Count bytes of records that are sent in any case, as they are locked for a member. Throttle after it."""
        rate = self._limits.fetched
        if rate is not None:
            self._wait_ms = max(self._wait_ms or 0, rate.record(size, self._clock.monotonic_ms()))

    def admit_mutations(self, partitions: int, *, strict: bool) -> None:
        """Count partitions to create or delete. Raises Refused if `strict` and the quota is exceeded already."""
        bucket = self._limits.mutations
        if bucket is None:
            return
        now_ms = self._clock.monotonic_ms()
        owed_ms = bucket.wait_ms(now_ms) if strict else 0
        if not owed_ms:
            wait_ms = bucket.record(partitions, now_ms)
            owed_ms = 0 if strict else wait_ms
        self._wait_ms = max(self._wait_ms or 0, owed_ms)
        if strict and owed_ms:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    # -- called by dispatch --------------------------------------------------------------------------------------------

    def settle(self, reply: Any) -> Any:
        """Throttle the client if needed, and return its answer with the throttle time; None if there is no answer."""
        wait_ms = min(self._settled_ms(reply), _LONGEST_MS)
        if wait_ms > 0:
            self._connection.throttle(wait_ms)
            if isinstance(reply, FetchAnswer):
                return reply._replace(throttle_time_ms=wait_ms)
            if reply is not None and any(field.name == "throttle_time_ms" for field in reply.struct_type.fields):
                reply.throttle_time_ms = wait_ms
        return reply

    def _settled_ms(self, reply: object) -> int:
        if self._api is FETCH and self._wait_ms is not None:
            return self._wait_ms
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._wait_ms or 0
        if self._api is PRODUCE and self._limits.produced is not None:
            wait_ms = max(wait_ms, self._limits.produced.record(self._size, now_ms))
        if reply is not None:  # as in Kafka, not for acks=0
            wait_ms = max(wait_ms, self._spend_time(now_ms))
        return wait_ms

    def _spend_time(self, now_ms: int) -> int:
        """Count the broker's time for the request, as a share of a second. Returns the wait, at most a window."""
        rate = self._limits.requests
        if rate is None:
            return 0
        return min(rate.record(self._time_ns() * _PER_CENT, now_ms), rate.window_ms)

    def _time_ns(self) -> int:
        return self._spent_ns + (0 if self._started_ns is None else perf_counter_ns() - self._started_ns)
