"""Asking the user, through the client, before a tool is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp.types.version import is_version_at_least

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

_KEY = "confirm"
# From this version on, a server asks in its answer, and the client repeats its call.
_BY_ANSWER = "2026-07-28"
_NOTHING_TO_FILL_IN: dict[str, Any] = {"type": "object", "properties": {}}


class InputRequired(Exception):  # noqa: N818 - no error: the protocol's answer to a call
    """The client has to ask its user, and then repeat the call.

    Attributes:
        result: The answer that asks for it.
    """

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__()
        self.result = result


async def confirmed(context: Context[None, Any], question: str) -> bool | None:
    """Ask the user; return whether they agreed, or None if the client cannot ask.

    Raises:
        InputRequired: The answer comes with the next call.
    """
    able = context.client_capabilities and context.client_capabilities.elicitation
    if not able or (able.form is None and able.url is not None):
        return None
    version = context.protocol_version
    if version is None or not is_version_at_least(version, _BY_ANSWER):
        answer: ElicitResult = await context.session.elicit_form(
            question, _NOTHING_TO_FILL_IN, context.request_id
        )
        return answer.action == "accept"
    given = (context.input_responses or {}).get(_KEY)
    if isinstance(given, ElicitResult):
        return given.action == "accept"
    params = ElicitRequestFormParams(message=question, requested_schema=_NOTHING_TO_FILL_IN)
    raise InputRequired(InputRequiredResult(input_requests={_KEY: ElicitRequest(params=params)}))
