"""What benchmarks/footprint.py accepts and rejects."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def footprint(monkeypatch):
    spec = importlib.util.spec_from_file_location("footprint", ROOT / "benchmarks" / "footprint.py")
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "footprint", script)
    spec.loader.exec_module(script)
    return script


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A package with one name, and a module for an extra that is not installed."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "__init__.py").write_text("__all__ = ['name']\nname = 1\n")
    (folder / "adapter.py").write_text("import absent.part\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "stranger"]:
        del sys.modules[name]


def test_a_module_may_import_the_extra_that_it_is_for(footprint, stranger):
    footprint.OPTIONAL["stranger.adapter"] = "absent"

    assert footprint.import_public_names("stranger", stranger) == (1, ["stranger.adapter"])


def test_other_modules_may_not_import_that_extra(footprint, stranger):
    footprint.OPTIONAL["stranger.adapter"] = "absent"
    (stranger / "core.py").write_text("import absent\n")

    with pytest.raises(SystemExit, match=r"import stranger\.core: No module named 'absent'"):
        footprint.import_public_names("stranger", stranger)


def test_a_missing_name_in_all_is_reported(footprint, stranger):
    (stranger / "adapter.py").write_text("__all__ = ['gone']\n")

    with pytest.raises(SystemExit, match="'gone', which its __all__ names"):
        footprint.import_public_names("stranger", stranger)


def test_each_exempt_module_exists(footprint):
    for module in footprint.OPTIONAL:
        assert [*ROOT.glob(f"*/*/src/{module.replace('.', '/')}.py")], module
