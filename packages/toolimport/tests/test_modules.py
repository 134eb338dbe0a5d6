"""The source of generated modules: complete, safe, and found by a scan."""

import ast
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from toolimport._generate._models import models_of
from toolimport._generate._modules import (
    Tool,
    docstring,
    initial_for_mcpygen,
    initial_for_pytools,
    module_source,
)
from toolimport.clients._servers import read_servers


def module_of(tool, runtime="pytools"):
    models = models_of(tool.input_schema, tool.output_schema)
    return module_source("shop", tool, models, runtime)


def test_a_module_passes_its_parameters_to_its_packages_client():
    text = module_of(Tool(name="get-x", description="Get it.", input_schema={}))
    assert text.endswith(
        "from . import CLIENT\n\n"
        "def run(params: Params) -> str:\n"
        '    """Get it.\n'
        '    """\n'
        '    return CLIENT.run_sync(tool_name="get-x", tool_args=params)\n\n'
        "async def run_async(params: Params) -> str:\n"
        '    """Call the tool without blocking the event loop."""\n'
        '    return await CLIENT.run(tool_name="get-x", tool_args=params)\n'
    )


def test_a_module_with_a_result_model_validates_the_answer():
    tool = Tool(name="x", description="Get it.", input_schema={}, output_schema={})
    text = module_of(tool)
    given = '(tool_name="x", tool_args=params, result_model=Result)\n'
    assert f"    return CLIENT.run_sync{given}" in text
    assert text.endswith(f"    return await CLIENT.run{given}")


def test_a_module_for_mcpygen_passes_a_mapping():
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = Tool(name="x", description="Get it.", input_schema={}, output_schema=output)
    text = module_of(tool, "mcpygen")
    dumped = 'params.model_dump(mode="json", by_alias=True, exclude_unset=True)'
    given = f'(tool_name="x", tool_args={dumped}))\n'
    assert f"    return Result.model_validate(CLIENT.run_sync{given}" in text
    assert text.endswith(f"    return Result.model_validate(await CLIENT.run{given}")


@pytest.mark.parametrize(
    ("tool", "description"),
    [
        (Tool(name="x", title="Get the thing", input_schema={}), "Get the thing"),
        (Tool(name="x", description=" \n", input_schema={}), "x of shop"),
    ],
)
def test_a_tool_without_a_description_is_still_a_tool(tool, description):
    run, _ = ast.parse(module_of(tool)).body[-2:]
    assert ast.get_docstring(run).strip() == description


NASTY = st.text() | st.sampled_from(
    [
        '"""',
        '\\"""',
        "\\",
        "x\\",
        '"',
        "\r\n",
        "\x00",
        "\ud800",
        "\x1b[2J",
        "\u202e",
        "\\N{x}",
        "{0}",
    ]
)


@given(st.lists(NASTY).map("".join))
@example('""\0"')
@example('"\ud800""+evil()+"""')
def test_a_docstring_contains_any_description_unchanged(text):
    source = f"def run():\n    {docstring(text)}\n"
    found = ast.get_docstring(ast.parse(source).body[0], clean=False)
    assert [line.strip() for line in found.split("\n")[:-1]] == [
        line.strip() for line in _storable(text).split("\n")
    ]
    assert all(char in "\n\t" or char.isprintable() for char in source)


def _storable(text):
    kept = (char for char in text if char != "\0" and not "\ud800" <= char <= "\udfff")
    return "".join(kept).replace("\r\n", "\n")


# Few examples, because each writes and reads a module.
@settings(max_examples=settings().max_examples // 2)
@given(st.text(min_size=1, max_size=40))
@example('😀 "it\'s"')
@example("\ud800")
def test_a_module_contains_the_original_name_of_its_tool(name):
    text = module_of(Tool(name=name, description="Get it.", input_schema={}))
    run, run_async = (function.body[-1].value for function in ast.parse(text).body[-2:])
    assert run.keywords[0].value.value == run_async.value.keywords[0].value.value == name


def test_a_very_long_description_is_truncated():
    text = module_of(Tool(name="x", description="word " * 500_000, input_schema={}))
    assert len(text) < 200_000


@pytest.fixture
def entry(tmp_path):
    def make(definition, name="my shop"):
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"mcpServers": {name: definition}}))
        return read_servers(file)[0]

    return make


SECRETS = {"env": {"API_KEY": "hunter2"}, "headers": {"Authorization": "Bearer hunter2"}}


