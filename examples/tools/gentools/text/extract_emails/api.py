from __future__ import annotations

from pydantic import BaseModel, Field


class FoundAddress(BaseModel):
    """An email address and how often it occurs."""

    address: str = Field(..., title="Address in lower case")
    occurrences: int = Field(..., title="How often it occurs")


def run(text: str, domain: str | None = None) -> list[FoundAddress]:
    """Pull all email addresses out of free text, without duplicates.

    The text can be anything: a web page, a signature, a log. No mailbox is opened and no address
    is checked for existence.

    Args:
        text: Text to look through
        domain: Keep only addresses at this domain or below it

    Returns:
        Addresses in order of first occurrence
    """
    from .impl import extract

    return extract(text, domain)
