"""The package as its users see it."""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import toolscan

PACKAGE = Path(__file__).parent.parent


def test_everything_exported_exists_and_is_documented():
    assert len(set(toolscan.__all__)) == len(toolscan.__all__)
    for name in toolscan.__all__:
        assert hasattr(toolscan, name)
        assert getattr(toolscan, name).__doc__
    assert set(toolscan.__all__) <= set(dir(toolscan))
    assert len(set(dir(toolscan))) == len(dir(toolscan))


def loaded_by(program):
    """The modules that a program loads in a process of its own."""
    code = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    # What measures coverage loads much of what is looked for before the program begins.
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=quiet, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolscan' has no attribute 'nothing'"):
        toolscan.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolscan")
    assert {name for name in loaded if name.startswith("toolscan")} == {
        "toolscan",
        "toolscan.errors",
    }
    assert not loaded & {"ast", "asyncio", "dataclasses", "griffe", "hashlib", "inspect", "json"}


def test_importing_all_of_it_loads_no_command_and_no_third_party_package():
    loaded = loaded_by("from toolscan import *")
    assert "toolscan._stub" in loaded
    assert not loaded & {"argparse", "asyncio", "griffe", "json", "logging", "pydantic"}


def test_a_scan_that_finds_nothing_changed_loads_nothing_that_reads_syntax(tmp_path):
    tool = tmp_path / "mcptools" / "demo" / "join.py"
    tool.parent.mkdir(parents=True)
    tool.write_text("def run():\n    'Join.'\n", "utf-8")
    (tool.parent / "__init__.py").write_text("'Demonstrations.'\n", "utf-8")
    loaded = loaded_by(
        "import os\n"
        "from toolscan import FileStamp, scan\n"
        f"found = os.stat({str(tool)!r})\n"
        "stamp = FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)\n"
        f"report = scan({str(tmp_path)!r}, known={{'mcptools/demo/join.py': stamp}})\n"
        "assert (report.unchanged, report.records) == (('mcptools/demo/join.py',), ())\n"
        "assert report.categories == {'mcptools:demo': 'Demonstrations.'}"
    )
    assert "toolscan._scan" in loaded
    assert not loaded & {"hashlib", "toolscan._extract", "toolscan._schema"}


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
