"""The README's example prints the documented output, and every exported name is documented."""

import contextlib
import io
import re
from pathlib import Path
from types import ModuleType

import toolscan
import toolscan.docstrings

README = Path(__file__).parents[1] / "README.md"


def public_names():
    yield from ((it, value) for it, value in vars(toolscan).items() if it[0] != "_")
    for module in (toolscan.docstrings, toolscan.errors):
        for name, value in vars(module).items():
            if name[0] != "_" and getattr(value, "__module__", "").startswith("toolscan"):
                yield name, value


def test_the_readme_lists_each_public_name_once_and_each_has_a_docstring():
    names = {name: it for name, it in public_names() if not isinstance(it, ModuleType)}
    table = README.read_text("utf-8").partition("## API")[2].partition("\n\nTools are")[0]
    listed = re.findall(r"`([A-Za-z_]+)(?=[`(])", "".join(re.findall(r"^\|(.*?)\|", table, re.M)))
    assert sorted(listed) == sorted(names)
    assert len(names) <= 15
    assert all(value.__doc__ for value in names.values())


def test_the_readme_example_prints_the_output_shown(tmp_path, monkeypatch):
    text = README.read_text("utf-8")
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
