"""The commands in remedies, which depend on how this copy was installed."""

import json
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from pytools_hybrid.installation import Installation

CLONE = Path("/clone/apps/pytools-hybrid")
RECEIPT = """
[tool]
requirements = [
    { name = "pytools-hybrid", extras = ["import"], directory = "/clone/apps/pytools-hybrid" },
    { name = "requests", specifier = ">=2" },
]
"""


@pytest.fixture
def installed(tmp_path):
    """Describe an installation by the files that installers leave."""

    def make(*, installer="pip", url=None, editable=False, receipt=None):
        folder = tmp_path / "pytools_hybrid-0.1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Name: pytools-hybrid\n")
        (folder / "INSTALLER").write_text(f"{installer}\n")
        if url is not None:
            origin = {"url": url, "dir_info": {"editable": True} if editable else {}}
            (folder / "direct_url.json").write_text(json.dumps(origin))
        if receipt is not None:
            (tmp_path / "uv-receipt.toml").write_text(receipt)
        return Installation.of(Distribution.at(folder), prefix=tmp_path, python="/env/python")

    return make


def test_pip_installs_an_extra_from_the_source_of_this_copy(installed):
    pip = installed(url=CLONE.as_uri())
    assert pip.command("pytools-hybrid[openai]", "pydantic-ai-slim[mistral]") == (
        '/env/python -m pip install "pydantic-ai-slim[mistral]" '
        '"/clone/apps/pytools-hybrid[openai]"'
    )


def test_a_copy_from_an_index_is_installed_by_name(installed):
    pip = installed()
    assert pip.command("pytools-hybrid[openai]") == (
        '/env/python -m pip install "pytools-hybrid[openai]"'
    )
    assert pip.command("pytools-hybrid", upgrade=True) == (
        "/env/python -m pip install --upgrade pytools-hybrid"
    )
    assert pip.command("apsw", again=True) == "/env/python -m pip install --force-reinstall apsw"


def test_uv_installs_into_the_same_environment_and_keeps_it_editable(installed):
    uv = installed(
        installer="uv", url=Path("/my clone/apps/pytools-hybrid").as_uri(), editable=True
    )
    assert uv.command("pytools-hybrid[otel]") == (
        'uv pip install --python /env/python -e "/my clone/apps/pytools-hybrid[otel]"'
    )


def test_a_uv_tool_keeps_its_extras_and_additional_packages(installed):
    tool = installed(installer="uv", url=CLONE.as_uri(), receipt=RECEIPT)
    assert tool.command("pytools-hybrid[openai]", "pydantic-ai-slim[mistral]") == (
        'uv tool install --with "requests>=2" --with "pydantic-ai-slim[mistral]" '
        '"/clone/apps/pytools-hybrid[import,openai]"'
    )
    assert tool.command("apsw", again=True) == (
        'uv tool install --reinstall --with "requests>=2" "/clone/apps/pytools-hybrid[import]"'
    )


def test_a_uv_tool_keeps_the_sources_of_additional_packages(installed):
    companions = """
    { name = "near", directory = "/near" }, { name = "file", extras = ["x"], path = "/f.whl" },
    { name = "far", git = "https://host.example/far?rev=1" }, { name = "mine", editable = "/mine" },
    """
    receipt = RECEIPT.replace('    { name = "requests", specifier = ">=2" },\n', companions)
    tool = installed(installer="uv", url=CLONE.as_uri(), receipt=receipt)
    assert tool.command("pytools-hybrid[openai]") == (
        'uv tool install --with /near --with "/f.whl[x]" '
        '--with "far @ git+https://host.example/far?rev=1" --with /mine '
        '"/clone/apps/pytools-hybrid[import,openai]"'
    )


@pytest.fixture
def clone(tmp_path):
    """A clone with the packages that pip needs as arguments."""
    extras = ("packages/toolembed-accurate", "packages/toolindex-postgres")
    for name in ("apps/pytools-hybrid", *extras, "packages/toolscan"):
        folder = tmp_path / "clone" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").touch()
    return tmp_path / "clone"


def test_a_clone_is_updated_and_pip_gets_all_its_packages(installed, clone):
    app = clone / "apps" / "pytools-hybrid"
    assert installed(url=app.as_uri()).command("pytools-hybrid", upgrade=True) == (
        f"git -C {app} pull && /env/python -m pip install --force-reinstall "
        f"{clone / 'packages' / 'toolscan'} {app}"
    )


@pytest.mark.parametrize(
    ("extra", "package"), [("accurate", "toolembed-accurate"), ("postgres", "toolindex-postgres")]
)
def test_pip_gets_the_package_of_an_extra(installed, clone, extra, package):
    app = clone / "apps" / "pytools-hybrid"
    assert installed(url=app.as_uri()).command(f"pytools-hybrid[{extra}]") == (
        f'/env/python -m pip install {clone / "packages" / package} "{app}[{extra}]"'
    )


@pytest.mark.parametrize("broken", ["", "[tool", "tool = 1", "[tool]\nrequirements = [1]"])
def test_a_damaged_receipt_counts_as_empty(installed, broken):
    assert "pytools-hybrid[openai]" in installed(receipt=broken).command("pytools-hybrid[openai]")
