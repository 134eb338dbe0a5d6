"""A circuit breaker: a failing model is not called again until a delay has passed."""

from types import SimpleNamespace

import pytest
from toolembed import Backoff, CircuitBreaker


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """The time, as a list of one number that a test may change."""
    moment = [1_000.0]
    clock = SimpleNamespace(monotonic=lambda: moment[0])
    monkeypatch.setattr("toolembed._backoff.time", clock)
    return moment


def test_a_failure_starts_a_delay_and_a_success_ends_it():
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    assert breaker.remaining == 0

    breaker.failed()
    assert breaker.failures == 1
    assert breaker.remaining == 60

    breaker.succeeded()
    assert (breaker.failures, breaker.remaining) == (0, 0)


def test_simultaneous_failures_count_as_one():
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed()
    breaker.failed()
    assert breaker.failures == 1


@pytest.mark.parametrize(("asked", "remaining"), [(500.0, 500.0), (5.0, 60.0), (None, 60.0)])
def test_the_delay_is_at_least_as_long_as_the_model_requests(asked, remaining):
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed(retry_after=asked)
    assert breaker.remaining == remaining


def test_the_delay_ends_and_the_next_failure_is_counted(now):
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed()
    now[0] += 60
    assert breaker.remaining == 0
    breaker.failed()
    assert (breaker.failures, breaker.remaining) == (2, 120)
