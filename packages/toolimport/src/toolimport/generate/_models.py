"""Generating pydantic models from schemas with datamodel-code-generator, the extra `generate`."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
import warnings
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolimport._schemas import without_patterns
from toolimport.errors import GeneratorMissingError
from toolimport.generate._samples import Samples, refused
from toolimport.generate._schema import (
    FORMAT,
    check_size,
    cleaned_schema,
    loosened,
    renamed_parts,
    without_defaults,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel, JsonValue

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
_PATTERN = "a pattern that pydantic does not know was left out"
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
        notes: What differs from the schema, in sentences.
    """

    params: str
    result: str
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
        notes=tuple(dict.fromkeys((*notes, *more))),
    )


def _model(schema: object, name: str) -> tuple[str, tuple[str, ...]]:
    try:
        cleaned, notes = cleaned_schema(schema)
        check_size(cleaned)
        cleaned = renamed_parts(cleaned)
        if name == "Params" and "object" not in cleaned.get("type", "object"):
            raise ValueError("its schema is not that of an object")
    except (ValueError, TypeError) as error:
        return _ANYTHING.format(name=name), (f"{name} allows anything: {error}",)
    samples = Samples(cleaned)
    cleaned = without_defaults(cleaned, samples.is_valid)
    values, plain = samples.values(), without_patterns(cleaned)
    may_be_empty = samples.is_valid({}, cleaned)
    forms = [
        _Form(schema, by_name, has_enums, may_be_empty)
        for schema in (cleaned, plain)
        for by_name in (True, False)
        for has_enums in (True, False)
    ]
    problem, closest = "", None
    for form in forms:
        try:
            source, model = form.built(name)
        except Exception as error:  # noqa: BLE001 - of any kind: other tools go on
            problem = problem or f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            continue
        wrong = refused(model, values)
        if not wrong:
            return source, (*notes, _PATTERN) if form.schema is plain else notes
        closest = closest or (form, wrong)
    if closest is not None:
        source, more = _loosened(*closest, name, values)
        if source:
            return source, (*notes, *more)
        problem = f"no model accepts {', '.join(closest[1].values())}, which its schema allows"
    return _ANYTHING.format(name=name), (f"{name} allows anything: {problem[:200]}",)


def _loosened(
    form: _Form, wrong: Mapping[str, str], name: str, values: list[JsonValue]
) -> tuple[str, tuple[str, ...]]:
    """Let properties be anything until all values are accepted; return "" if that fails."""
    notes: list[str] = []
    while names := sorted(wrong.keys() & form.schema.get("properties", {}).keys()):
        notes += [f"{it} may be anything: pydantic refuses or changes {wrong[it]}" for it in names]
        form = replace(form, schema=loosened(form.schema, names))
        try:
            source, model = form.built(name)
        except Exception:  # noqa: BLE001 - of any kind: other tools go on
            break
        wrong = refused(model, values)
        if not wrong:
            return source, tuple(notes)
        if wrong.keys() >= set(names):
            break
    return "", ()


@dataclass(frozen=True, slots=True)
class _Form:
    """How a model is generated.

    Attributes:
        schema: The schema of the model.
        by_name: Whether a field can be given by its name in Python, besides the server's.
        has_enums: Whether choices become enums, which accept true for 1; otherwise literals.
        may_be_empty: Whether a model without fields can be made without an argument.
    """

    schema: dict[str, Any]
    by_name: bool
    has_enums: bool
    may_be_empty: bool

    def built(self, name: str) -> tuple[str, type[BaseModel]]:
        """Return the source of a model, and the model."""
        source = self._source(name, by_name=False)
        # Names that are invalid in Python get aliases.
        if self.by_name and "alias=" in source:
            source = self._source(name, by_name=True)
        return source, _model_in(source, name, _names_of(self.schema), by_name=self.by_name)

    def _source(self, name: str, *, by_name: bool) -> str:
        from collections import defaultdict

        from datamodel_code_generator import generate
        from datamodel_code_generator.enums import DataModelType, InputFileType
        from datamodel_code_generator.format import DatetimeClassType, Formatter, PythonVersion
        from datamodel_code_generator.model.base import ALL_MODEL
        from datamodel_code_generator.parser import LiteralType

        config = {"config": {"use_enum_values": True}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = generate(
                json.dumps(self.schema),
                input_file_type=InputFileType.JsonSchema,
                class_name=name,
                output_model_type=DataModelType.PydanticV2BaseModel,
                target_python_version=PythonVersion.PY_311,
                extra_template_data=defaultdict(dict, {ALL_MODEL: config}),
                field_extra_keys_without_x_prefix={FORMAT},
                enum_field_as_literal=None if self.has_enums else LiteralType.All,
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
        if self.may_be_empty:
            made = re.sub(
                rf"^(class {name}\(RootModel.*\n    root: (?:(?! = ).)+)$",
                r"\1 = {}",
                made,
                flags=re.M,
            )
        # Pydantic would drop unknown arguments.
        made = re.sub(r"(ConfigDict\(\n)(?!\s*extra=)", r'\1        extra="allow",\n', made)
        if re.search(r"^    model_\w+: ", made, flags=re.M):
            # It would warn about these names.
            made = made.replace("ConfigDict(\n", "ConfigDict(\n        protected_namespaces=(),\n")
        return re.sub(rf"\A{_HEADER}\s*", "", made).rstrip("\n") + "\n"


def _names_of(schema: dict[str, Any]) -> set[str]:
    """Return the names of fields that a model must have, if the schema lists them plainly."""
    is_plain = not {"$ref", "allOf", "anyOf", "oneOf"} & schema.keys()
    return set(schema.get("properties", ())) if is_plain else set()


def _model_in(source: str, name: str, names: set[str], *, by_name: bool) -> type[BaseModel]:
    """Check the generated source, and return its model if that can be built.

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
            fields = model.model_fields.items()
            found = {key if it.alias is None else it.alias for key, it in fields}
            if by_name and any(map(_is_ambiguous, vars(module).values())):
                raise ValueError("the name of a field is another field's name on the server")
            if not names <= found:
                raise ValueError(f"the generator left out {', '.join(sorted(names - found))}")
            return model
    finally:
        del sys.modules[module.__name__]


def _is_ambiguous(model: Any) -> bool:  # noqa: ANN401 - anything in a module
    """Return whether an argument can be meant for two fields of a model, by name or alias."""
    fields = dict(getattr(model, "model_fields", {})) if isinstance(model, type) else {}
    owners = {key if it.alias is None else it.alias: key for key, it in fields.items()}
    return any(owners.get(key, key) != key for key in fields)


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
