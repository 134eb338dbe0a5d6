"""Stop words: words that a search ignores."""

from __future__ import annotations

STOP_WORDS: frozenset[str] = frozenset(
    """
    a about all also am an and any are as at be been but by can could did do does doing
    for from had has have having he help her here him his how i if in into is it its just
    let like me my need no not of on or our out please she should so some than that the
    their them then there these they this those to us want was we were what when where
    which who why will with would you your
    """.split()  # noqa: SIM905 - a block of words reads better than a list of 90 strings
)
"""English words that say nothing about which document a request to an assistant means."""
