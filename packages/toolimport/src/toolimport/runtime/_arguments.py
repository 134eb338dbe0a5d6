"""From the parameters of a generated module to the arguments for a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pydantic import JsonValue

    _Held = list[Any] | tuple[Any, ...] | dict[Any, Any] | str | int | float | None


def arguments_of(params: Any) -> dict[str, Any]:  # noqa: ANN401 - a stranger's model
    """Return the arguments to send, by the server's names, without omitted ones.

    An optional field that is None counts as left out, because most servers refuse null there. In a
    field that is required, or has another default, None is intended.

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
    dumped = params.model_dump(mode="json", by_alias=True, warnings=False)
    arguments: JsonValue = _without_absent(params, dumped)
    if not isinstance(arguments, dict):
        raise TypeError(f"parameters must be an object, not {arguments!r}")
    return arguments


def _without_absent(value: Any, dumped: Any) -> Any:  # noqa: ANN401
    """Walk a value and its JSON in parallel, and drop omitted fields."""
    fields = getattr(cast("type[object]", type(value)), "model_fields", None)
    if fields is None:
        return _without_absent_in_container(value, dumped)
    if "root" in fields and hasattr(value, "root"):
        return _without_absent(value.root, dumped)
    kept: dict[str, Any] = dict(dumped)
    for name, field in fields.items():
        key = field.serialization_alias or field.alias or name
        item = getattr(value, name)
        # For a field without a default, `default` is not None either.
        if item is None and field.default is None:
            kept.pop(key, None)
        elif key in kept:
            kept[key] = _without_absent(item, dumped[key])
    return kept


def _without_absent_in_container(value: _Held, dumped: JsonValue) -> Any:  # noqa: ANN401
    if isinstance(value, list | tuple) and isinstance(dumped, list):
        return [_without_absent(*pair) for pair in zip(value, dumped, strict=True)]
    if isinstance(value, dict) and isinstance(dumped, dict) and len(value) == len(dumped):
        # In JSON the keys are strings, but in the same order.
        pairs = zip(value.values(), dumped.items(), strict=True)
        return {key: _without_absent(item, side) for item, (key, side) in pairs}
    return dumped
