from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    query: str
    """
    Part of a name, company, email address or phone number
    """
    tags: Optional[List[str]] = None
    limit: Optional[int] = 20


class Contact(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    contactId: str
    name: str
    company: Optional[str] = None
    emails: List[str] = []
    phones: List[str] = []


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    contacts: List[Contact]


from . import CLIENT


def run(params: Params) -> Result:
    """Look up a person in the address book and get their phone numbers, emails and company."""
    result = CLIENT.run_sync(
        tool_name="search_contacts", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
