"""Functions as tools: a program's own, and those of modules that a search found."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import inspect
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, GenericAlias, MethodType, ModuleType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints
from weakref import WeakKeyDictionary

import toolscan
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs, to_json
from toolscan.docstrings import Docstring

from pytools_hybrid.errors import ToolArgumentsError, ToolLoadError
from pytools_hybrid.search import module_name
from pytools_hybrid.telemetry import CALLS, observe, request_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic.json_schema import JsonSchemaValue

    from pytools_hybrid.search import FoundTool

NAME_LENGTH = 64
"""The length that providers accept for the name of a function."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_NUMBER_LENGTH = 6
_ANY_ARGUMENTS = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)])
# The hash of each module's file when it was loaded: schema and code must match.
_hashes: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()


# Calling


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFunction:
    """A tool that can be called, with what a language model needs to know for that.

    Attributes:
        id: `source:category:name`, or the name of a program's own function.
        name: `category__name`, as providers of language models accept it.
        description: The whole docstring.
        input_schema: The JSON Schema of the arguments.
    """

    id: str
    name: str
    description: str
    input_schema: dict[str, Any]
    _bind: Callable[[Mapping[str, Any]], partial[Any]] = field(repr=False)

    async def call(self, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it gives
        """Call the tool; if it is not async, it runs in a worker thread.

        Args:
            arguments: JSON values that match the schema.

        Returns:
            The result of the tool.

        Raises:
            ToolArgumentsError: The arguments do not match the schema; the tool was not called.
            RuntimeError: The tool tried to exit the program, or raised `StopIteration`.
            Exception: Any other error of the tool.
        """
        category = self.id.split(":")[1] if self.id.count(":") == 2 else ""
        with observe(CALLS, request_source.get(), category) as seen:
            seen.note(self.name, {"gen_ai.tool.name": self.name, "pytools.tool": self.id})
            try:
                bound = self._bind(arguments)
            except ValidationError as error:
                seen.outcome = "refused"
                raise ToolArgumentsError(self.id, error.errors(include_url=False)) from error
            try:
                result = await self._result(bound)
            except Exception:
                seen.outcome = "error"
                raise
            seen.outcome = "ok"
        return result

    async def _result(self, bound: partial[Any]) -> Any:  # noqa: ANN401 - whatever it gives
        def run() -> Any:  # noqa: ANN401 - whatever it gives
            try:
                return bound()
            except StopIteration as error:
                # A future cannot pass it on, so the call would never end.
                raise RuntimeError(f"{self.id} raised StopIteration") from error

        try:
            if inspect.iscoroutinefunction(bound):
                return await bound()
            result = await asyncio.to_thread(run)
            # A decorator may hide that a function is async.
            return await result if inspect.isawaitable(result) else result
        except SystemExit as error:
            raise RuntimeError(f"{self.id} tried to exit the program: {error!r}") from error


class _Arguments:
    """The arguments of a function: their JSON Schema, validation, and binding for a call.

    Args:
        hints: The types of its parameters, by name; any value fits one without a type.
        is_model: Whether its only parameter is a model with all arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: inspect.Signature,
        hints: Mapping[str, Any],
        descriptions: Mapping[str, str] | None = None,
        *,
        is_model: bool = False,
    ) -> None:
        self._function = function
        self._signature = signature
        self._model = next(iter(signature.parameters)) if is_model else ""
        if self._model:
            self._checked = TypeAdapter[Any](hints[self._model])
            return

        def collected(**arguments: object) -> dict[str, object]:
            return arguments

        # pydantic validates the arguments of this function, which then stand for those of the real
        # one: JSON only has arguments with names.
        vars(collected)["__signature__"] = inspect.Signature(
            [
                _named(parameter, hints.get(name, Any), (descriptions or {}).get(name, ""))
                for name, parameter in signature.parameters.items()
            ]
        )
        collected.__annotations__ = {
            name: it.annotation for name, it in inspect.signature(collected).parameters.items()
        }
        config = ConfigDict(arbitrary_types_allowed=True)
        self._checked = TypeAdapter[Any](cast("Any", collected), config=config)

    def bind(self, arguments: Mapping[str, Any]) -> partial[Any]:
        """Validate arguments, and return the call with them.

        Raises:
            pydantic.ValidationError: They are invalid.
        """
        if self._model:
            given = self._checked.validate_python(arguments)
            bound = self._signature.bind(**{self._model: given})
        else:
            given = self._checked.validate_python(ArgsKwargs((), dict(arguments)))
            bound = self._signature.bind_partial()
            for name, parameter in self._signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    bound.arguments[name] = given
                elif parameter.kind is parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(given.pop(name))
                else:
                    bound.arguments[name] = given.pop(name)
        return partial(self._function, *bound.args, **bound.kwargs)

    def schema(self) -> dict[str, Any]:
        """Return their JSON Schema."""
        return self._checked.json_schema(schema_generator=_Schema)


def _named(parameter: inspect.Parameter, hint: Any, description: str) -> inspect.Parameter:  # noqa: ANN401 - a type
    if description and not _annotated_description(hint):
        hint = Annotated[hint, Field(description=description)]
    kind, default = parameter.kind, parameter.default
    if kind is parameter.POSITIONAL_ONLY:
        kind = parameter.POSITIONAL_OR_KEYWORD
    elif kind is parameter.VAR_POSITIONAL:
        kind, hint, default = parameter.KEYWORD_ONLY, GenericAlias(list, hint), ()
    return inspect.Parameter(parameter.name, kind, annotation=hint, default=default)


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


def _annotated_description(hint: object) -> str:
    """Return the description in an `Annotated[…]`: pydantic's, PEP 727's or a string."""
    for said in reversed(getattr(hint, "__metadata__", ())):
        for text in (said, getattr(said, "description", ""), getattr(said, "documentation", "")):
            if isinstance(text, str) and text:
                return text
    return ""


def result_text(result: object) -> str:
    """Format a tool's result for a language model: text unchanged, everything else as JSON."""
    return result if isinstance(result, str) else to_json(result, fallback=str).decode()


# Modules that a search found


def load_tool(found: FoundTool) -> ToolFunction:
    """Import the module of a tool, which runs its code, so that the tool can be called.

    Scanning, searching and describing only read files; this runs them, so only use it for trees
    whose code you trust. The tree's folder is appended to `sys.path`, so that tools can import each
    other. As usual in Python, a module is imported once and then kept.

    Raises:
        ToolLoadError: The module cannot be read or imported, its file has changed since its import,
            or another module has its name.
    """
    tool_id = str(found.entry.id)
    relative = found.path.relative_to(found.root)
    try:
        record = toolscan.read_tool(relative, found.root, name=found.name, layouts=found.layouts)
    except (toolscan.ToolScanError, OSError) as error:
        raise ToolLoadError(tool_id, f"its file cannot be read: {error}") from error
    module = _imported(tool_id, found.root, relative)
    function = getattr(module, record.entrypoint, None)
    is_as_imported = _hashes.setdefault(module, record.file_hash) == record.file_hash
    if not is_as_imported or function is None:
        raise ToolLoadError(
            tool_id, f"{found.path} has changed since it was imported: restart the program"
        )
    name = _NOT_IN_NAMES.sub("_", f"{found.entry.id.category}__{found.name}")[:NAME_LENGTH]
    try:
        if not inspect.isroutine(function):
            # What a decorator has made of it: a framework's tool, or any object.
            info = replace(inspect_callable(function), description=record.description)
            return replace(own_tool(info, name), id=tool_id)
        hints = get_type_hints(function, include_extras=True)
        signature, is_model = inspect.signature(function), bool(record.params_class)
        arguments = _Arguments(function, signature, hints, is_model=is_model)
    except Exception as error:
        reason = f"its parameters cannot be read: {type(error).__name__}: {error}"
        raise ToolLoadError(tool_id, reason) from error
    return ToolFunction(
        id=tool_id,
        name=name,
        description=record.description,
        input_schema=toolscan.input_schema(record),
        _bind=arguments.bind,
    )


def _imported(tool_id: str, root: Path, relative: Path) -> ModuleType:
    folder = str(root.resolve())
    if folder not in sys.path:
        sys.path.append(folder)
    # The module may have just been written.
    importlib.invalidate_caches()
    name = module_name(relative)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        reason = _hidden_by(root, relative) or f"{type(error).__name__}: {error}"
        raise ToolLoadError(tool_id, f"{name} cannot be imported: {reason}") from error
    if Path(module.__file__ or "").resolve() != (root / relative).resolve():
        raise ToolLoadError(tool_id, f"{name} was imported from another folder: {module.__file__}")
    return module


def _hidden_by(root: Path, relative: Path) -> str:
    """Return the package from another folder that hides a module, if any."""
    for folder in reversed(relative.parents[:-1]):
        name = ".".join(folder.parts)
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and Path(file).resolve().parent != (root / folder).resolve():
            return (
                f"the package {name} was imported from {file}, and a program can import only one "
                "package of that name; call the tools of this folder in another process"
            )
    return ""


# A program's own functions


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
class CallableInfo:
    """What a plain function or a framework's tool says about itself.

    Attributes:
        given: What was inspected.
        function: What a call runs.
        schema: The JSON Schema of the arguments, if a framework has made one.
        needs_agent: Whether only an agent of its framework can call it.
    """

    given: Any
    function: Callable[..., Any]
    name: str
    description: str
    schema: Mapping[str, Any] | None = None
    needs_agent: bool = False

    @property
    def module(self) -> str:
        """The last part of the name of its module."""
        with suppress(Exception):
            name = _attribute(_code(self.function), "__module__")
            return str(name or "").rpartition(".")[2].strip("_")
        return ""

    @property
    def parameters(self) -> dict[str, str]:
        """The names of its parameters, with their descriptions."""
        with suppress(Exception):
            if self.schema is not None:
                properties = dict(self.schema.get("properties", {}))
                return {str(it): str(of.get("description", "")) for it, of in properties.items()}
            signature, hints = _signature(self.function), _hints(self.function)
            said = Docstring(self.description).parameters
            if (model := _params_model(signature, hints)) is not None:
                return {
                    field.alias or name: field.description or said.get(name, "")
                    for name, field in model.model_fields.items()
                }
            return {
                name: _annotated_description(hints.get(name)) or said.get(name, "")
                for name in signature.parameters
            }
        return {}


def own_functions(functions: Iterable[object]) -> dict[str, CallableInfo]:
    """Return functions by unique names, without duplicates.

    Raises:
        TypeError: One of them cannot be called.
    """
    infos = [inspect_callable(it) for it in {_identity(it): it for it in functions}.values()]
    shared = Counter(name for name, _ in {(info.name, info.module) for info in infos})
    numbers: Counter[str] = Counter()
    own: dict[str, CallableInfo] = {}
    for info in infos:
        full = f"{info.module}__{info.name}" if shared[info.name] > 1 else info.name
        full = unique = _NOT_IN_NAMES.sub("_", full)[:NAME_LENGTH]
        while unique in own:
            numbers[full] += 1
            unique = f"{full[: NAME_LENGTH - _NUMBER_LENGTH]}_{numbers[full] + 1}"
        own[unique] = info
    return own


def own_tool(info: CallableInfo, name: str) -> ToolFunction:
    """Return a program's own function as a tool that can be called."""
    function, description = info.function, info.description
    if info.needs_agent:

        def function(**_: object) -> None:
            reason = "it takes the context of a pydantic-ai run: give it to an agent"
            raise ToolLoadError(name, reason)

    try:
        signature, hints = _signature(function), _hints(function)
        is_model = _params_model(signature, hints) is not None
        said = Docstring(description).parameters
        arguments = _Arguments(function, signature, hints, said, is_model=is_model)
        schema = arguments.schema() if info.schema is None else dict(info.schema)
    except Exception:  # noqa: BLE001 - types and defaults may do anything
        arguments, schema = _Arguments(function, _ANY_ARGUMENTS, {}), {"type": "object"}
    return ToolFunction(
        id=name, name=name, description=description, input_schema=schema, _bind=arguments.bind
    )


def inspect_callable(given: Any) -> CallableInfo:  # noqa: ANN401 - whatever there is
    """Return what is known about a function, or a tool of pydantic-ai or LangChain."""
    name, description = _attribute(given, "name"), _attribute(given, "description")
    if isinstance(name, str):
        schema = _attribute(_attribute(given, "function_schema"), "json_schema")
        if callable(function := _attribute(given, "function")) and isinstance(schema, dict):
            return CallableInfo(
                given=given,
                function=function,
                name=name,
                description=_docstring(function) if description is None else description,
                schema=cast("dict[str, Any]", schema),
                needs_agent=_attribute(given, "takes_ctx") is True,
            )
        properties = _attribute(given, "args")
        if callable(_attribute(given, "ainvoke")) and isinstance(properties, dict):
            schema = {"properties": cast("dict[str, Any]", properties)}
            return _from_langchain(given, name, description or "", schema)
    if not callable(given):
        raise TypeError(f"{given!r} is not callable; pass functions, or tools of a framework")
    return CallableInfo(
        given=given, function=given, name=_name(given), description=_docstring(given)
    )


def _from_langchain(tool: Any, name: str, description: str, schema: dict[str, Any]) -> CallableInfo:  # noqa: ANN401 - whatever it is
    async def call(**arguments: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        return await tool.ainvoke(arguments)

    model = _attribute(tool, "tool_call_schema")
    generate = _attribute(model, "model_json_schema")
    with suppress(Exception):
        schema = dict[str, Any](model if generate is None else generate())
    return CallableInfo(
        given=tool, function=call, name=name, description=description, schema=schema
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


def _unwrapped(function: Any) -> Any:  # noqa: ANN401 - whatever it is
    while isinstance(function, partial):
        function = function.func
    return function


def _code(function: Any) -> Any:  # noqa: ANN401 - whatever it is
    """Return the function that a call of an object runs."""
    function = _unwrapped(function)
    is_wrapper = _attribute(function, "__wrapped__") is not None
    if is_wrapper or isinstance(function, FunctionType | MethodType | BuiltinFunctionType):
        return function
    if isinstance(function, type):
        return inspect.getattr_static(function, "__init__")
    return type(function).__call__


def _name(function: Any) -> str:  # noqa: ANN401 - whatever it is
    function = _unwrapped(function)
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
