"""From the parameters of a generated module to the arguments for a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def arguments_of(params: Any) -> dict[str, Any]:  # noqa: ANN401 - a stranger's model
    """Return the arguments to send: what was given, by the server's names.

    Defaults are left to the server, and None that was given is sent as null.

    Args:
        params: An instance of a module's `Params`, or a mapping.

    Raises:
        TypeError: `params` is neither.
    """
    if isinstance(params, Mapping):
        return dict(cast("Mapping[str, Any]", params))
    if not hasattr(params, "model_dump"):
        raise TypeError(f"parameters must be a Params object or a mapping, not {params!r}")
    # In generated models the default of an enum is a plain string, about which pydantic warns.
    arguments = params.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if not isinstance(arguments, dict):
        raise TypeError(f"parameters must be an object, not {arguments!r}")
    return cast("dict[str, Any]", arguments)
