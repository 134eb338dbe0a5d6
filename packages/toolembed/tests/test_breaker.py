"""A circuit breaker: a failing model is not called again until a delay has passed."""

import time

import pytest
from toolembed import Backoff, CircuitBreaker


def test_a_failure_starts_a_delay_and_a_success_ends_it():
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    assert breaker.remaining == 0

    breaker.failed()
    assert breaker.failures == 1
    assert 0 < breaker.remaining <= 60

    breaker.succeeded()
    assert (breaker.failures, breaker.remaining) == (0, 0)


def test_simultaneous_failures_count_as_one():
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed()
    breaker.failed()
    assert breaker.failures == 1


@pytest.mark.parametrize(("asked", "least"), [(500.0, 400.0), (None, 0.0)])
def test_the_delay_is_at_least_as_long_as_the_model_requests(asked, least):
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed(retry_after=asked)
    assert breaker.remaining > least


def test_the_delay_ends_and_the_next_failure_is_counted():
    breaker = CircuitBreaker(Backoff(first=0.01, longest=1000.0))
    breaker.failed()
    end = time.monotonic() + 60
    while breaker.remaining and time.monotonic() < end:
        time.sleep(0.001)
    assert breaker.remaining == 0
    breaker.failed()
    assert breaker.failures == 2
