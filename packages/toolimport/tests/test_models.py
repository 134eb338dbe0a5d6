"""Pydantic models from valid and invalid schemas of servers."""

import json
import sys
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from toolimport._generate._models import cleaned_schema, models_of
from toolimport.runtime._runner import arguments_of


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
        "from pydantic import BaseModel, ConfigDict, Field, conint\n\n\n"
        "class Unit(Enum):\n"
        '    c = "c"\n'
        '    f = "f"\n\n\n'
        "class Params(BaseModel):\n"
        "    model_config = ConfigDict(\n"
        '        extra="forbid",\n'
        "        use_enum_values=True,\n"
        "    )\n"
        '    city: str = Field(..., description="Where.")\n'
        '    unit: Optional[Unit] = "c"\n'
        "    days: Optional[conint(ge=1)] = None\n"
    )
    assert (models.result, models.notes) == ("", ())


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
def test_a_tool_without_parameters_takes_none_or_any(schema):
    models = models_of(schema, None)
    assert models.notes == ()
    assert built(models.params)().model_dump() == {}
    assert arguments_of(built(models.params)(a=1)) == {"a": 1}


def test_names_invalid_in_python_get_aliases_and_both_are_accepted():
    properties = {name: {"type": "string"} for name in ("class", "a b", "_x", "json", "$ref-to")}
    params = built(models_of({"type": "object", "properties": properties}, None).params)
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


def object_of(properties, **more):
    return {"type": "object", "properties": properties, **more}


def variant(*tags, **more):
    return object_of({"kind": {"enum": list(tags)}}, required=["kind"], **more)


