"""What the README shows is what happens."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)[number]


@pytest.fixture
def clone(home, examples):
    """The part of a clone that a search looks at."""
    shutil.copytree(examples, home / "examples" / "tools")
    return home


def test_the_first_command_prints_what_the_readme_shows(run, clone):
    command, notice, indexed, *shown = block("console").splitlines()
    assert command == (
        '$ pip install uv && uv run pytools-hybrid search "open an issue on github" --limit 3'
    )

    result = run("search", "open an issue on github", "--limit", "3")

    assert result.stdout.splitlines() == shown
    assert result.stderr.splitlines()[0] == notice
    counts, _, place = indexed.partition(" in ")
    assert result.stderr.splitlines()[1].startswith(f"{counts} in ")
    assert place.endswith("….db")


def test_the_python_example_prints_what_the_readme_shows(clone, environment):
    result = subprocess.run(
        [sys.executable, "-c", block("python")],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == block("text")


def test_ci_runs_the_test_command_of_the_readme():
    command = block("console", 1).removeprefix("$ ").strip()

    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == command


def test_every_link_of_every_document_leads_somewhere():
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/*.md")]

    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]

    assert not broken


def test_every_setting_is_in_the_table():
    from pytools_hybrid import Settings

    for name, field in Settings.model_fields.items():
        variable = field.validation_alias or f"PYTOOLS_{name.upper()}"
        assert f"`{variable}`" in README, variable
