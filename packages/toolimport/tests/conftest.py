"""The configuration of the machine does not affect the tests."""

import os

import pytest
from hypothesis import HealthCheck, settings
from toolimport._generate import _importer
from toolimport._generate._worker import ModelWorker

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120

# No limits of time, because a machine under load may be slow; speed is measured elsewhere.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_configuration_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith("PYTOOLS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


class _KeptWorker(ModelWorker):
    """A worker that outlives the imports that use it."""

    def close(self):
        pass


@pytest.fixture(scope="session")
def kept_worker():
    """The worker shared by the tests, because loading the generator takes a second."""
    made = _KeptWorker()
    yield made
    ModelWorker.close(made)


@pytest.fixture
def quick_imports(kept_worker, monkeypatch):
    """Make imports share one worker; test_worker.py tests separate ones."""
    monkeypatch.setattr(_importer, "ModelWorker", lambda: kept_worker)
