"""Models are generated in a process that can be killed, so that no schema delays others."""

import time

import pytest
from toolimport._generate import _worker
from toolimport._generate._modules import Tool
from toolimport._generate._worker import ModelWorker

from .conftest import PATIENCE

QUICK = Tool(name="quick", input_schema={"properties": {"text": {"type": "string"}}})
# The generator takes minutes for this.
SLOW = Tool(
    name="slow",
    input_schema={"properties": {f"p{number}": {"type": "string"} for number in range(15_000)}},
)
# A program that is still loading whenever it is killed.
ENDLESS = "import time; time.sleep(3600)"


@pytest.fixture
def worker():
    made = ModelWorker()
    yield made
    made.close()


def soon():
    return time.monotonic() + PATIENCE


def test_a_tool_that_takes_too_long_times_out_and_the_next_one_works(worker):
    first = worker.models(QUICK, soon())
    with pytest.raises(ValueError, match=r"not generated within .+ s; run the import again with"):
        worker.models(SLOW, time.monotonic() + 1)

    assert "text: str | None" in first.params or "text: Optional[str]" in first.params
    assert worker.models(QUICK, soon()) == first


def test_a_server_whose_time_is_up_gets_no_models(worker):
    with pytest.raises(ValueError, match="within its server's time; run the import again with"):
        worker.models(QUICK, time.monotonic() - 1)


def test_a_generator_that_loads_too_slowly_is_an_error_until_it_has_loaded(monkeypatch):
    monkeypatch.setattr(_worker, "_LOAD_SECONDS", 0.001)
    worker = ModelWorker()
    with monkeypatch.context() as patch:
        patch.setattr(_worker, "_PROGRAM", ENDLESS)
        for _ in range(2):
            with pytest.raises(ValueError, match="the generator was not loaded within"):
                worker.load()
    assert "class Params" in worker.models(QUICK, soon()).params
    worker.load()
    worker.close()


def test_after_closing_nothing_is_started(worker):
    worker.close()

    with pytest.raises(ValueError, match="stopped"):
        worker.models(QUICK, soon())
