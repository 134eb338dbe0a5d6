"""A program's own functions as tools: names, descriptions, parameters, and how to call them."""

from __future__ import annotations

import builtins
import inspect
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from pydantic import BaseModel
from toolscan.docstrings import Docstring

from pytools_hybrid.agents._arguments import Arguments, annotated_description
from pytools_hybrid.agents._definitions import ToolDefinition
from pytools_hybrid.agents._tool_function import NAME_LENGTH, NOT_IN_NAMES, ToolFunction
from pytools_hybrid.errors import ToolLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_ANY_ARGUMENTS = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])
_NUMBER_LENGTH = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFunction:
    """A function found in a `ToolCorpus`.

    Attributes:
        function: The function, as given to the corpus.
        tool: What a language model needs to know to call it.
        score: As for a `FoundTool`: decreasing from result to result, starting with the confidence
            of the first.
        confidence: As for a `FoundTool`: how likely the function answers the request.
    """

    function: Any
    tool: ToolFunction
    score: float
    confidence: float

    @property
    def name(self) -> str:
        """The name, unique in the corpus."""
        return self.tool.name

    @property
    def description(self) -> str:
        """The whole docstring."""
        return self.tool.description

    async def call(self, /, **arguments: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        """Call the function; if it is not async, it runs in a worker thread.

        Raises:
            ToolArgumentsError: The arguments do not match the schema; the function was not called.
            ToolLoadError: Only an agent of its framework can call it.
            Exception: Any error of the function.
        """
        return await self.tool.call(arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFunction:
    """A program's own function, with its definition for the index.

    Attributes:
        definition: Its definition; the schema only has the names and descriptions of parameters.
    """

    given: Any
    definition: ToolDefinition

    def tool(self) -> ToolFunction:
        """Return the function as a tool that can be called."""
        name, description = self.definition.name, self.definition.description or ""
        taken = _taken_apart(self.given)
        try:
            arguments = _arguments(taken, description)
            schema = arguments.schema() if taken.schema is None else dict(taken.schema)
        except Exception:  # noqa: BLE001 - types and defaults may do anything
            arguments, schema = Arguments(_ANY_ARGUMENTS, {}), {"type": "object"}
        return ToolFunction(
            id=name,
            name=name,
            description=description,
            input_schema=schema,
            _bind=arguments.bind,
            _function=_refusing(name) if taken.needs_agent else taken.function,
        )


def own_functions(functions: Iterable[object]) -> dict[str, OwnFunction]:
    """Return functions by unique names, without duplicates."""
    given = {_identity(function): function for function in functions}.values()
    described = [(function, *_described(function)) for function in given]
    shared = Counter(name for name, _ in {(name, module) for _, name, module, *_ in described})
    numbers: Counter[str] = Counter()
    own: dict[str, OwnFunction] = {}
    for function, name, module, description, parameters in described:
        full = f"{module}__{name}" if shared[name] > 1 else name
        full = unique = NOT_IN_NAMES.sub("_", full)[:NAME_LENGTH]
        while unique in own:
            numbers[full] += 1
            unique = f"{full[: NAME_LENGTH - _NUMBER_LENGTH]}_{numbers[full] + 1}"
        properties = {name: {"description": text} for name, text in parameters.items()}
        definition = ToolDefinition(
            name=unique, description=description, input_schema={"properties": properties}
        )
        own[unique] = OwnFunction(given=function, definition=definition)
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class _TakenApart:
    """The parts of a plain function or a framework's tool."""

    function: Callable[..., Any]
    name: str = ""
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    needs_agent: bool = False


def _taken_apart(given: Any) -> _TakenApart:  # noqa: ANN401 - whatever there is
    if isinstance(name := _attribute(given, "name"), str):
        for taken in (_from_pydantic_ai(given, name), _from_langchain(given, name)):
            if taken is not None:
                return taken
    if not callable(given):
        raise TypeError(f"{given!r} cannot be called: give functions, or tools of a framework")
    return _TakenApart(function=given)


def _from_pydantic_ai(tool: Any, name: str) -> _TakenApart | None:  # noqa: ANN401 - whatever it is
    function = _attribute(tool, "function")
    schema = _attribute(_attribute(tool, "function_schema"), "json_schema")
    if not (callable(function) and isinstance(schema, dict)):
        return None
    return _TakenApart(
        function=function,
        name=name,
        description=_attribute(tool, "description"),
        schema=cast("dict[str, Any]", schema),
        needs_agent=_attribute(tool, "takes_ctx") is True,
    )


def _from_langchain(tool: Any, name: str) -> _TakenApart | None:  # noqa: ANN401 - whatever it is
    properties, invoke = _attribute(tool, "args"), _attribute(tool, "ainvoke")
    if not (callable(invoke) and isinstance(properties, dict)):
        return None
    schema = cast("dict[str, Any]", {"properties": properties})
    model = _attribute(tool, "tool_call_schema")
    generate = _attribute(model, "model_json_schema")
    with suppress(Exception):
        schema = dict[str, Any](model if generate is None else generate())

    async def call(**arguments: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        return await tool.ainvoke(arguments)

    return _TakenApart(
        function=call,
        name=name,
        description=_attribute(tool, "description"),
        schema=schema,
    )


def _described(given: object) -> tuple[str, str, str, dict[str, str]]:
    """Return the name, module, description and parameters with their descriptions."""
    taken = _taken_apart(given)
    function = taken.function
    name, module = taken.name or _name(function), ""
    with suppress(Exception):
        module = str(_attribute(_code(function), "__module__") or "").rpartition(".")[2].strip("_")
    description = taken.description
    if description is None:
        description = _docstring(function)
    with suppress(Exception):
        if taken.schema is not None:
            properties = dict(taken.schema.get("properties", {}))
            return (
                name,
                module,
                description,
                {str(key): str(value.get("description", "")) for key, value in properties.items()},
            )
        return name, module, description, _parameters(function, description)
    return name, module, description, {}


def _parameters(function: Callable[..., Any], description: str) -> dict[str, str]:
    signature, hints = _signature(function), _hints(function)
    said = Docstring(description).parameters
    if (model := _params_model(signature, hints)) is not None:
        return {
            field.alias or name: field.description or said.get(name, "")
            for name, field in model.model_fields.items()
        }
    return {
        name: annotated_description(hints.get(name)) or said.get(name, "")
        for name in signature.parameters
    }


def _arguments(taken: _TakenApart, description: str) -> Arguments:
    if taken.needs_agent:
        return Arguments(_ANY_ARGUMENTS, {})
    signature, hints = _signature(taken.function), _hints(taken.function)
    return Arguments(
        signature,
        hints,
        Docstring(description).parameters,
        is_model=_params_model(signature, hints) is not None,
    )


def _params_model(signature: inspect.Signature, hints: Mapping[str, Any]) -> type[BaseModel] | None:
    """Return the model whose fields are the parameters, by the same rule as for tool modules."""
    if len(signature.parameters) != 1:
        return None
    (only,) = signature.parameters.values()
    model = hints.get(only.name)
    if not (inspect.isclass(model) and issubclass(model, BaseModel)):
        return None
    return model if "params" in {only.name, model.__name__.lower()} else None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except Exception:  # noqa: BLE001 - many a function in C has none, and any object may raise
        return _ANY_ARGUMENTS


class _Names(dict[str, Any]):
    """Resolves unknown types to `Any`: mostly those that only type checkers import."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - a type
        if name in self._known or hasattr(builtins, name):
            raise KeyError(name)
        return Any


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    code = _code(function)
    with suppress(Exception):
        names = _Names(getattr(inspect.unwrap(code), "__globals__", {}))
        return get_type_hints(code, localns=names, include_extras=True)
    return {}


def _code(function: Any) -> Any:  # noqa: ANN401 - whatever it is
    """Return the function that a call of an object runs."""
    while isinstance(function, partial):
        function = function.func
    is_wrapper = _attribute(function, "__wrapped__") is not None
    if is_wrapper or isinstance(function, FunctionType | MethodType | BuiltinFunctionType):
        return function
    if isinstance(function, type):
        return inspect.getattr_static(function, "__init__")
    return type(function).__call__


def _name(function: Any) -> str:  # noqa: ANN401 - whatever it is
    while isinstance(function, partial):
        function = function.func
    name = _attribute(function, "__name__")
    if not isinstance(name, str) or not name:
        return type(function).__name__
    name = name.strip("<>")
    owner = _attribute(function, "__self__")
    if owner is None or isinstance(owner, ModuleType):
        return name
    return f"{owner.__name__ if isinstance(owner, type) else type(owner).__name__}__{name}"


def _docstring(function: Any) -> str:  # noqa: ANN401 - whatever it is
    with suppress(Exception):
        while isinstance(function, partial):
            if own := vars(function).get("__doc__"):
                return inspect.cleandoc(own)
            function = function.func
        if _attribute(function, "__name__") is None:
            called = type(function).__call__
            if isinstance(called, FunctionType) and called.__doc__:
                return inspect.cleandoc(called.__doc__)
        return inspect.getdoc(function) or ""
    return ""


def _attribute(given: Any, name: str) -> Any:  # noqa: ANN401 - whatever it is
    try:
        return getattr(given, name, None)
    except Exception:  # noqa: BLE001 - any object may raise
        return None


def _identity(function: object) -> tuple[int, ...]:
    # Each access to a method creates a new object.
    if isinstance(function, MethodType):
        return id(function.__self__), id(function.__func__)
    return (id(function),)


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> None:  # noqa: ANN401 - whatever it takes
        raise ToolLoadError(name, "it takes the context of a pydantic-ai run: give it to an agent")

    return refuse