TREE = {"$ref": "#/$defs/node"}
NODE = object_of({"and": {"type": "array", "items": TREE}, "value": {"type": "number"}})
TAGGED = {
    "oneOf": [variant("file", "folder"), variant("link")],
    "discriminator": {"propertyName": "kind"},
}
MERGED = [object_of({"a": {"type": "string"}}), object_of({"b": {"type": "integer"}})]
ODD_NAMES = ("class", "self", "model_config", "model_dump", "__init__", "_x", "a b", "a_b", "a.b")
MORE_NAMES = ("Id", "id", "ID", "naïve", "日本", "123", "root", "$", "", "Optional", "Params")


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        # What is not described is allowed unless the schema says otherwise.
        ({"type": "object"}, {"filter": {"a": [1, None]}}),
        (object_of({}), {"any": 1}),
        (object_of({"query": {"type": "string"}}), {"qurey": "x"}),
        (object_of({"q": {"type": "string"}}, additionalProperties={"type": "integer"}), {"n": 1}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": "b"}),
        ({"type": "object", "minProperties": 1}, {"a": 1}),
        ({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, {"ab": 1}),
        ({"type": "object", "patternProperties": {"^x-": {"type": "string"}}}, {"y": 1}),
        (
            object_of({}, patternProperties={"^x-": {}, "^y-": {}}, additionalProperties=False),
            {"x-a": 1, "y-a": 2},
        ),
        (object_of({"o": object_of({"a": {}})}), {"o": {"b": {"c": 1}}}),
        (
            object_of({"o": {"type": "array", "items": {"allOf": MERGED}}}),
            {"o": [{"a": "", "c": 1}]},
        ),
        # Only what was given.
        (object_of({"color": {"enum": ["red"], "default": ""}}), {}),
        (object_of({"n": {"type": "integer", "default": 3}}, required=["n"]), {}),
        (object_of({"o": object_of({"n": {"default": 3}}, required=["n"])}), {"o": {}}),
        (
            object_of(
                {"n": {"$ref": "#/$defs/n"}}, required=["n"], **{"$defs": {"n": {"default": 1}}}
            ),
            {},
        ),
        (object_of({"o": object_of({"k": {}}, required=["k"], default={})}), {}),
        # Null where it is allowed.
        (object_of({"a": {"type": ["string", "null"]}}), {"a": None}),
        (object_of({"a": {"type": "string", "nullable": True}}, required=["a"]), {"a": None}),
        (object_of({"a": {"enum": ["x"], "nullable": True}}), {"a": None}),
        (object_of({"a": {"oneOf": [{"type": "string"}], "nullable": True}}), {"a": None}),
        (object_of({"o": object_of({"a": {"anyOf": [{"type": "null"}, {}]}})}), {"o": {"a": None}}),
        (object_of({"a": {"properties": {"b": {}}, "nullable": True}}), {"a": None}),
        # Tags, choices and combinations.
        (object_of({"at": TAGGED}), {"at": {"kind": "folder", "more": 1}}),
        (object_of({"at": {"type": "array", "items": TAGGED}}), {"at": [{"kind": "link"}]}),
        (object_of({"v": {"enum": ["auto", 1, True, None]}}), {"v": True}),
        (object_of({"v": {"enum": ["auto", 1, True, None]}}), {"v": 1}),
        (object_of({"v": {"type": "array", "items": {"enum": [0, False]}}}), {"v": [False, 0]}),
        (object_of({"v": {"const": True}}), {"v": True}),
        (object_of({"v": {"enum": [{"a": 1}, [2]]}}), {"v": [2]}),
        (object_of({"v": {"enum": []}, "w": {}}), {"w": 1}),
        (object_of({"a": {}, "b": {}}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), {"b": 1}),
        ({"oneOf": [variant("x"), variant("y", "z")]}, {"kind": "z", "n": 1}),
        ({"allOf": MERGED}, {"a": "x", "b": 2, "c": 3}),
        (object_of({"tree": TREE}, **{"$defs": {"node": NODE}}), {"tree": {"and": [{"value": 1}]}}),
        (object_of({"a": {"type": "string"}}, required=["a", "ghost"]), {"a": "x", "ghost": [1]}),
        (object_of({"a": {}}, required=["a", "no"], additionalProperties=False), {"a": 1}),
        # Numbers and texts as they are.
        (object_of({"n": {"type": "integer"}}), {"n": 10**30}),
        (object_of({"n": {"type": "number", "minimum": 0}}), {"n": 2**63 + 1}),
        (object_of({"n": {"type": "integer"}}), {"n": 1.0}),
        (object_of({"n": {"type": ["boolean", "integer"]}}), {"n": 1.0}),
        (object_of({"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}), {"n": 1}),
        (
            object_of({"t": {"prefixItems": [{"type": "number"}, {"type": "string"}]}}),
            {"t": [1, "a"]},
        ),
        (object_of({"t": {"type": "string", "pattern": "^\\W+$"}}), {"t": "é"}),
        (object_of({"t": {"type": "string", "pattern": "^[[]$"}}), {"t": "["}),
        *(
            (object_of({"t": {"type": "string", "format": format_}}), {"t": text})
            for format_, text in (
                ("date-time", "2026-01-02T03:04:05.123456789Z"),
                *(("date-time", "2026-01-02T03:04:05"), ("time", "03:04:05.123456789")),
                *(("uri", "HTTP://x.org"), ("email", "A@X.org"), ("duration", "P1D")),
                *(("uuid", "0A8E5C1A-0000-4000-8000-00000000000F"), ("ipv6", "::FFFF")),
                *(("password", "x"), ("byte", "="), ("nonsense", "")),
            )
        ),
        # Names.
        *(
            (object_of({name: {"type": "string"} for name in ODD_NAMES}), {it: ""})
            for it in ODD_NAMES
        ),
        (object_of({name: {} for name in MORE_NAMES}), dict.fromkeys(MORE_NAMES, 1)),
        (object_of({"anyOf": True, "allOf": {"type": "string"}}), {"anyOf": 1, "allOf": "x"}),
    ],
)
def test_arguments_that_the_schema_allows_arrive_as_they_were_given(schema, given):
    models = models_of(schema, None)
    assert "anything" not in "".join(models.notes)
    arrived = arguments_of(built(models.params)(**given))
    assert json.dumps(arrived, sort_keys=True) in (
        json.dumps(given, sort_keys=True),
        json.dumps(given, sort_keys=True).replace("1.0", "1"),
    )


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (object_of({"a": {}}, additionalProperties=False), {"b": 1}),
        (object_of({}, additionalProperties=False), {"b": 1}),
        (object_of({"a": {}}, unevaluatedProperties=False), {"b": 1}),
        (object_of({"o": object_of({"a": {}}, additionalProperties=False)}), {"o": {"b": 1}}),
        (object_of({"a": {"type": "string"}}, required=["a", "ghost"]), {"a": "x"}),
        (object_of({"at": TAGGED}), {"at": {"kind": "other"}}),
        (object_of({"v": {"enum": ["auto", 1, True]}}), {"v": "x"}),
        (object_of({"a": {"type": "integer"}}), {"a": "x"}),
        ({"type": "object", "minProperties": 1}, {}),
        ({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}}, {"A": 1}),
    ],
)
def test_arguments_that_the_schema_forbids_are_refused(schema, given):
    with pytest.raises(ValidationError):
        built(models_of(schema, None).params)(**given)


def test_what_a_model_would_refuse_although_it_is_valid_is_loosened_with_a_note():
    choices = {"enum": [1, 10**30, "x"], "description": "Which."}
    models = models_of(object_of({"a": choices, "b": {"type": "integer"}}), None)
    assert [note.partition(":")[0] for note in models.notes] == ["a may be anything"]
    params = built(models.params)
    assert arguments_of(params(a=10**30)) == {"a": 10**30}
    assert params.model_json_schema()["properties"]["a"]["description"] == "Which."
    with pytest.raises(ValidationError):
        params(b="x")


def test_the_schema_of_a_model_has_descriptions_formats_and_valid_defaults():
    properties = {
        "at": {"type": "string", "format": "date-time", "description": 'When\n"it" is.'},
        "to": object_of({"city": {"type": "string", "description": "Where."}}),
        "n": {"type": "integer", "default": "10"},
        "m": {"type": "integer", "default": 10},
    }
    schema = built(models_of(object_of(properties), None).params).model_json_schema()
    assert schema["properties"]["at"]["description"] == 'When\n"it" is.'
    assert schema["properties"]["at"]["format"] == "date-time"
    assert schema["$defs"]["To"]["properties"]["city"]["description"] == "Where."
    assert schema["properties"]["n"]["default"] is None
    assert schema["properties"]["m"]["default"] == 10


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
