"""The README shows real output."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import pytools_hybrid
import typer
from packaging.markers import Marker, default_environment
from pytools_hybrid.cli.app import top

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


def block(kind: str, number: int = 0) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.M | re.S)[number]


@pytest.fixture
def clone(home, examples):
    """The part of a clone that a search uses."""
    shutil.copytree(examples, home / "examples" / "tools")
    return home


def test_the_readme_has_the_number_of_installed_distributions():
    linux = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    here = default_environment() | linux | {"os_name": "posix", "extra": ""}
    here |= {"python_version": "3.11", "python_full_version": "3.11.7"}
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    packages = {it["name"]: it for it in lock["package"]}
    found, pending = set(), [("pytools-hybrid", "")]
    while pending:
        name, extra = pending.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        package = packages[name]
        needed = package.get("optional-dependencies", {}).get(extra, [])
        for it in needed or package.get("dependencies", []):
            if Marker(it.get("marker", "python_version > '3'")).evaluate(here):
                pending += [(it["name"], each) for each in ["", *it.get("extra", [])]]

    count = len({name for name, _ in found})
    assert f"pytools-hybrid installs\n{count} distributions, " in README
    for document in ("benchmarks/RESULTS.md", "docs/decisions/0016-what-is-installed.md"):
        assert f"{count} distributions, " in (ROOT / document).read_text("utf-8")


def test_the_first_command_prints_what_the_readme_shows(run, clone):
    command, notice, indexed, *shown = block("console").splitlines()
    assert command == (
        "$ pip install uv && uv run --package pytools-hybrid "
        'pytools-hybrid search "open an issue on github" --limit 3'
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
        timeout=PATIENCE,
    )

    assert result.stdout == block("text")


def test_ci_runs_the_test_command_of_the_readme():
    command = block("console", 1).removeprefix("$ ").strip()

    assert (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1] == command


def test_the_figure_is_up_to_date(tmp_path):
    drawn = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "figure.py"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )

    assert drawn.stdout == (ROOT / "docs" / "images" / "recall-latency.svg").read_bytes()


def test_the_figures_in_the_readme_are_those_of_the_results():
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    table = README.partition("## Comparison")[2].partition("\n## ")[0]

    figures = re.findall(r"(?<!\d)\.\d{3}\b", table)
    assert figures
    for shown in [*figures, "215,577 | | | |", "`--profile search` | 562"]:
        assert shown in results, shown
    assert "215,577" in README
    assert "562" in README


def test_every_link_of_every_document_works():
    site = runpy.run_path(str(ROOT / "docs" / "make" / "site.py"))

    broken = [
        f"{document}: {target}"
        for document in site["documents"](ROOT)
        for target in site["links"]((ROOT / document).read_text("utf-8"))
        if not (ROOT / document).parent.joinpath(target).exists()
    ]

    assert not broken


def test_the_app_s_own_readme_names_every_command_and_every_public_name():
    readme = (ROOT / "apps" / "pytools-hybrid" / "README.md").read_text("utf-8")
    commands = typer.main.get_command(top).commands

    for name in [*commands, *pytools_hybrid.__all__]:
        assert f"`{name}" in readme, name
    assert len(readme.splitlines()) <= 110
