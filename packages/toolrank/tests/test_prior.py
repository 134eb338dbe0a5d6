"""The usage prior: bounded, smoothed, and neutral without data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank.errors import RankingArgumentError
from toolrank.steps import usage_prior

counts = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("successes", "failures", "factor"),
    [
        (0, 0, 1.0),
        (1, 0, 1 + 0.1 * (2 * 2 / 3 - 1) * 1 / 11),
        (10, 0, 1 + 0.1 * (2 * 11 / 12 - 1) * 10 / 20),
        (0, 10, 1 - 0.1 * (2 * 11 / 12 - 1) * 10 / 20),
        (9, 1, 1 + 0.1 * (2 * 10 / 12 - 1) * 10 / 20),
        (50, 50, 1.0),
    ],
)
def test_the_factor_is_the_smoothed_success_rate_weighted_by_outcomes(successes, failures, factor):
    assert usage_prior(successes, failures) == pytest.approx(factor)


@given(successes=counts, failures=counts)
def test_the_factor_is_bounded_and_separates_good_from_bad(successes, failures):
    factor = usage_prior(successes, failures)
    assert 0.9 <= factor <= 1.1
    assert (factor > 1) == (successes > failures)
    assert (factor < 1) == (successes < failures)


@given(successes=counts, failures=counts)
def test_successes_and_failures_have_equal_weight(successes, failures):
    assert usage_prior(successes, failures) - 1 == pytest.approx(
        1 - usage_prior(failures, successes), abs=1e-12
    )


@given(successes=st.integers(0, 1000), failures=st.integers(0, 1000))
def test_another_success_never_lowers_the_factor(successes, failures):
    assert usage_prior(successes + 1, failures) >= usage_prior(successes, failures)


@pytest.mark.parametrize(
    ("successes", "failures", "argument"), [(-1, 0, "successes"), (0, -1, "failures")]
)
def test_a_count_below_zero_is_refused(successes, failures, argument):
    with pytest.raises(RankingArgumentError, match="below 0") as caught:
        usage_prior(successes, failures)
    assert caught.value.argument == argument
