"""The package as its users see it."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import toolscan

PACKAGE = Path(__file__).parent.parent


def test_everything_exported_exists_and_is_documented():
    assert len(set(toolscan.__all__)) == len(toolscan.__all__)
    for name in toolscan.__all__:
        assert hasattr(toolscan, name)
        assert getattr(toolscan, name).__doc__


def test_importing_it_imports_no_command_no_parser_and_no_third_party_package():
    code = (
        "import sys; before = set(sys.modules); import toolscan; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "argparse",
        "json",
        "griffe",
        "pydantic",
        "asyncio",
        "logging",
        "tokenize_rt",
    }


def test_the_example_of_the_readme_prints_what_it_says(tmp_path, monkeypatch):
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    module, example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    (expected,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "tools/mcptools/tickets/create_ticket.py"
    path.parent.mkdir(parents=True)
    path.write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(example, "README.md", "exec"), {})
    assert shown.getvalue() == expected
