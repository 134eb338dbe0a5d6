"""What RELEASING.md promises: no tag, package or change gets through that would let users down.

The programs in `release/` are run as its commands and nox run them, on a workspace of two small
packages, the second of which needs the first; the last test takes ours.
"""

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
SECTION = "## 0.1.0 - 2026-01-31\n\n### Added\n\n- All of it.\n"


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Nobody's settings of git, and no package index but those that a test starts."""
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


def run(program, *arguments, root=None):
    command = [sys.executable, "-m", program, *(["--root", str(root)] if root else []), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")


def refused(program, *arguments, root):
    ended = run(program, *arguments, root=root)
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


def accepted(program, *arguments, root):
    ended = run(program, *arguments, root=root)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


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


def test_a_sibling_s_floor_has_to_be_released_itself(workspace, index):
    wheel(index, version="0.1.5")
    answer = refused("release.tag", "tryout-top-v0.1.0", root=workspace)
    assert "tryout-base 0.1 cannot be installed: release it first" in answer

    wheel(index, version="0.1.0")
    accepted("release.tag", "tryout-top-v0.1.0", root=workspace)


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

    answer = refused("release.distributions", *wrong.values(), root=workspace)

    for problem in (
        "holds tryout_base/stray.py, which git does not know",
        "lacks packages/tryout-base/src/tryout_base/__init__.py",
        "it has no py.typed",
        "it lacks LICENSE",
        "its README links to docs/there.md",
        "it is tryout-base 0.3.0, and not tryout-base 0.1.0",
        "text/plane",
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


def test_only_what_is_promised_can_be_broken(workspace, base):
    inner = base / "src" / "tryout_base" / "inner.py"
    inner.write_text("def look(words: str, limit: int) -> None: ...\n")
    commit(workspace)
    git(workspace, "tag", "tryout-base-v0.1.0")

    change(inner, ", limit: int", "")
    accepted("release.public_api", root=workspace)

    promises = workspace / "docs" / "stability.md"
    change(promises, "`tryout_base`", "`tryout_base`, `tryout_base.inner`")
    assert "look(limit)" in refused("release.public_api", root=workspace)


def test_a_name_that_is_no_longer_in_all_is_a_break(workspace, base):
    git(workspace, "tag", "tryout-base-v0.1.0")
    change(base / "src/tryout_base/__init__.py", '__all__ = ["find"]', "__all__ = []")

    assert "`tryout_base.find`: *Name is no" in refused("release.public_api", root=workspace)


def test_a_change_that_users_notice_has_a_fragment(workspace, base):
    assert "On the main branch" in accepted("release.fragments", root=workspace)
    git(workspace, "switch", "--quiet", "--create=branch")
    (base / "README.md").write_text("Better words.\n")
    change(base / "pyproject.toml", '"0.1.0"', '"0.1.1"')
    commit(workspace)
    accepted("release.fragments", root=workspace)

    change(base / "src/tryout_base/__init__.py", "= 5", "= 6")
    commit(workspace)
    assert "write packages/tryout-base/changes/+WHAT.TYPE.md" in refused(
        "release.fragments", root=workspace
    )

    (base / "changes").mkdir()
    (base / "changes" / "+limit.changed.md").write_text("- `limit` is 6.\n")
    commit(workspace)
    accepted("release.fragments", root=workspace)


def test_another_dependency_is_a_change_that_users_notice(workspace, base):
    git(workspace, "switch", "--quiet", "--create=branch")
    change(base / "pyproject.toml", "dependencies = []", 'dependencies = ["numpy>=2"]')
    commit(workspace)

    assert "tryout-base has changed" in refused("release.fragments", root=workspace)


def test_a_fragment_whose_name_says_no_type_is_refused(workspace, base):
    (base / "changes").mkdir()
    (base / "changes" / "limit.md").write_text("- `limit` is 6.\n")

    assert "limit.md" in refused("release.fragments", root=workspace)


def test_what_is_not_committed_is_not_released(workspace, base):
    (base / "LICENSE").write_text("Do not.\n")

    answer = refused("release", "--tag", "tryout-base-v0.1.0", root=workspace)

    assert "commit these changes" in answer
    assert "packages/tryout-base/LICENSE" in answer


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

    said = accepted("release", "--tag", "toolrank-hybrid-v0.1.0", "--dist", str(dist), root=clone)

    assert "row 1 found" in said
    assert sorted(path.relative_to(dist).as_posix() for path in dist.rglob("*.*")) == [
        "packages/toolrank_hybrid-0.1.0-py3-none-any.whl",
        "packages/toolrank_hybrid-0.1.0.tar.gz",
        "toolrank-hybrid-v0.1.0.cdx.json",
        "toolrank-hybrid-v0.1.0.md",
    ]
    assert not subprocess.check_output(["git", "status", "--porcelain"], cwd=clone)
