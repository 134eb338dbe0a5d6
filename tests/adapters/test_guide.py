"""The guide to the adapters is correct: each program in it is run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import PATIENCE

for library in ("fastmcp", "anthropic", "openai"):
    pytest.importorskip(library)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "adapters.md"
PROGRAMS = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S
)
# Run by Python at its start: a busy machine may need longer than this limit for the vectors.
PATIENT = f"from pytools_hybrid.agents import corpus; corpus._EMBEDDING_SECONDS = {PATIENCE}"
USAGE = {"input_tokens": 1, "output_tokens": 1}


def claude(*content):
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": list(content),
        "usage": USAGE,
    }


def response(item):
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "test",
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }


ANSWERS = {
    "claude": [
        claude(
            {
                "type": "tool_use",
                "id": "1",
                "name": "search_tools",
                "input": {"query": "combine papers"},
            }
        ),
        claude({"type": "tool_use", "id": "2", "name": "merge_pdfs", "input": {}}),
        claude({"type": "text", "text": "Done."}),
    ],
    "openai": [
        response(
            {
                "type": "tool_search_call",
                "id": "1",
                "call_id": "1",
                "execution": "client",
                "status": "completed",
                "arguments": {"query": "convert miles to kilometres"},
            }
        ),
        response(
            {
                "type": "function_call",
                "id": "2",
                "call_id": "2",
                "name": "units__convert_units",
                "arguments": json.dumps({"value": 26.2, "from_unit": "mi", "to_unit": "km"}),
            }
        ),
        response(
            {
                "type": "message",
                "id": "3",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "About 42 km.", "annotations": []}],
            }
        ),
    ],
}


def adapter(program):
    return re.findall(r"pytools_hybrid\.agents\.adapters\.(\w+)", program)[0]


def test_every_program_of_the_guide_is_run():
    assert len(PROGRAMS) == GUIDE.read_text("utf-8").count("```python")


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=[adapter(it) for it, _ in PROGRAMS])
def test_a_program_prints_the_shown_output(program, shown, provider, home, examples):
    (home / "examples").mkdir()
    (home / "examples" / "tools").symlink_to(examples)
    (home / "sitecustomize.py").write_text(PATIENT)
    answers = ANSWERS.get(adapter(program), [])
    with provider(*answers) as (url, requests):
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", program],
            cwd=home,
            env=os.environ
            | {"PYTHONPATH": str(home)}
            | {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
            | {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert re.fullmatch(re.escape(shown).replace("…", ".*"), done.stdout, re.S), done.stdout
    assert len(requests) == len(answers)
