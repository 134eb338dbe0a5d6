"""A circuit breaker: what failed is not called for a while, as long as it keeps failing."""

import time

import pytest
from toolembed import Backoff, CircuitBreaker


def test_a_failing_model_is_not_called_until_it_works():
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
def test_a_model_is_not_called_for_as_long_as_it_requests(asked, least):
    breaker = CircuitBreaker(Backoff(first=60.0, longest=1000.0))
    breaker.failed(retry_after=asked)
    assert breaker.remaining > least


def test_after_the_delay_it_is_tried_again_and_can_fail_again():
    breaker = CircuitBreaker(Backoff(first=0.01, longest=1000.0))
    breaker.failed()
    end = time.monotonic() + 60
    while breaker.remaining and time.monotonic() < end:
        time.sleep(0.001)
    assert breaker.remaining == 0
    breaker.failed()
    assert breaker.failures == 2
