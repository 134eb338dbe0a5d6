"""The modules promised in docs/stability.md exist, and include all that the documents name."""

import re
from pathlib import Path

import pytest

from release.projects import read_projects

from .public_names import public_names

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "stability.md").read_text("utf-8")
PROMISED = {
    package: re.findall(r"`([\w.]+)`", modules)
    for package, modules in re.findall(r"^\| ([\w-]+) \| (`.+`) \|$", PAGE, re.M)
}
ALL_PROMISED = [module for modules in PROMISED.values() for module in modules]
PACKAGES = {package.module: package for package in read_projects(ROOT).values()}
SOURCES = {module: package.source for module, package in PACKAGES.items()}
# The documents for users; docs/architecture.md and the decisions are for contributors.
SHOWN = ("README.md", "docs/guides/*.md", "*/*/README.md", "*/*/changes/*.md", "examples/**/*.md")
LIBRARIES = sorted(SOURCES.keys() - {"pytools_hybrid"})


def public_modules(folder):
    """List the full names of a package's modules that have no leading underscore."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


@pytest.mark.parametrize("module", LIBRARIES)
def test_exactly_the_public_modules_of_the_libraries_are_promised(module):
    assert PROMISED[PACKAGES[module].name] == list(public_modules(SOURCES[module]))


def test_every_adapter_is_promised():
    package, *modules = public_modules(SOURCES["pytools_hybrid"] / "agents" / "adapters")

    assert package == "adapters"
    assert [f"pytools_hybrid.agents.{it}" for it in modules] == [
        it for it in PROMISED["pytools-hybrid"] if ".adapters." in it
    ]


def shown_modules():
    """List our modules in the documents for users, each with a page that names it."""
    ours = {it for folder in SOURCES.values() for it in public_modules(folder)}
    names = re.compile(rf"\b(?:{'|'.join(SOURCES)})(?:\.\w+)*")
    return {
        max((it for it in ours if f"{name}.".startswith(f"{it}.")), key=len): page.relative_to(ROOT)
        for pattern in SHOWN
        for page in ROOT.glob(pattern)
        for name in names.findall(page.read_text("utf-8"))
    }


@pytest.mark.parametrize(("module", "page"), shown_modules().items())
def test_every_module_in_the_documentation_is_promised(module, page):
    assert (
        any(f"{it}.".startswith(f"{module}.") for it in ALL_PROMISED)
        or f"`python -m {module}`" in PAGE
    ), page


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_the_readme_of_a_package_names_its_whole_api(module):
    readme = (SOURCES[module].parents[1] / "README.md").read_text("utf-8")
    names = {name for name in public_names(module) if "." not in name}

    assert names <= set(re.findall(r"\w+", readme))


@pytest.mark.parametrize("module", PROMISED["pytools-hybrid"])
def test_every_promised_module_of_the_application_lists_its_names(module):
    package, *rest = module.split(".")
    place = SOURCES[package].joinpath(*rest)
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")

    listed = r"^(__all__ = \[|from \S+ import (\w+) as \2$)"
    assert re.search(listed, source.read_text("utf-8"), re.MULTILINE)
