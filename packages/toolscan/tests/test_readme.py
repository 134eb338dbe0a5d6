"""The README's example prints the documented output."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


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
