from __future__ import annotations


def run(title: str, max_length: int = 60) -> str:
    """Make a URL-friendly slug out of a headline: lower case, ASCII, words joined by hyphens.

    Accents are removed and a long slug is cut between words, not inside one.

    Args:
        title: Headline or file name in any Latin script
        max_length: Longest slug allowed

    Returns:
        The slug; empty when nothing of the title can be written in ASCII
    """
    from .impl import slugify

    return slugify(title, max_length)
