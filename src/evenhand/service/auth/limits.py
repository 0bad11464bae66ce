"""Token buckets that limit the rate of requests."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from evenhand.errors import AccessError

MAX_BUCKETS = 10_000
"""Maximum number of callers with a token bucket."""

FAILURES_PER_SECOND = 1.0
MAX_FAILURES = 60
"""Burst of requests without a valid key from one address. Further requests are refused with status 429."""


class TokenBuckets:
    """Token bucket for each caller.

    Args:
        per_second: Average number of requests per second.
        steady: Monotonic clock in seconds.
        burst: Maximum number of requests at once. Default: ``per_second``, but at least 1.
    """

    def __init__(
        self, per_second: float, steady: Callable[[], float] = time.monotonic, *, burst: float | None = None
    ) -> None:
        self._per_second, self._burst = per_second, burst or max(1.0, per_second)
        self._steady = steady
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_until_allowed(self, caller: str) -> float:
        """Return the seconds until the caller may send a request. For 0, the request is counted."""
        now = self._steady()
        tokens, updated = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated) * self._per_second)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._per_second
        self._buckets[caller] = (tokens if wait else tokens - 1, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class FailureThrottle:
    """Throttle of requests without a valid key, by address. Requests with a valid key are never throttled.

    Args:
        steady: Monotonic clock in seconds.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(FAILURES_PER_SECOND, steady, burst=MAX_FAILURES)

    def refusal(self, error: AccessError, address: str) -> AccessError:
        """Return the error of a request, or a rate error if too many requests came from its address."""
        wait = self._buckets.seconds_until_allowed(address)
        if not wait:
            return error
        return AccessError(
            "too many requests without a valid key came from this address",
            code="rate",
            hint=f"send a valid key, or ask again in {wait:.1f} seconds",
        )
