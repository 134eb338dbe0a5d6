"""Pydantic models from valid and invalid schemas of servers."""

import json
import sys
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toolimport.generate._models import models_of
from toolimport.generate._schema import cleaned_schema


def built(source, name="Params"):
    module = ModuleType("built_models")
    sys.modules[module.__name__] = module
    exec(source, vars(module))
    return vars(module)[name]


def test_models_look_like_those_of_mcpygen():
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "unit": {"enum": ["c", "f"], "default": "c"},
            "days": {"type": "integer", "minimum": 1},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    models = models_of(schema, None)
    assert models.params == (
        "from __future__ import annotations\n\n"
        "from enum import Enum\n"
        "from typing import Optional\n\n"
        "from pydantic import BaseModel, ConfigDict, conint\n\n\n"
        "class Unit(Enum):\n"
        '    c = "c"\n'
        '    f = "f"\n\n\n'
        "class Params(BaseModel):\n"
        "    model_config = ConfigDict(\n"
        '        extra="forbid",\n'
        "        use_enum_values=True,\n"
        "    )\n"
        "    city: str\n"
        '    """\n'
        "    Where.\n"
        '    """\n'
        '    unit: Optional[Unit] = "c"\n'
        "    days: Optional[conint(ge=1)] = None\n"
    )
    assert (models.result, models.notes, models.has_aliases) == ("", (), False)


@pytest.mark.parametrize("key", ["$defs", "definitions"])
@pytest.mark.parametrize("part", ["Result", "Params", "params", "RESULT"])
def test_a_definition_named_like_one_of_our_models_does_not_replace_it(part, key):
    item = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}
    reference = {"$ref": f"#/{key}/{part}"}
    schema = {
        "type": "object",
        "properties": {"all": {"type": "array", "items": reference}, part: reference},
        key: {part: item, f"{part}Item": {"type": "string"}},
    }
    models = models_of(schema, schema)
    assert models.notes == ()
    for source, name in ((models.params, "Params"), (models.result, "Result")):
        given = {"all": [{"url": "x"}], part: {"url": "y"}}
        model = built(source, name)
        assert model.model_validate(given).model_dump(by_alias=True) == given


def test_a_schema_that_is_only_a_reference_becomes_the_model_itself():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Result"}}}
    models = models_of({}, {"$ref": "#/$defs/Result", "$defs": {"Result": node}})
    assert set(built(models.params + models.result, "Result").model_fields) == {"next"}


def doubled(schema, times):
    for _ in range(times):
        schema = {"anyOf": [schema, schema], "allOf": [schema]}
    return schema


def referring(times):
    """Return a schema of a few parts, each of which refers twice to the previous one."""
    parts = {"p0": {"anyOf": [{"type": "string"}, {"type": "object"}]}}
    for number in range(times):
        one = {"$ref": f"#/$defs/p{number}"}
        parts[f"p{number + 1}"] = {"allOf": [one, one]}
    return {"properties": {"a": {"$ref": f"#/$defs/p{times}"}}, "$defs": parts}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": doubled({"type": "object"}, 6)}},
        referring(20),
        {"properties": {f"p{number}": {"type": "string"} for number in range(30_000)}},
    ],
)
def test_a_schema_with_too_many_parts_allows_anything(schema):
    models = models_of(schema, None)
    assert "too many parts, or combinations" in "".join(models.notes)
    assert built(models.params).model_validate({"a": 1}).model_dump() == {"a": 1}


def test_an_output_schema_adds_a_model_without_a_second_future_import():
    result = models_of({}, {"type": "object", "properties": {"n": {"type": "integer"}}}).result
    assert "class Result(BaseModel)" in result
    assert "__future__" not in result


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, True, None, {"properties": {}}])
def test_a_tool_without_parameters_has_an_empty_model(schema):
    models = models_of(schema, None)
    assert models.notes == ()
    assert built(models.params)().model_dump() == {}


