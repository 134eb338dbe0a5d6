"""The arguments of a function: their JSON Schema, validation, and binding for a call."""

from __future__ import annotations

import inspect
from contextlib import suppress
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

# The default of every field: the function decides about arguments that are not given.
_LEFT_OUT = object()
_EMPTY = inspect.Parameter.empty


class Arguments:
    """The arguments of a function.

    Args:
        hints: The types of its parameters, by name; any value fits one without a type.
        is_model: Whether its only parameter is a model with all arguments.
    """

    def __init__(
        self,
        signature: inspect.Signature,
        hints: Mapping[str, Any],
        descriptions: Mapping[str, str] | None = None,
        *,
        is_model: bool = False,
    ) -> None:
        self._signature = signature
        self._model = ""
        if is_model:
            (self._model,) = signature.parameters
            self._checked = TypeAdapter[Any](hints[self._model])
            return
        kinds = {name: it.kind for name, it in signature.parameters.items()}
        starred = {kind: name for name, kind in kinds.items()}
        self._several = starred.get(inspect.Parameter.VAR_POSITIONAL, "")
        self._others = starred.get(inspect.Parameter.VAR_KEYWORD, "")
        # A positional argument cannot be omitted before one that is given.
        self._needs_defaults = bool(self._several) or (
            inspect.Parameter.POSITIONAL_ONLY in kinds.values()
        )
        self._names = [name for name in kinds if name != self._others]
        # Numbered, because a parameter may have the name of a method of pydantic's models.
        fields: dict[str, Any] = {
            f"n{number}": self._field(name, hints.get(name, Any), descriptions or {})
            for number, name in enumerate(self._names)
        }
        # As in a call, unknown arguments are an error.
        config = ConfigDict(
            extra="allow" if self._others else "forbid", arbitrary_types_allowed=True
        )
        self._checked = TypeAdapter[Any](create_model("Arguments", __config__=config, **fields))
        self._checked.rebuild()  # which raises if a type cannot be found

    def _field(self, name: str, hint: object, descriptions: Mapping[str, str]) -> tuple[Any, Any]:
        default = self._signature.parameters[name].default
        options: dict[str, Any] = {"alias": name}
        if name in descriptions and not annotated_description(hint):
            options["description"] = descriptions[name]
        if name == self._several:
            return GenericAlias(list, hint), Field(_LEFT_OUT, **options)
        if default is _EMPTY:
            return hint, Field(..., **options)
        with suppress(Exception):  # comparing a default may raise anything
            options["json_schema_extra"] = {"default": to_jsonable_python(default)}
        return hint, Field(_LEFT_OUT, **options)

    def bind(self, arguments: Mapping[str, Any]) -> inspect.BoundArguments:
        """Validate arguments, and bind them for a call.

        Raises:
            pydantic.ValidationError: They are invalid.
        """
        given = self._checked.validate_python(arguments)
        if self._model:
            return self._signature.bind(**{self._model: given})
        bound = self._signature.bind_partial()
        for number, name in enumerate(self._names):
            if f"n{number}" in given.model_fields_set:
                value = getattr(given, f"n{number}")
                bound.arguments[name] = tuple(value) if name == self._several else value
        if self._others:
            bound.arguments[self._others] = given.model_extra
        if self._needs_defaults:
            bound.apply_defaults()
        return bound

    def schema(self) -> dict[str, Any]:
        """Return their JSON Schema."""
        schema = self._checked.json_schema(schema_generator=_Schema)
        if not self._model:
            del schema["title"]
        return schema


class _Schema(GenerateJsonSchema):
    """Omits titles that only repeat names, and allows any value if JSON has no such type."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as the base has it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - as the base has it
        return False

    def handle_invalid_for_json_schema(
        self,
        schema: Any,  # noqa: ANN401 - as the base has it
        error_info: str,
    ) -> JsonSchemaValue:
        return {}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is _LEFT_OUT:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def annotated_description(hint: object) -> str:
    """Return the description in an `Annotated[…]`: pydantic's, PEP 727's or a string."""
    for said in reversed(getattr(hint, "__metadata__", ())):
        for text in (said, getattr(said, "description", ""), getattr(said, "documentation", "")):
            if isinstance(text, str) and text:
                return text
    return ""
