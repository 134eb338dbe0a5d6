"""The command."""

# ruff: noqa: E501  (modules in one string each)
import json
import os
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from toolscan.__main__ import main

from .conftest import PATIENCE

GOOD = "def run(a, b=1):\n    'Does it. And more.'\n"


@pytest.fixture
def root(tree):
    return tree(
        {
            "mcptools/demo/good.py": GOOD,
            "mcptools/demo/bad.py": "def run(:\n",
            "mcptools/demo/long.py": f"def run({', '.join(f'parameter{n}' for n in range(9))}):\n    {'word ' * 40!r}\n",
        }
    )


def test_it_lists_tools_in_a_table(root, capsys):
    assert main([str(root)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:2] == [
        "ID                  PARAMETERS                                SUMMARY",
        "mcptools:demo:good  a, [b]                                    Does it.",
    ]
    assert out.splitlines()[2].endswith("…")
    assert err == "2 tools, 1 file without (--issues lists it)\n"


def test_it_lists_issues_in_a_table(root, capsys):
    assert main([str(root), "--issues"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PATH                  REASON        DETAIL",
        "mcptools/demo/bad.py  syntax_error  Line 1: invalid syntax.",
    ]


def test_it_prints_json_lines(root, capsys):
    assert main([str(root), "--format", "jsonl"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["id"] == "mcptools:demo:good"
    assert first["parameters"][1]["default"] == "1"
    assert "definitions" not in first
    assert main([str(root), "--format", "jsonl", "--issues"]) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "syntax_error"


def test_a_custom_layout_replaces_the_default_ones(tree, capsys):
    root = tree({"scripts/a/b.py": GOOD, "mcptools/demo/good.py": GOOD})
    assert main([str(root), "--layout", "mine=scripts/{category}/{name}.py"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("mine:a:b ")
    assert err == "1 tool, 0 files without\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["/nowhere/at/all"], "is not a directory"),
        ([], "DIR"),
        ([".", "--format", "xml"], "invalid choice"),
        ([".", "--layout", "scripts"], "is not SOURCE=PATTERN"),
        ([".", "--layout", "mcptools/{category}/{name}.py"], "is not SOURCE=PATTERN"),
        ([".", "--layout", "scripts/{category}/{name}=.py"], "is not SOURCE=PATTERN"),
        ([".", "--layout", "mine=scripts"], "is not a layout"),
    ],
)
def test_an_invalid_option_exits_with_2_and_is_named(options, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(options)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_help_describes_where_tools_are_searched(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "mcptools/CATEGORY/NAME.py" in out
    assert "exit codes" in out


def test_the_distribution_installs_the_command():
    (command,) = entry_points(group="console_scripts", name="toolscan")

    assert command.load() is main


def test_the_module_can_be_run(root):
    command = [sys.executable, "-m", "toolscan", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8",
                          env={**os.environ, "PYTHONIOENCODING": "utf-8"}, timeout=PATIENCE)  # fmt: skip
    assert "mcptools:demo:good" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break differently on Windows")
def test_a_closed_pipe_is_not_an_error(tree):
    root = tree({f"mcptools/demo/t{n}.py": GOOD for n in range(2_000)})
    process = subprocess.Popen(
        [sys.executable, "-m", "toolscan", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE) == 0
    assert error == b""


def test_text_of_a_module_cannot_control_the_terminal(tree, capsys):
    root = tree(
        {"mcptools/evil/bell.py": "def run():\n    '''Ring \x1b]0;owned\x07 \u202e it.'''\n"}
    )
    main([str(root)])
    out = capsys.readouterr().out
    assert out.isascii()
    assert out.replace("\n", "").isprintable()


@pytest.mark.parametrize("options", [[], ["--format", "jsonl"]])
def test_an_output_that_is_not_utf8_gets_the_characters_it_can_encode(tree, options):
    root = tree({"mcptools/demo/named.py": "def run():\n    '''Make a café ☕.'''\n"})
    done = subprocess.run(
        [sys.executable, "-m", "toolscan", str(root), *options],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        check=True,
        timeout=PATIENCE,
    )
    assert rb"caf\xe9" in done.stdout or rb"caf\u00e9" in done.stdout


def test_finding_nothing_reports_where_it_searched(tree, capsys):
    assert (
        main([str(tree({"a/b.py": GOOD, "mcptools/demo/bad.py": "", "mcptools/demo/c.py": ""}))])
        == 0
    )
    err = capsys.readouterr().err
    assert err.startswith(
        "0 tools, 2 files without (--issues lists them); looked for mcptools/{cat"
    )


def test_it_shows_its_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"toolscan {version('toolscan')}\n"


@pytest.mark.parametrize("options", [[], ["--format", "jsonl"]])
def test_closed_outputs_are_not_an_error(options, root, monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        assert main([str(root), *options]) == 0
    assert capsys.readouterr().err.startswith("2 tools")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", None)
        assert main([str(root), *options]) == 0
    assert "2 tools" not in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_output_is_reported(root):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "toolscan", str(root)]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
        )
    assert done.returncode == 1
    assert done.stderr == "toolscan: the list could not be written: No space left on device\n"
