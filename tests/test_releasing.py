"""What RELEASING.md promises: no tag, package or change gets through that would let users down.

The programs in `release/` are run on a workspace of two small packages, the second of which needs
the first; the last test takes ours.
"""

import contextlib
import importlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = """
[project]
name = "{name}"
version = "0.1.0"
dependencies = [{needs}]
"""
METADATA = """
Metadata-Version: 2.4
Name: tryout-base
Version: {version}
Summary: A wheel for a test.
License-Expression: Apache-2.0
License-File: LICENSE
Description-Content-Type: {markup}

{readme}
""".lstrip()
PUBLIC = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, overload

__all__ = ["LIMIT", "Kind", "Pair", "Point", "Reads", "either", "later", "look", "wide"]

LIMIT = 5

class Kind(Enum):
    FIRST = 'a'

class Pair(NamedTuple):
    left: int

@dataclass(frozen=True, slots=True)
class Point:
    place: str

class Reads(Protocol):
    def read(self, size: int) -> str: ...

@overload
def either(words: str) -> str: ...
@overload
def either(words: bytes) -> bytes: ...
def either(words): ...

def later() -> int: ...

def look(words: str | bytes) -> str: ...

def wide(words: str) -> str | None: ...
"""
# Each with what is told of it, in case that it may break somebody.
CHANGES = [
    ("LIMIT = 5", "LIMIT = 6", "LIMIT`: *Is 6, and was 5"),
    ("FIRST = 'a'", "FIRST = 'b'", "Kind.FIRST`: *Is 'b', and was 'a'"),
    (
        "left: int",
        "left: int\n    right: int = 0",
        "Pair`: *Has the fields left, right, and had left",
    ),
    ("frozen=True, ", "", "Point`: *Decorators have changed"),
    ("place: str", "place: bytes", "Point.place`: *Is of type bytes, and was of str"),
    (
        "size: int)",
        "size: int, more: int = 0)",
        "Reads`: *Asks for the parameter more of read, too",
    ),
    ("either(words: bytes)", "either(words: int)", "either`: *Overloads have changed"),
    (
        "def later",
        "async def later",
        "later`: *Is called in another way (async, classmethod, staticmethod)",
    ),
    (
        "look(words: str | bytes)",
        "look(words: str)",
        "look`: *Parameter words takes str, and took str | bytes",
    ),
    ("look(words: str) -> str", "look(words: str) -> bytes", "look`: *Gives bytes, and gave str"),
    ("wide(words: str) -> str | None", "wide(words: str | bytes) -> str", ""),
]
SECTION = "## 0.1.0 - 2026-01-31\n\n### Added\n\n- All of it.\n"


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Nobody's settings of git."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


@pytest.fixture
def workspace(tmp_path):
    """Two packages in a repository, ready to be released for the first time."""
    root = tmp_path / "workspace"
    for name, needs in (("tryout-base", ""), ("tryout-top", '"tryout-base>=0.1,<0.2"')):
        folder = root / "packages" / name
        source = folder / "src" / name.replace("-", "_")
        source.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name, needs=needs))
        (folder / "CHANGELOG.md").write_text(
            f"# Changelog\n\n<!-- towncrier release notes start -->\n\n{SECTION}"
        )
        (folder / "LICENSE").write_text("Do as you like.\n")
        (source / "__init__.py").write_text(
            '__all__ = ["find"]\n\n\ndef find(words: str, limit: int = 5) -> list[str]:\n'
            "    return words.split()[:limit]\n"
        )
        (source / "py.typed").touch()
    (root / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    (root / "uv.lock").write_text(
        "".join(
            f'[[package]]\nname = "tryout-{name}"\nversion = "0.1.0"\n' for name in ("base", "top")
        )
    )
    (root / "docs").mkdir()
    (root / "docs" / "stability.md").write_text(
        "| tryout-base | `tryout_base` |\n| tryout-top | `tryout_top` |\n"
    )
    (root / "release").mkdir()
    shutil.copy(ROOT / "release" / "changelog.md", root / "release")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(root))
    commit(root)
    return root


@pytest.fixture
def base(workspace):
    return workspace / "packages" / "tryout-base"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is served as the only package index there is."""
    folder = tmp_path / "index"
    folder.mkdir()
    command = [sys.executable, "-m", "release.index", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.stdout.readline().strip()}/simple/")
        yield folder
        server.stdin.close()
        assert server.wait(60) == 0


