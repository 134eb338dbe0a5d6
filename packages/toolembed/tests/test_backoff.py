"""Delays after failures, and a circuit breaker that prevents calls until they have passed."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolembed import Backoff


@given(
    failures=st.integers(1, 10**6),
    first=st.floats(0.001, 100),
    longest=st.floats(0.001, 10**6),
    jitter=st.booleans(),
    asked=st.none() | st.floats(0, 10**6),
)
def test_a_delay_doubles_up_to_a_bound_and_is_at_least_the_requested_one(
    failures, first, longest, jitter, asked
):
    delay = Backoff(first=first, longest=longest, jitter=jitter).delay(failures, asked)

    bound = min(longest, first * 2.0 ** min(failures - 1, 100))
    assert delay == max(bound, asked or 0.0) or (jitter and (asked or 0.0) <= delay <= bound)


@pytest.mark.parametrize(("asked", "remaining"), [(500.0, 500.0), (5.0, 60.0), (None, 60.0)])
def test_a_failure_starts_a_delay_and_a_success_ends_it(monkeypatch, asked, remaining):
    now = [1_000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("toolembed._backoff.time", clock)
    breaker = Backoff(first=60.0, longest=1000.0).breaker()
    assert breaker.remaining == 0

    breaker.failed(asked)
    breaker.failed()
    assert (breaker.failures, breaker.remaining) == (1, remaining), "simultaneous ones are one"

    now[0] += remaining
    assert breaker.remaining == 0
    breaker.failed()
    assert (breaker.failures, breaker.remaining) == (2, 120)
    breaker.succeeded()
    assert (breaker.failures, breaker.remaining) == (0, 0)