def test_a_package_names_its_configuration_file_and_no_values(entry, tmp_path):
    text = initial_for_pytools(entry({"command": "x", "args": ["hunter2"]} | SECRETS), "A shop.")
    assert text == (
        '"""A shop.\n"""\n\n'
        "from toolimport.runtime import ToolRunner\n\n"
        "CLIENT = ToolRunner(\n"
        "    server_name='my shop',\n"
        f"    servers_file={str(tmp_path / 'servers.json')!r},\n"
        ")\n"
    )


def parameters_of(text):
    call = ast.parse(text).body[-1].value
    return {it.arg: it.value for it in call.keywords}["server_params"]


def test_for_mcpygen_values_become_references_to_variables(entry, monkeypatch, tmp_path):
    definition = {
        "command": "x",
        "args": [
            "--dir",
            "${workspaceFolder}",
            "--api-key",
            "hunter2",
            "--token=hunter2",
            *("-v", "1", "-e", "API_TOKEN=hunter2", "--header", "Authorization: Bearer hunter2"),
            *("postgresql://bob:hunter2@db/x", "ghp_0123456789hunter2x"),
        ],
        "env": {"API_KEY": "hunter2", "OTHER": "${env:THEIRS}", "MIXED": "hunter2-${THEIRS}"},
    }
    text, needed = initial_for_mcpygen(entry(definition), "")
    assert ast.literal_eval(parameters_of(text)) == {
        "command": "x",
        "args": [
            *("--dir", str(tmp_path), "--api-key", "${MY_SHOP_API_KEY}"),
            *("--token=${MY_SHOP_TOKEN}", "-v", "1", "-e", "API_TOKEN=${MY_SHOP_API_TOKEN}"),
            *("--header", "Authorization: ${MY_SHOP_AUTHORIZATION}"),
            *("${MY_SHOP_URL}", "${MY_SHOP_ARGUMENT}"),
        ],
        "env": {"API_KEY": "${API_KEY}", "OTHER": "${THEIRS}", "MIXED": "${MIXED}"},
    }
    assert "hunter2" not in text
    of_args = ("API_KEY", "TOKEN", "API_TOKEN", "AUTHORIZATION", "URL", "ARGUMENT")
    assert needed == (*(f"MY_SHOP_{it}" for it in of_args), "API_KEY", "THEIRS", "MIXED")


def test_for_mcpygen_secrets_in_urls_become_references_too(entry):
    definition = {
        "type": "http",
        "url": "https://x.org/s/0123456789hunter2/api?token=hunter2&v=1",
        "headers": {"Authorization": "Bearer hunter2", "X-Key": "Bearer ${THEIRS}"},
    }
    text, needed = initial_for_mcpygen(entry(definition), "")
    assert ast.literal_eval(parameters_of(text)) == {
        "url": "${MY_SHOP_URL}",
        "type": "streamable_http",
        "headers": {"Authorization": "${MY_SHOP_AUTHORIZATION}", "X-Key": "Bearer ${THEIRS}"},
    }
    assert needed == ("MY_SHOP_URL", "MY_SHOP_AUTHORIZATION", "THEIRS")


@pytest.mark.parametrize(
    "address",
    [
        *(
            f"postgres://me:{password}@db.org:5432/x"
            for password in ("p@ss", "pa/ss", "pa#ss", "12/ss", "pa ss", "pa:ss", "p[ss", "p%40ss")
        ),
        *("git+https://me:hunter2@x.org/o/r@v1", "https://me:hunter2@x.org/@scope/x"),
        *("https://x.org/s/0123456789hunter2/api", "https://x.org/?v=1&token=hunter2"),
    ],
)
@pytest.mark.parametrize("form", ["{}", "--db={}", "--url {}"])
def test_for_mcpygen_a_url_with_a_secret_becomes_a_reference(entry, address, form):
    text, needed = initial_for_mcpygen(entry({"command": "x", "args": [form.format(address)]}), "")
    assert ast.literal_eval(parameters_of(text))["args"] == [form.format("${MY_SHOP_URL}")]
    assert needed == ("MY_SHOP_URL",)


@pytest.mark.parametrize(
    "address",
    [
        *("https://x.org/@scope/pkg", "http://localhost:8080/@fs/x", "https://x.org/pkg@1.2"),
        *("http://localhost:8080/?to=a@x.org", "http://[::1]:80/x", "git+https://x.org:443/o/r@v1"),
        *("https://x.org:${PORT}/@x", "https://x.org#a@b"),
    ],
)
def test_for_mcpygen_a_url_without_a_secret_is_unchanged(entry, address):
    text, _ = initial_for_mcpygen(entry({"command": "x", "args": [address]}), "")
    assert ast.literal_eval(parameters_of(text))["args"] == [address]
