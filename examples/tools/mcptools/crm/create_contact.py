from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class PhoneType(Enum):
    mobile = "mobile"
    work = "work"
    home = "home"


class PhoneNumber(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    type: PhoneType
    number: str
    """
    International form, with the leading +
    """


class PostalAddress(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    street: Optional[str] = None
    city: Optional[str] = None
    postalCode: Optional[str] = None
    country: Optional[str] = None


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    firstName: str
    lastName: Optional[str] = None
    company: Optional[str] = None
    emails: Optional[List[str]] = None
    phones: Optional[List[PhoneNumber]] = None
    address: Optional[PostalAddress] = None
    birthday: Optional[str] = None
    tags: Optional[List[str]] = None


from . import CLIENT


def run(params: Params) -> str:
    """Add a new person to the address book.

    An existing entry with the same email is not duplicated: the call fails and names its
    contactId.
    """
    return CLIENT.run_sync(
        tool_name="create_contact", tool_args=params.model_dump(exclude_none=True)
    )
