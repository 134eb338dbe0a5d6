"""Settings of the machine do not affect the tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120

# How long an example takes depends on the machine, not on the code.
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "OLLAMA_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let providers take long for a request: a machine may stop for longer than users wait."""
    for limit in ("_REQUEST_SECONDS", "_OLLAMA_SECONDS"):
        monkeypatch.setattr(f"toolembed._provider.{limit}", float(PATIENCE))