def test_names_invalid_in_python_get_aliases_and_both_are_accepted():
    properties = {name: {"type": "string"} for name in ("class", "a b", "_x", "json", "$ref-to")}
    models = models_of({"type": "object", "properties": properties}, None)
    params = built(models.params)
    assert models.has_aliases
    assert params(class_="1").model_dump(by_alias=True, exclude_none=True) == {"class": "1"}
    assert params(**{"a b": "1"}).model_dump(by_alias=True, exclude_none=True) == {"a b": "1"}


@pytest.mark.parametrize("reference", ["file:/etc/hostname", "../x.json", "http://127.0.0.1:9/x"])
def test_a_reference_outside_the_schema_is_not_followed(reference):
    models = models_of({"type": "object", "properties": {"a": {"$ref": reference}}}, None)
    assert models.notes == ("a reference out of its schema was ignored",)
    assert built(models.params)(a=[1]).a == [1]


def test_a_server_cannot_make_the_generator_import_modules():
    stranger = {
        "customTypePath": "os.system",
        "x-python-import": {"module": "os", "name": "system"},
    }
    schema = {"type": "object", "customBasePath": "os.system", "properties": {"a": stranger}}
    assert "os" not in models_of(schema, None).params.replace("pos", "").split()
    assert cleaned_schema(schema)[0] == {"type": "object", "properties": {"a": {}}}


def test_a_property_can_be_named_like_a_json_schema_keyword():
    names = ["type", "properties", "$ref", "pattern", "enum", "default", "items", "customTypePath"]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert cleaned_schema(schema)[0] == schema


def test_only_the_unsupported_pattern_is_left_out():
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-"}}}
    models = models_of(schema, None)
    assert models.notes == ("a pattern that pydantic does not know was left out",)
    assert built(models.params)(a="x").a == "x"


@pytest.mark.parametrize("format_", ["email", "password", "uri", "byte", "nonsense"])
def test_formats_neither_change_nor_reject_values(format_):
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": format_}}}
    params = built(models_of(schema, None).params)
    assert params(a="http://x.org").model_dump(mode="json") == {"a": "http://x.org"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": 3},
        {"type": "object", "properties": {"a": {"enum": []}}},
        {"type": "object", "required": "a"},
    ],
)
def test_an_unsupported_schema_still_becomes_a_model(schema):
    built(models_of(schema, None).params)


def test_an_excessively_nested_schema_allows_anything():
    schema = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    models = models_of(schema, None)
    assert models.notes == ("Params allows anything: its schema is nested too deeply",)
    assert built(models.params)(b=1).model_dump() == {"b": 1}


def test_a_result_definition_called_params_does_not_replace_the_parameters():
    part = {"type": "object", "properties": {"x": {"type": "string"}}}
    output = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/Params"}},
        "$defs": {"Params": part},
    }
    models = models_of({"type": "object", "properties": {"y": {"type": "string"}}}, output)
    assert set(built(f"{models.params}\n{models.result}").model_fields) == {"y"}


TEXTS = st.text(max_size=30) | st.sampled_from(['"""', "\\", "'''", "\\N{", "\r", "\x00", "{{x}}"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])},
        optional={"description": TEXTS, "title": TEXTS, "default": TEXTS},
    )
    | st.fixed_dictionaries({"enum": st.lists(TEXTS | st.integers(), min_size=1, max_size=4)}),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(TEXTS, inner, max_size=3)},
            optional={"description": TEXTS, "additionalProperties": st.booleans()},
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
    ),
    max_leaves=6,
)


# Few examples, because each generates and runs models.
@settings(max_examples=settings().max_examples // 4)
@given(st.dictionaries(TEXTS, SCHEMAS, max_size=3))
def test_any_schema_becomes_a_valid_model(properties):
    schema = {"type": "object", "properties": json.loads(json.dumps(properties))}
    compile(models_of(schema, None).params, "params", "exec")