def run(program, *arguments, root):
    """Run one of the programs as its command does, but in this process, if it may."""
    if program == "release":
        command = [sys.executable, "-m", program, "--root", str(root), *arguments]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
        return ended.returncode, ended.stdout, ended.stderr
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.syspath_prepend(ROOT)
        patch.setattr(sys, "argv", [program, "--root", str(root), *arguments])
        status = importlib.import_module(program).main()
    return status, output.getvalue(), errors.getvalue()


def refused(program, *arguments, root):
    status, output, errors = run(program, *arguments, root=root)
    assert status == 1, output
    return errors


def accepted(program, *arguments, root):
    status, output, errors = run(program, *arguments, root=root)
    assert status == 0, errors
    return output


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def wheel(
    folder, *, version="0.1.0", readme="Words.", markup="text/markdown", leave_out=(), stray=None
):
    """Make a wheel of tryout-base's files, as a build backend would."""
    module = "tryout_base"
    about = f"{module}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": "",
        f"{module}/py.typed": "",
        f"{about}/licenses/LICENSE": "",
        f"{about}/METADATA": METADATA.format(version=version, readme=readme, markup=markup),
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
        **({f"{module}/stray.py": stray} if stray else {}),
    }
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for inside, text in files.items():
            if Path(inside).name not in leave_out:
                archive.writestr(inside, text)
    return str(path)


def test_packages_are_listed_after_what_they_need(workspace):
    listed = accepted("release.projects", root=workspace)

    assert [line.split()[0] for line in listed.splitlines()] == ["tryout-base", "tryout-top"]


def test_a_sibling_is_one_however_its_name_is_written(workspace):
    top = workspace / "packages" / "tryout-top" / "pyproject.toml"
    change(top, "tryout-base>", "Tryout_Base>")

    assert "tryout-base<0.2,>=0.1" in accepted("release.projects", root=workspace)


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("= []", '= ["tryout-top>=0.1"]', "each needs the next: tryout-"),
        ("= []", '= ["a thing"]', "tryout-base/pyproject.toml cannot be read"),
        ("= []", "= [", "tryout-base/pyproject.toml cannot be read"),
        ('version = "0.1.0"', "", "tryout-base/pyproject.toml has no 'version'"),
        ('"0.1.0"', '"abc"', "tryout-base/pyproject.toml cannot be read: Invalid version: 'abc'"),
    ],
)
def test_a_workspace_that_makes_no_sense_is_told(workspace, base, old, new, answer):
    change(base / "pyproject.toml", old, new)

    assert answer in refused("release.projects", root=workspace)


def test_a_tag_that_is_right_may_be_released(workspace):
    assert "may be released" in accepted("release.tag", "tryout-base-v0.1.0", root=workspace)


@pytest.mark.parametrize(
    ("tag", "answer"),
    [
        ("tryout-base-v0.2.0", "tag tryout-base-v0.1.0, or raise it with `uv version"),
        ("nobody-v0.1.0", "there is no package 'nobody'; there are tryout-base, tryout-top"),
        ("v0.1.0", "is not <distribution>-v<version>"),
    ],
)
def test_a_tag_that_is_no_package_s_version_is_refused(workspace, tag, answer):
    assert answer in refused("release.tag", tag, root=workspace)


@pytest.mark.parametrize(
    ("old", "new", "answer"),
    [
        ("## 0.1.0 - 2026-01-31", "## 0.0.9 - 2026-01-31", "has no section 0.1.0"),
        ("2026-01-31", "unreleased", "the heading of 0.1.0 in CHANGELOG.md"),
        ("2026-01-31", "2999-01-31", "has no date, or one to come"),
        (SECTION, "## 0.1.0 - 2026-01-31\n", "is empty: write what is new"),
        (SECTION, SECTION * 2, "stands there twice"),
    ],
)
def test_a_version_that_the_changelog_does_not_tell_of_is_refused(
    workspace, base, old, new, answer
):
    change(base / "CHANGELOG.md", old, new)

    assert answer in refused("release.tag", "tryout-base-v0.1.0", root=workspace)


def test_fragments_that_wait_keep_a_tag_from_being_released(workspace, base):
    (base / "changes").mkdir()
    (base / "changes" / "+late.fixed.md").write_text("- Something.\n")

    answer = refused("release.tag", "tryout-base-v0.1.0", root=workspace)

    assert "(+late.fixed.md)" in answer
    assert "release.changelog tryout-base --build" in answer


def test_a_sibling_s_floor_has_to_be_released_itself(workspace, index, monkeypatch):
    # What companies and careful people set must not keep uv from an index of this machine.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2026-01-01")

    wheel(index, version="0.1.5")
    answer = refused("release.tag", "tryout-top-v0.1.0", root=workspace)
    assert "tryout-base 0.1 cannot be installed; release it first" in answer

    wheel(index, version="0.1.0")
    accepted("release.tag", "tryout-top-v0.1.0", root=workspace)


