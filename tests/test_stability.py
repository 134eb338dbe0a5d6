"""The modules that docs/stability.md promises are those that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROMISED = {
    package: re.findall(r"`([\w.]+)`", modules)
    for package, modules in re.findall(
        r"^\| ([\w-]+) \| (`.+`) \|$", (ROOT / "docs" / "stability.md").read_text("utf-8"), re.M
    )
}
SOURCES = {path.parent.name: path.parent for path in ROOT.glob("*/*/src/*/py.typed")}
LIBRARIES = sorted(SOURCES.keys() - {"pytools_hybrid"})


def public_modules(folder):
    """List the modules of a package that have no underscore in front, by their full names."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield ".".join(parts)


@pytest.mark.parametrize("module", LIBRARIES)
def test_each_public_module_of_a_library_is_promised_and_no_other(module):
    package = {"toolrank": "toolrank-hybrid"}.get(module, module)

    assert PROMISED[package] == list(public_modules(SOURCES[module]))


def test_every_adapter_is_promised():
    package, *modules = public_modules(SOURCES["pytools_hybrid"] / "adapters")

    assert package == "adapters"
    assert [f"pytools_hybrid.{it}" for it in modules] == [
        it for it in PROMISED["pytools-hybrid"] if ".adapters." in it
    ]


@pytest.mark.parametrize("module", [it for modules in PROMISED.values() for it in modules])
def test_a_promised_module_says_which_of_its_names_are_meant(module):
    package, *rest = module.split(".")
    place = SOURCES[package].joinpath(*rest)
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")

    assert re.search(r"^__all__ = \[", source.read_text("utf-8"), re.M)
