"""Nothing of the machine's own configuration reaches a test."""

import os

import pytest
from hypothesis import settings

# A machine under load is slow at times; how fast things are is measured elsewhere.
settings.register_profile(
    "patient", deadline=None, max_examples=int(os.environ.get("TEST_EXAMPLES", "40"))
)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_configuration_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("PYTOOLS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