def test_a_version_below_one_that_is_released_is_refused(workspace, base):
    for version in ("0.0.9", "0.2.0", "0.x"):
        git(workspace, "tag", f"tryout-base-v{version}")

    answer = refused("release.tag", "tryout-base-v0.1.0", root=workspace)

    assert "tryout-base 0.1.0 is not above 0.2.0" in answer


def test_a_break_raises_more_than_the_last_number(workspace, base):
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    change(base / "CHANGELOG.md", "## 0.1.0", "## 0.1.1 - 2026-02-01\n\n### Breaking\n\n## 0.1.0")

    assert "--bump minor" in refused("release.tag", "tryout-base-v0.1.1", root=workspace)


def test_fragments_become_a_section_above_the_last_one(workspace, base):
    change(base / "pyproject.toml", '"0.1.0"', '"0.2.0"')
    fragments = base / "changes"
    fragments.mkdir()
    (fragments / "+one.fixed.md").write_text("- One.\n- Two,\n  which is long.\n")
    (fragments / "7.fixed.md").write_text("- Three.\n")
    (fragments / "+gone.breaking.md").write_text("- `find` is gone.\n")

    notes = accepted("release.changelog", "tryout-base", "--build", root=workspace)

    assert notes == (
        "### Breaking\n\n- `find` is gone.\n\n"
        "### Fixed\n\n- Three.\n- One.\n- Two,\n  which is long.\n"
    )
    sections = (base / "CHANGELOG.md").read_text().partition("start -->\n\n")[2]
    heading, _, rest = sections.partition("\n\n")
    assert heading.startswith("## 0.2.0 - 20")
    assert rest == f"{notes}\n{SECTION}"
    assert not list(base.glob("changes/*"))


def test_a_wheel_of_the_package_s_files_is_right(workspace, tmp_path):
    accepted("release.distributions", wheel(tmp_path), root=workspace)


def test_a_wheel_with_too_much_or_too_little_is_refused(workspace, tmp_path):
    wrong = {
        "stray": {"stray": "x = 1"},
        "module": {"leave_out": ["__init__.py"]},
        "types": {"leave_out": ["py.typed"]},
        "licence": {"leave_out": ["LICENSE"]},
        "link": {"readme": "See [there](docs/there.md)."},
        "version": {"version": "0.3.0"},
        "markup": {"markup": "text/plane"},
    }
    for folder, made in wrong.items():
        (tmp_path / folder).mkdir()
        wrong[folder] = wheel(tmp_path / folder, **made)
    no_wheel = workspace / "README.md"

    answer = refused("release.distributions", *wrong.values(), str(no_wheel), root=workspace)

    for problem in (
        "holds tryout_base/stray.py, which git does not know",
        "lacks packages/tryout-base/src/tryout_base/__init__.py",
        "it has no py.typed",
        "it lacks LICENSE",
        "its README links to docs/there.md",
        "it is tryout-base 0.3.0, and not tryout-base 0.1.0",
        "text/plane",
        "README.md is no distribution",
    ):
        assert problem in answer


