"""Generating pydantic models from schemas with datamodel-code-generator, the extra `generate`."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from toolimport.errors import GeneratorMissingError
from toolimport.generate._schema import (
    check_size,
    cleaned_schema,
    renamed_parts,
    without_patterns,
)

_HEADER = "# toolimport"
_FUTURE = "from __future__ import annotations\n"
_MODULES = frozenset(
    {
        *("__future__", "typing", "enum", "pydantic", "datetime", "decimal", "uuid", "ipaddress"),
        *("pathlib", "collections.abc", "typing_extensions", "annotated_types"),
    }
)
# Classes, and functions of pydantic that create types: `Field(…)`, `constr(…)`.
_CALLED = re.compile(r"[A-Z]\w*|con[a-z]+")
_ANYTHING = """\
from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class {name}(BaseModel):
    model_config = ConfigDict(
        extra="allow",
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of one tool.

    Attributes:
        params: The source of `Params`.
        result: The source of `Result`, without the first import; empty if there is none.
        has_aliases: Whether some names in the models differ from those on the server.
        notes: What differs from the schema, in sentences.
    """

    params: str
    result: str
    has_aliases: bool
    notes: tuple[str, ...]


def require_generator() -> None:
    """Check that the generator is installed."""
    try:
        import datamodel_code_generator  # noqa: F401
        import filelock  # noqa: F401
    except ImportError:
        raise GeneratorMissingError from None


def generator_version() -> str:
    """Return the generator's version, because different versions generate different models."""
    from importlib.metadata import version

    return version("datamodel-code-generator")


def models_of(input_schema: object, output_schema: object | None) -> Models:
    """Generate the models of a tool; for an unsupported schema, one that allows anything."""
    params, notes = _model(input_schema, "Params")
    result, more = ("", ()) if output_schema is None else _model(output_schema, "Result")
    if "Params" in _classes(result):
        # This class would replace the tool's own Params.
        result = _ANYTHING.format(name="Result")
        more = ("Result allows anything: its schema has a part called Params",)
    return Models(
        params=params,
        result=result.replace(_FUTURE, "", 1),
        has_aliases="alias=" in params,
        notes=tuple(dict.fromkeys((*notes, *more))),
    )


def _model(schema: object, name: str) -> tuple[str, tuple[str, ...]]:
    problem = ""
    try:
        cleaned, notes = cleaned_schema(schema)
        check_size(cleaned)
        cleaned = renamed_parts(cleaned)
        if name == "Params" and "object" not in cleaned.get("type", "object"):
            raise ValueError("its schema is not that of an object")
    except (ValueError, TypeError) as error:
        return _ANYTHING.format(name=name), (f"{name} allows anything: {error}",)
    for attempt, note in (
        (cleaned, None),
        (without_patterns(cleaned), "a pattern that pydantic does not know was left out"),
    ):
        try:
            source = _generated(attempt, name)
            _check(source, name, _names_of(cleaned))
        except Exception as error:  # noqa: BLE001 - of any kind: other tools go on
            problem = problem or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        else:
            return source, (*notes, note) if note else notes
    return _ANYTHING.format(name=name), (f"{name} allows anything: {problem[:200]}",)


def _generated(schema: dict[str, Any], name: str) -> str:
    source = _source(schema, name, by_name=False)
    # Names that are invalid in Python get aliases; models must accept both.
    return _source(schema, name, by_name=True) if "alias=" in source else source


def _source(schema: dict[str, Any], name: str, *, by_name: bool) -> str:
    from collections import defaultdict

    from datamodel_code_generator import generate
    from datamodel_code_generator.enums import DataModelType, InputFileType
    from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion
    from datamodel_code_generator.model.base import ALL_MODEL

    config = {"config": {"use_enum_values": True}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = generate(
            json.dumps(schema),
            input_file_type=InputFileType.JsonSchema,
            class_name=name,
            output_model_type=DataModelType.PydanticV2BaseModel,
            target_python_version=PythonVersion.PY_311,
            extra_template_data=defaultdict(dict, {ALL_MODEL: config}),
            use_field_description=True,
            use_double_quotes=True,
            use_union_operator=False,
            use_standard_collections=False,
            use_specialized_enum=False,
            output_datetime_class=DatetimeClassType.Datetime,
            allow_population_by_field_name=by_name,
            allow_remote_refs=False,
            custom_file_header=_HEADER,
            formatters=[Formatter.BUILTIN],
        )
    if not isinstance(made, str):
        raise TypeError("the generator returned several modules")
    return re.sub(rf"\A{_HEADER}\s*", "", made).rstrip("\n") + "\n"


def _names_of(schema: dict[str, Any]) -> set[str]:
    """Return the names of fields that a model must have, if the schema lists them plainly."""
    is_plain = not {"$ref", "allOf", "anyOf", "oneOf"} & schema.keys()
    return set(schema.get("properties", ())) if is_plain else set()


def _check(source: str, name: str, names: set[str]) -> None:
    """Check the generated source, and then whether its models can be built.

    Importing a module runs it, so it may contain nothing but models; and models that cannot be
    built would make it useless.
    """
    tree = ast.parse(source)
    for node in tree.body:
        if not _is_expected(node):
            raise ValueError(
                f"the generator wrote something that is not a model, in line {node.lineno}"
            )
    from pydantic import BaseModel

    module = ModuleType(f"_toolimport_models_{threading.get_ident()}")
    # pydantic looks up names in the module of a class.
    sys.modules[module.__name__] = module
    try:
        with warnings.catch_warnings():
            # Pydantic warns about fields that shadow an attribute of BaseModel, but they work.
            warnings.simplefilter("ignore")
            exec(compile(tree, f"<{name}>", "exec"), vars(module))  # noqa: S102 - looked at above
            model = vars(module).get(name)
            if not (isinstance(model, type) and issubclass(model, BaseModel)):
                raise TypeError("the generator created no model for it")
            model.model_rebuild()
            model.model_json_schema()
            found = {field.alias or key for key, field in model.model_fields.items()}
            if not names <= found:
                raise ValueError(f"the generator left out {', '.join(sorted(names - found))}")
    finally:
        del sys.modules[module.__name__]


def _is_expected(node: ast.stmt) -> bool:
    match node:
        case ast.ImportFrom(module=module, level=0):
            return module in _MODULES
        case ast.ClassDef(decorator_list=[], bases=bases):
            return all(_is_plain(part) for part in bases) and _calls_no_strangers(node)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="model_rebuild"), args=[])):
            return True
        case ast.Assign() | ast.AnnAssign():
            return _calls_no_strangers(node)
        case _:
            return False


def _is_plain(base: ast.expr) -> bool:
    return isinstance(base, ast.Name | ast.Subscript)


def _calls_no_strangers(node: ast.stmt) -> bool:
    return all(
        (isinstance(it.func, ast.Name) and _CALLED.fullmatch(it.func.id))
        or (isinstance(it.func, ast.Attribute) and it.func.attr == "model_validate")
        for it in ast.walk(node)
        if isinstance(it, ast.Call)
    )


def _classes(source: str) -> set[str]:
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
