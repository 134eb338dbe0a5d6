"""The commands in remedies, which depend on how this copy was installed."""

import json
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from pytools_hybrid.installation import install_command

CLONE = Path("/my clone/apps/pytools-hybrid")


@pytest.fixture
def installed(tmp_path):
    """Describe an installation by the files that installers leave."""

    def make(*, installer="pip", url=None, editable=False):
        (tmp_path / "METADATA").write_text("Name: pytools-hybrid\n")
        (tmp_path / "INSTALLER").write_text(f"{installer}\n")
        if url is not None:
            origin = {"url": url, "dir_info": {"editable": True} if editable else {}}
            (tmp_path / "direct_url.json").write_text(json.dumps(origin))
        return Distribution.at(tmp_path)

    return make


def test_a_copy_from_an_index_is_extended_by_name(installed):
    copy = installed()
    pip = f"{sys.executable} -m pip install"
    assert install_command("pytools-hybrid[openai]", into=copy) == f'{pip} "pytools-hybrid[openai]"'
    assert install_command("apsw", again=True, into=copy) == f"{pip} --force-reinstall apsw"
    assert install_command("pytools-hybrid", upgrade=True, into=copy) == (
        f"{pip} --upgrade pytools-hybrid"
    )


@pytest.mark.parametrize("editable", [False, True])
def test_a_clone_is_installed_again_from_its_folder(installed, editable):
    copy = installed(installer="uv", url=CLONE.as_uri(), editable=editable)
    assert install_command("pytools-hybrid[otel]", "numpy", into=copy) == (
        f"uv pip install --python {sys.executable} {'-e ' if editable else ''}"
        '"/my clone/apps/pytools-hybrid[otel]" numpy'
    )