def test_a_break_of_the_public_api_is_seen_until_it_is_told(workspace, base):
    assert "no release yet" in accepted("release.public_api", root=workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    accepted("release.public_api", root=workspace)

    change(base / "src/tryout_base/__init__.py", ", limit: int = 5", "")
    answer = refused("release.public_api", root=workspace)
    assert "`find(limit)`: *Parameter was removed*" in answer
    assert "packages/tryout-base/changes/+WHAT.breaking.md" in answer

    (base / "changes").mkdir()
    (base / "changes" / "+limit.breaking.md").write_text("- `limit` is gone.\n")
    accepted("release.public_api", root=workspace)

    change(base / "pyproject.toml", '"0.1.0"', '"0.2.0"')
    accepted("release.changelog", "tryout-base", "--build", root=workspace)
    accepted("release.public_api", root=workspace)


def test_only_what_was_promised_can_be_broken(workspace, base):
    inner = base / "src" / "tryout_base" / "inner.py"
    promises = workspace / "docs" / "stability.md"
    inner.write_text("def look(words: str, limit: int) -> None: ...\n")
    commit(workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(promises, "`tryout_base`", "`tryout_base`, `tryout_base.inner`")
    commit(workspace)
    git(workspace, "tag", "tryout-top-v0.1.0")

    change(inner, ", limit: int", "")
    accepted("release.public_api", root=workspace)

    git(workspace, "tag", "--force", "tryout-base-v0.1.0")
    change(promises, ", `tryout_base.inner`", "")
    assert "look(limit)" in refused("release.public_api", root=workspace)
    inner.unlink()
    assert "`tryout_base.inner`: *Public object was removed" in refused(
        "release.public_api", root=workspace
    )


def test_a_command_or_an_extra_that_is_gone_is_a_break(workspace, base):
    settings = base / "pyproject.toml"
    added = (
        '[project.scripts]\ntryout = "tryout_base:find"\n'
        "[project.optional-dependencies]\nfast = []\n"
    )
    settings.write_text(settings.read_text() + added)
    commit(workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(settings, added, "")

    answer = refused("release.public_api", root=workspace)

    assert "`tryout`: *Command was removed" in answer
    assert "`fast`: *Extra was removed" in answer


def test_a_name_that_is_no_longer_in_all_is_a_break(workspace, base):
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(base / "src/tryout_base/__init__.py", '__all__ = ["find"]', "__all__ = []")

    assert "`tryout_base.find`: *Name is no" in refused("release.public_api", root=workspace)


def test_types_values_and_obligations_are_compared_too(workspace, base):
    module = base / "src" / "tryout_base" / "__init__.py"
    module.write_text(PUBLIC)
    commit(workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    for old, new, _ in CHANGES:
        change(module, old, new)

    answer = refused("release.public_api", root=workspace)

    first, *rest = answer.splitlines()
    assert "what tryout-base promised with tryout-base-v0.1.0 changes" in first
    assert rest == [f"  - `tryout_base.{told}*" for told in sorted(it[2] for it in CHANGES) if told]
    (base / "changes").mkdir()
    (base / "changes" / "+types.changed.md").write_text("- Other types.\n")
    assert "Gives bytes" in accepted("release.public_api", root=workspace)


def test_a_change_that_users_notice_has_a_fragment(workspace, base):
    assert "No commit since the main branch" in accepted("release.fragments", root=workspace)
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "README.md").write_text("Better words.\n")
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    commit(workspace)
    accepted("release.fragments", root=workspace)

    change(base / "src/tryout_base/__init__.py", "= 5", "= 6")
    change(base / "CHANGELOG.md", "All of it.", "All of that.")
    commit(workspace)
    assert "write packages/tryout-base/changes/+WHAT.TYPE.md" in refused(
        "release.fragments", root=workspace
    )

    (base / "changes").mkdir()
    (base / "changes" / "+limit.changed.md").write_text("- `limit` is 6.\n")
    commit(workspace)
    accepted("release.fragments", root=workspace)


def test_a_change_that_nobody_notices_says_so_and_is_left_out_of_the_changelog(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    change(base / "src/tryout_base/__init__.py", "= 5", "= 2 + 3")
    (base / "changes").mkdir()
    (base / "changes" / "+sum.internal.md").write_text("- The limit is a sum.\n")
    commit(workspace)

    accepted("release.fragments", root=workspace)
    git(workspace, "branch", "--force", "main")
    accepted("release.tag", "tryout-base-v0.1.0", root=workspace)
    assert "nothing to tell" in refused(
        "release.changelog", "tryout-base", "--build", root=workspace
    )

    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    (base / "changes" / "+one.fixed.md").write_text("- One.\n")
    notes = accepted("release.changelog", "tryout-base", "--build", root=workspace)
    assert notes == "### Fixed\n\n- One.\n"
    assert not list(base.glob("changes/*"))


def test_another_dependency_is_a_change_that_users_notice(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    change(base / "pyproject.toml", "dependencies = []", 'dependencies = ["numpy>=2"]')
    commit(workspace)

    assert "tryout-base has changed" in refused("release.fragments", root=workspace)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("limit.md", b"- `limit` is 6.\n", "is no fragment"),
        ("+limit.breaking.fixed.md", b"- `limit` is 6.\n", "is no fragment"),
        ("+limit.fixed.md~", b"- `limit` is 6.\n", "is no fragment"),
        ("+limit.fixed.rst", b"- `limit` is 6.\n", "is no fragment"),
        ("+limit.fixed.md", b"", "is no list"),
        ("+limit.fixed.md", b"`limit` is 6.\n", "is no list"),
        ("+limit.fixed.md", b"- `limit` is 6.\n\n## 0.1.0 - 2020-01-01\n", "is no list"),
        ("+limit.fixed.md", b"\xef\xbb\xbf- `limit` is 6.\n", "is no list"),
        ("+limit.fixed.md", b"- \xff\n", "is not UTF-8"),
    ],
)
def test_what_cannot_become_a_part_of_the_changelog_is_refused(workspace, base, name, text, answer):
    (base / "changes").mkdir()
    (base / "changes" / name).write_bytes(text)

    assert f"{name} {answer}" in refused("release.fragments", root=workspace)
    assert answer in refused("release.changelog", "tryout-base", "--build", root=workspace)
    assert name in refused("release.tag", "tryout-base-v0.1.0", root=workspace)


def test_a_fragment_that_is_taken_away_tells_nothing(workspace, base):
    (base / "changes").mkdir()
    (base / "changes" / "+one.fixed.md").write_text("- One.\n")
    commit(workspace)
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "changes" / "+one.fixed.md").unlink()
    change(base / "src/tryout_base/__init__.py", "= 5", "= 6")
    commit(workspace)

    assert "tryout-base has changed" in refused("release.fragments", root=workspace)


def test_what_is_not_committed_is_not_released(workspace, base):
    (base / "LICENSE").write_text("Do not.\n")

    answer = refused("release", "--tag", "tryout-base-v0.1.0", root=workspace)

    assert "commit these changes" in answer
    assert "packages/tryout-base/LICENSE" in answer


def test_a_link_is_not_followed_into_a_package(workspace, base, tmp_path):
    (tmp_path / "secret.txt").write_text("Mine.\n")
    (base / "src" / "tryout_base" / "data.txt").symlink_to(tmp_path / "secret.txt")
    commit(workspace)

    for arguments in (["--tag", "tryout-base-v0.1.0"], ["tryout-base"]):
        answer = refused("release", *arguments, root=workspace)
        assert "packages/tryout-base/src/tryout_base/data.txt: a link" in answer


def test_a_tag_that_is_at_another_commit_is_refused(workspace, base):
    git(workspace, "tag", "tryout-base-v0.1.0")
    (base / "README.md").write_text("Later words.\n")
    commit(workspace)

    answer = refused("release.tag", "tryout-base-v0.1.0", root=workspace)

    assert "tryout-base-v0.1.0 is at another commit" in answer


def test_only_a_commit_of_the_main_branch_is_released(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "README.md").write_text("Other words.\n")
    commit(workspace)

    assert "is not on the main branch" in refused(
        "release.tag", "tryout-base-v0.1.0", root=workspace
    )


@pytest.mark.parametrize("version", ["0.1.1rc1", "0.1.1.dev1", "0.1.1.post1", "0.1.1+local"])
def test_only_versions_of_three_numbers_are_released(workspace, base, version):
    change(base / "pyproject.toml", '"0.1.0"', f'"{version}"')

    answer = refused("release.tag", f"tryout-base-v{version}", root=workspace)

    assert f"{version} is not X.Y.Z" in answer


def test_a_version_that_is_not_locked_is_not_released(workspace, base):
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')

    answer = refused("release.tag", "tryout-base-v0.1.1", root=workspace)

    assert "uv.lock has tryout-base 0.1.0, not 0.1.1: run `uv lock" in answer


def test_a_tag_makes_what_is_uploaded_and_leaves_the_workspace_as_it_was(tmp_path):
    clone, dist = tmp_path / "clone", tmp_path / "dist"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if name.startswith(("packages/", "apps/", "examples/tools/", "pyproject", "uv.lock")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    shutil.copytree(ROOT / "release", clone / "release")
    git(tmp_path, "init", "--quiet", str(clone))
    accepted("release.changelog", "toolrank-hybrid", "--build", root=clone)
    commit(clone)
    # What git is told not to mention is no part of the commit either.
    source = "packages/toolrank/src/toolrank"
    git(clone, "config", "status.showUntrackedFiles", "no")
    git(clone, "update-index", "--assume-unchanged", f"{source}/errors.py")
    change(clone / source / "errors.py", '"""', '"""Changed since. ')
    (clone / source / "_local.py").touch()

    said = accepted("release", "--tag", "toolrank-hybrid-v0.1.0", "--dist", str(dist), root=clone)

    assert "row 1 found" in said
    assert sorted(path.relative_to(dist).as_posix() for path in dist.rglob("*.*")) == [
        "packages/toolrank_hybrid-0.1.0-py3-none-any.whl",
        "packages/toolrank_hybrid-0.1.0.tar.gz",
        "toolrank-hybrid-v0.1.0.cdx.json",
        "toolrank-hybrid-v0.1.0.md",
    ]
    assert not subprocess.check_output(["git", "status", "--porcelain"], cwd=clone)
    (made,) = dist.glob("packages/*.whl")
    with ZipFile(made) as archive:
        assert "toolrank/_local.py" not in archive.namelist()
        assert b"Changed since." not in archive.read("toolrank/errors.py")
