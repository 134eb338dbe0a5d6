"""Filters of the command line: only the tools that pass are searched."""

import json

import pytest


@pytest.fixture
def search(run, tree):
    tool = tree / "mcptools" / "github" / "erase_repository.py"
    tool.write_text(
        '__tags__ = ["danger", "github"]\ndef run():\n    """Erase a repository on GitHub."""\n'
    )

    def found(*arguments):
        result = run("search", *arguments, "--root", tree, "--output", "json", "--limit", "50")
        found = {tool["id"] for tool in json.loads(result.stdout)[0]["tools"]}
        assert result.returncode == (0 if found else 1), result.stderr
        return found, result.stderr

    return found


def test_a_tool_needs_one_category_but_all_tags(search):
    either, _ = search("make a list", "--category", "github", "--category", "pdf")
    both, _ = search("erase", "--tag", "danger", "--tag", "github")
    none, said = search("erase", "--tag", "danger", "--scope", "gentools")

    assert {id_.split(":")[1] for id_ in either} == {"github", "pdf"}
    assert both == {"mcptools:github:erase_repository"}
    assert none == set()
    assert "matches the query and the filters" in said


def test_tools_without_usage_data_pass_unless_excluded(search):
    bound = ("--max-latency-ms", "100", "--min-success-rate", "0.5")

    passed, said = search("make a list", *bound)
    assert f"{len(passed)} of {len(passed)} results have too few recorded calls" in said
    assert search("make a list", *bound, "--unknown", "exclude")[0] == set()
