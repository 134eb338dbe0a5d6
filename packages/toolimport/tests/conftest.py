"""The machine's configuration does not affect tests."""

import os

import pytest
from hypothesis import settings
from toolimport.generate import _importer
from toolimport.generate._worker import ModelWorker

# Seconds that a test waits for anything: many times what a slow machine takes.
PATIENCE = 120

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


class _KeptWorker(ModelWorker):
    """Outlives the imports that it makes models for."""

    def close(self):
        pass


@pytest.fixture(scope="session")
def kept_worker():
    """The process that makes models: loading the generator takes a second, so that few start it."""
    made = _KeptWorker()
    yield made
    ModelWorker.close(made)


@pytest.fixture
def quick_imports(kept_worker, monkeypatch):
    """Have imports share one process for their models; test_worker.py tests separate ones."""
    monkeypatch.setattr(_importer, "ModelWorker", lambda: kept_worker)
