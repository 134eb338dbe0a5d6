"""RELEASING.md's promises: tags, packages and changes that would let users down are refused.

`python -m release` runs on a workspace of two small packages, the second of which needs the
first. The last test uses our own workspace.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from release.__main__ import main

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
PYPROJECT = """
[project]
name = "{name}"
version = "0.1.0"
dependencies = [{needs}]
"""
SECTION = "## 0.1.0 - 2026-01-31\n\n### Added\n\n- All of it.\n"


def git(folder, *arguments):
    subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=PATIENCE
    )


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Isolate the tests from the settings of git on this machine, such as those of its hooks."""
    for name in [it for it in os.environ if it.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Somebody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "somebody@example.com")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    # Our own repository may belong to another user.
    for name, value in (("COUNT", "1"), ("KEY_0", "safe.directory"), ("VALUE_0", "*")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)


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
        (source / "__init__.py").write_text(
            '__all__ = ["find"]\n\n\ndef find(words: str, limit: int = 5) -> list[str]:\n'
            "    return words.split()[:limit]\n"
        )
    (root / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*"]\n')
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


def run(*arguments, root):
    """Run a command of `python -m release`, in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.setattr(sys, "argv", ["release", "--root", str(root), *arguments])
        status = main()
    return status, output.getvalue(), errors.getvalue()


def refused(*arguments, root):
    status, output, errors = run(*arguments, root=root)
    assert status == 1, output
    return errors


def accepted(*arguments, root):
    status, output, errors = run(*arguments, root=root)
    assert status == 0, errors
    return output


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_packages_are_listed_after_their_dependencies(workspace):
    listed = accepted("packages", root=workspace)

    assert [line.split()[0] for line in listed.splitlines()] == ["tryout-base", "tryout-top"]


def test_a_sibling_is_recognised_by_any_spelling_of_its_name(workspace):
    top = workspace / "packages" / "tryout-top" / "pyproject.toml"
    change(top, "tryout-base>", "Tryout_Base>")

    assert "tryout-base<0.2,>=0.1" in accepted("packages", root=workspace)


@pytest.mark.parametrize(
    ("tag", "answer"),
    [
        ("tryout-base-v0.2.0", "tag tryout-base-v0.1.0, or raise it with `uv version"),
        ("nobody-v0.1.0", "no package 'nobody'; the packages are tryout-base, tryout-top"),
        ("v0.1.0", "is not <distribution>-v<version>"),
    ],
)
def test_a_tag_that_is_not_a_package_s_version_is_refused(workspace, tag, answer):
    assert answer in refused("make", tag, root=workspace)


def test_a_version_without_a_complete_changelog_section_is_refused(workspace, base):
    change(base / "CHANGELOG.md", "## 0.1.0", "## 0.0.9")
    commit(workspace)
    assert "has no section 0.1.0" in refused("make", "tryout-base-v0.1.0", root=workspace)

    change(base / "CHANGELOG.md", "## 0.0.9", "## 0.1.0")
    (base / "changes").mkdir()
    (base / "changes" / "+late.fixed.md").write_text("- Something.\n")
    commit(workspace)
    answer = refused("make", "tryout-base-v0.1.0", root=workspace)
    assert "(+late.fixed.md)" in answer
    assert "release changelog tryout-base --build" in answer


def test_a_version_below_a_released_one_is_refused(workspace):
    for version in ("0.0.9", "0.2.0", "0.x"):
        git(workspace, "tag", f"tryout-base-v{version}")

    answer = refused("make", "tryout-base-v0.1.0", root=workspace)

    assert "tryout-base 0.1.0 is not above tryout-base-v0.2.0" in answer


def test_a_breaking_change_needs_more_than_a_patch_version(workspace, base):
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    change(base / "CHANGELOG.md", "## 0.1.0", "## 0.1.1 - 2026-02-01\n\n### Breaking\n\n## 0.1.0")
    commit(workspace)

    assert "--bump minor" in refused("make", "tryout-base-v0.1.1", root=workspace)


def test_fragments_become_a_section_above_the_last_one(workspace, base):
    change(base / "pyproject.toml", '"0.1.0"', '"0.2.0"')
    fragments = base / "changes"
    fragments.mkdir()
    (fragments / "+one.fixed.md").write_text("- One.\n- Two,\n  which is long.\n")
    (fragments / "7.fixed.md").write_text("- Three.\n")
    (fragments / "+gone.breaking.md").write_text("- `find` is gone.\n")

    notes = accepted("changelog", "tryout-base", "--build", root=workspace)

    assert notes == (
        "### Breaking\n\n- `find` is gone.\n\n"
        "### Fixed\n\n- Three.\n- One.\n- Two,\n  which is long.\n"
    )
    sections = (base / "CHANGELOG.md").read_text().partition("start -->\n\n")[2]
    heading, _, rest = sections.partition("\n\n")
    assert heading.startswith("## 0.2.0 - 20")
    assert rest == f"{notes}\n{SECTION}"
    assert not list(base.glob("changes/*"))


def test_a_break_of_the_public_api_needs_a_fragment(workspace, base):
    assert "no release among the tags" in accepted("check", root=workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    accepted("check", root=workspace)

    change(base / "src/tryout_base/__init__.py", ", limit: int = 5", "")
    answer = refused("check", root=workspace)
    assert "`find(limit)`: *Parameter was removed*" in answer
    assert "packages/tryout-base/changes/+WHAT.breaking.md" in answer

    (base / "changes").mkdir()
    (base / "changes" / "+limit.breaking.md").write_text("- `limit` is gone.\n")
    accepted("check", root=workspace)

    change(base / "pyproject.toml", '"0.1.0"', '"0.2.0"')
    accepted("changelog", "tryout-base", "--build", root=workspace)
    accepted("check", root=workspace)


def test_a_check_is_affected_by_no_other_check_that_runs_or_was_killed(workspace):
    git(workspace, "tag", "tryout-base-v0.1.0")
    # The branch on which griffe itself would check out a tag, and which it removes at its end.
    git(workspace, "branch", "griffe-tryout-base-v0-1-0")
    accepted("check", root=workspace)


def test_only_an_api_promised_in_a_release_can_be_broken(workspace, base):
    inner = base / "src" / "tryout_base" / "inner.py"
    promises = workspace / "docs" / "stability.md"
    inner.write_text("def look(words: str, limit: int) -> None: ...\n")
    commit(workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(promises, "`tryout_base`", "`tryout_base`, `tryout_base.inner`")
    commit(workspace)
    git(workspace, "tag", "tryout-top-v0.1.0")

    change(inner, ", limit: int", "")
    accepted("check", root=workspace)

    git(workspace, "tag", "--force", "tryout-base-v0.1.0")
    change(promises, ", `tryout_base.inner`", "")
    assert "look(limit)" in refused("check", root=workspace)
    inner.unlink()
    assert "`tryout_base.inner`: *Public object was removed" in refused("check", root=workspace)


def test_a_change_that_users_notice_needs_a_fragment(workspace, base):
    assert "No commits since the main branch" in accepted("check", root=workspace)
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "README.md").write_text("Better words.\n")
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    commit(workspace)
    accepted("check", root=workspace)

    change(base / "src/tryout_base/__init__.py", "= 5", "= 6")
    change(base / "CHANGELOG.md", "All of it.", "All of that.")
    commit(workspace)
    assert "write packages/tryout-base/changes/+WHAT.TYPE.md" in refused("check", root=workspace)

    (base / "changes").mkdir()
    (base / "changes" / "+limit.changed.md").write_text("- `limit` is 6.\n")
    commit(workspace)
    accepted("check", root=workspace)


def test_an_internal_fragment_counts_but_is_not_in_the_changelog(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    change(base / "src/tryout_base/__init__.py", "= 5", "= 2 + 3")
    (base / "changes").mkdir()
    (base / "changes" / "+sum.internal.md").write_text("- The limit is a sum.\n")
    commit(workspace)

    accepted("check", root=workspace)
    assert "has no fragments" in refused("changelog", "tryout-base", "--build", root=workspace)

    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    (base / "changes" / "+one.fixed.md").write_text("- One.\n")
    notes = accepted("changelog", "tryout-base", "--build", root=workspace)
    assert notes == "### Fixed\n\n- One.\n"
    assert not list(base.glob("changes/*"))


def test_a_new_dependency_needs_a_fragment(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    change(base / "pyproject.toml", "dependencies = []", 'dependencies = ["numpy>=2"]')
    commit(workspace)

    assert "tryout-base has changed" in refused("check", root=workspace)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("limit.md", b"- `limit` is 6.\n", "is not a fragment"),
        ("+limit.breaking.fixed.md", b"- `limit` is 6.\n", "is not a fragment"),
        ("+limit.fixed.md~", b"- `limit` is 6.\n", "is not a fragment"),
        ("+limit.fixed.rst", b"- `limit` is 6.\n", "is not a fragment"),
        ("+limit.fixed.md", b"", "is not a list"),
        ("+limit.fixed.md", b"`limit` is 6.\n", "is not a list"),
        ("+limit.fixed.md", b"- `limit` is 6.\n\n## 0.1.0 - 2020-01-01\n", "is not a list"),
        ("+limit.fixed.md", b"\xef\xbb\xbf- `limit` is 6.\n", "is not a list"),
        ("+limit.fixed.md", b"- \xff\n", "cannot be read"),
    ],
)
def test_a_malformed_fragment_is_refused(workspace, base, name, text, answer):
    (base / "changes").mkdir()
    (base / "changes" / name).write_bytes(text)

    assert f"{name} {answer}" in refused("check", root=workspace)
    assert answer in refused("changelog", "tryout-base", "--build", root=workspace)


def test_removing_a_fragment_does_not_count_as_writing_one(workspace, base):
    (base / "changes").mkdir()
    (base / "changes" / "+one.fixed.md").write_text("- One.\n")
    commit(workspace)
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "changes" / "+one.fixed.md").unlink()
    change(base / "src/tryout_base/__init__.py", "= 5", "= 6")
    commit(workspace)

    assert "tryout-base has changed" in refused("check", root=workspace)


def test_only_a_commit_on_the_main_branch_is_released(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "README.md").write_text("Other words.\n")
    commit(workspace)

    assert "is not on the main branch" in refused("make", "tryout-base-v0.1.0", root=workspace)


def test_a_tag_builds_from_the_commit_and_leaves_the_workspace_unchanged(tmp_path):
    clone, dist = tmp_path / "clone", tmp_path / "dist"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if name.startswith(("packages/", "apps/", "release/", "pyproject", "uv.lock")):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    git(tmp_path, "init", "--quiet", str(clone))
    accepted("changelog", "toolrank-hybrid", "--build", root=clone)
    commit(clone)
    # Changes that `git status` does not show are not part of the commit either.
    source = "packages/toolrank/src/toolrank"
    git(clone, "config", "status.showUntrackedFiles", "no")
    git(clone, "update-index", "--assume-unchanged", f"{source}/errors.py")
    change(clone / source / "errors.py", '"""', '"""Changed since. ')
    (clone / source / "_local.py").touch()

    output = accepted("make", "toolrank-hybrid-v0.1.0", "--dist", str(dist), root=clone)

    assert "public names imported" in output
    assert sorted(path.relative_to(dist).as_posix() for path in dist.rglob("*.*")) == [
        "packages/toolrank_hybrid-0.1.0-py3-none-any.whl",
        "packages/toolrank_hybrid-0.1.0.tar.gz",
        "toolrank-hybrid-v0.1.0.cdx.json",
        "toolrank-hybrid-v0.1.0.md",
    ]
    assert not subprocess.check_output(
        ["git", "status", "--porcelain"], cwd=clone, timeout=PATIENCE
    )
    (made,) = dist.glob("packages/*.whl")
    with ZipFile(made) as archive:
        assert "toolrank/_local.py" not in archive.namelist()
        assert b"Changed since." not in archive.read("toolrank/errors.py")
