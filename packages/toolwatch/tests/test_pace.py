"""When changes become a batch: arithmetic on times, without a clock."""

import pytest
from toolwatch._debounce import Pace


@pytest.fixture
def pace():
    return Pace(debounce=0.05, step=0.01)


def follow(pace, times):
    """Report one change at each of these times as a batch, and return the delays."""
    delays = []
    for first in times:
        due = pace.due(first, first)
        pace.gave(first, due)
        delays.append(round(due - first, 3))
    return delays


def test_a_single_change_is_reported_after_one_step_of_silence(pace):
    assert pace.due(first=1.0, last=1.0) == pytest.approx(1.01)


def test_consecutive_changes_are_reported_together_up_to_the_limit(pace):
    assert pace.due(first=1.0, last=1.02) == pytest.approx(1.03)
    assert pace.due(first=1.0, last=1.2) == pytest.approx(1.05)


def test_endless_changes_are_reported_at_growing_intervals(pace):
    times = [1.0]
    delays = []
    for _ in range(9):
        delays += follow(pace, times[-1:])
        times.append(times[-1] + delays[-1] + 0.005)
    assert delays == [0.01, 0.01, 0.01, 0.01, 0.05, 0.1, 0.2, 0.25, 0.25]


def test_after_a_silence_changes_are_reported_quickly_again(pace):
    times = [1.0 + number / 100 for number in range(20)]
    assert follow(pace, times)[-1] == 0.25
    assert follow(pace, [9.0]) == [0.01]


def test_saves_a_third_of_a_second_apart_are_all_reported_immediately(pace):
    assert set(follow(pace, [number / 3 for number in range(20)])) == {0.01}


def test_a_long_debounce_is_never_shortened():
    pace = Pace(debounce=2.0, step=0.5)
    assert pace.due(first=1.0, last=9.0) == pytest.approx(3.0)
    assert follow(pace, [1.0 + number / 100 for number in range(20)])[-1] == 2.0
