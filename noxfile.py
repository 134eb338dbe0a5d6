"""Every check of the project. `uv run nox` runs them; CI runs nothing else.

uv run nox -l                    list the sessions
uv run nox -s tests              the tests of each package, on every interpreter found
uv run nox -s tests-3.12 -- -x   one interpreter, with arguments for pytest
uv run nox -j 1 -s …             one session after the other, with its output as it comes
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import nox
from packaging.requirements import Requirement

ROOT = Path(__file__).parent
# nox is started as a program of its own, which does not look for modules here.
sys.path.insert(0, str(ROOT))

from release.projects import read_projects  # noqa: E402

# Every package of the workspace, in the order in which they are released.
PROJECTS = read_projects(ROOT)
PACKAGES = {name: project.folder for name, project in PROJECTS.items()}
# Percent of lines and branches that the tests must reach; measured weekly, for it takes half as
# long again. The libraries reach all, but for what depends on the system and on who wins a race.
# Much of the command line and the server is reached by the end-to-end tests, which are not
# measured. The models of toolimport are made in a process that is killed, and counts for nothing.
# Of toolembed, the models of sentence-transformers need gigabytes, and downloads the command.
COVERED = dict.fromkeys(PACKAGES, 98) | {"pytools-hybrid": 80, "toolimport": 90, "toolembed": 86}
# More than there are cores, for many tests wait.
BUSY = ("--numprocesses=3",)
# What is built once, and what is locked, for all sessions that install a wheel.
DIST = ROOT / ".nox" / "dist"
# `WEEKLY=1`, as GitHub's weekly workflow sets it: coverage is measured, `lowest` runs all tests,
# `types` asks a second checker, properties try more.
WEEKLY = "WEEKLY" in os.environ
HYPOTHESIS = {
    "TEST_EXAMPLES": "300" if WEEKLY else "20",
    # An example that once failed is tried again, wherever the tests run.
    "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
}
# Tests that fail where a version is too low: of what a package promises and of what it calls.
FLOORS = (
    "test_readme.py", "test_testing.py", "test_*contract.py",
    "test_docstrings.py", "test_http_api.py", "test_greeting.py",
)  # fmt: skip
FOOTPRINT = ROOT / "benchmarks" / "footprint.py"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
# What the scripts in tests/clients are made of; each is installed without anything of ours.
CLIENTS = {
    "mcp_v1.py": "mcp>=1.30,<2",
    "mcp_v2.py": "mcp>=2.3,<3",
    "pydantic_ai_toolset.py": "pydantic-ai-slim[mcp]>=2.68,<3",
}
# The protocol's own checks, as npm has them. The suite's last release does not know the revision of
# 2026-07-28; Node is taken from there as well, they want a newer one than many systems have.
CONFORMANCE = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "node@22.23.3",
)
# MCP servers that others made, imported and called. Those of PyPI are tried by default.
PYPI_SERVERS = ("mcp-server-time>=2026.10.19", "mcp-server-git>=2026.10.19")
NPM_SERVERS = tuple(
    f"@modelcontextprotocol/server-{name}@2026.8.31"
    for name in ("filesystem", "memory", "everything")
)
# As Debian, Ubuntu, Arch and Google call the browser that the console's tests drive.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
# What is written for GitHub, by the schema that it is checked with.
GITHUB_FILES = {
    "github-workflows": "workflows/*.y*ml",
    "dependabot": "dependabot.y*ml",
    "github-issue-forms": "ISSUE_TEMPLATE/[!c]*.y*ml",
    "github-issue-config": "ISSUE_TEMPLATE/config.y*ml",
}
# Each platform that an installation is promised for, as uv names it.
PLATFORMS = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
)
# No marker tells musl from glibc, and sqlite-vec has nothing for musl: what users are told to do.
WITHOUT_SQLITE_VEC = "sqlite-vec; sys_platform == 'never'"


def _installed_pythons() -> list[str]:
    found = subprocess.run(
        ["uv", "python", "list", "--only-installed", "--output-format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    versions = {
        "{major}.{minor}".format(**entry["version_parts"])
        for entry in json.loads(found.stdout)
        if entry["implementation"] == "cpython" and entry.get("variant", "default") == "default"
    }
    return [version for version in SUPPORTED if version in versions]


DEFAULT = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHONS = sorted({*_installed_pythons(), DEFAULT}, key=SUPPORTED.index)

# Thousands of processes are started here, and each would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
# One session for each core: while one waits for files, servers or an index, another computes.
nox.options.parallel = "auto"
nox.options.allow_parallel = True
# The longest first, so that no core is left without work at the end.
nox.options.sessions = [
    "lint", f"e2e-{DEFAULT}", "types", f"tests-{DEFAULT}", "browser", "soak", "adapters", "release",
    "lowest", "docs", "api",
]  # fmt: skip


def _sync(session: nox.Session, *arguments: str) -> None:
    """Install from the lock into the session's environment, and nothing else."""
    session.run_install(
        "uv",
        "sync",
        "--frozen",
        "--no-default-groups",
        f"--python={session.virtualenv.location}",
        *arguments,
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format, layers, dependencies, workflows; of files that are named, style and format."""
    _sync(session, "--all-packages", "--group=lint")
    files = session.posargs or ["."]
    session.run("ruff", "check", *files)
    session.run("ruff", "format", "--check", *files)
    if session.posargs:
        return
    session.run("lint-imports", "--no-cache")
    for folder in PACKAGES.values():
        with session.chdir(folder):
            session.run("deptry", "src", silent=True)
    session.run("zizmor", "--offline", "--persona=auditor", "--quiet", ".github")
    for schema, pattern in GITHUB_FILES.items():
        found = map(str, sorted(Path(".github").glob(pattern)))
        session.run("check-jsonschema", f"--builtin-schema=vendor.{schema}", *found, silent=True)
    session.run("uv", "lock", "--check", "--default-index=https://pypi.org/simple", external=True)


@nox.session
def licences(session: nox.Session) -> None:
    """What all that we depend on is licensed under: permitted, and as docs/licences.md has it."""
    _sync(session, "--only-group=licences")
    session.run("python", str(ROOT / "docs" / "make" / "licences.py"), *session.posargs)


@nox.session(venv_backend="none")
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of what is locked; asks osv.dev, and only when asked for."""
    session.run("uv", "audit", "--frozen", "--preview-features=audit-command", external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Strict types; with `WEEKLY=1` as a second checker and users see them, and in what ships."""
    _sync(session, "--all-packages", "--group=types", "--group=release")
    # It would take the environment that nox itself runs in.
    here = f"--pythonpath={shutil.which('python', path=session.bin)}"
    session.run("basedpyright", here, "--threads", "2")
    if not WEEKLY:
        return
    sources = (str(path / "src") for path in PACKAGES.values())
    session.run("mypy", "--num-workers=2", *sources, "tests/types", "release", str(FOOTPRINT))
    for project in PROJECTS.values():
        session.run(
            "basedpyright", "--ignoreexternal", "--verifytypes", project.module, silent=True
        )


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Every package built once, as it is released: a source distribution, and a wheel of that."""
    shutil.rmtree(DIST, ignore_errors=True)
    session.run(
        "uv", "build", "--quiet", "--all-packages", "--no-sources", f"--out-dir={DIST}",
        external=True,
    )  # fmt: skip
    session.run(
        "uv", "export", "--quiet", "--frozen", "--all-packages", "--all-groups", "--all-extras",
        "--no-hashes", "--no-emit-workspace", f"--output-file={DIST / 'locked.txt'}",
        external=True, silent=True,
    )  # fmt: skip


def _wheel(package: str) -> Path:
    (wheel,) = DIST.glob(f"{package.replace('-', '_')}-*.whl")
    return wheel


def _siblings(session: nox.Session, package: str, *, released: bool = False) -> Path:
    """Write constraints: ours are what was built here, never what others publish by that name.

    With `released`, a sibling that has a release which the package accepts comes from the index.
    """
    project = tomllib.loads((PACKAGES[package] / "pyproject.toml").read_text("utf-8"))["project"]
    accepted = {it.name: it.specifier for it in map(Requirement, project["dependencies"])}
    tags = subprocess.run(
        ["git", "tag", "--list"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    published = {
        name
        for name, _, version in (tag.rpartition("-v") for tag in tags)
        if released and name in accepted and version in accepted[name]
    }
    constraints = Path(session.virtualenv.location, f"siblings-of-{package}.txt")
    constraints.write_text(
        "".join(
            f"{name} @ {_wheel(name).as_uri()}\n" for name in PACKAGES if name not in published
        ),
        "utf-8",
    )
    return constraints


def _install_wheel(session: nox.Session, package: str, *arguments: str) -> None:
    """Install the built wheel with what it declares, and nothing of the workspace."""
    session.run_install("uv", "pip", "install", "--no-sources", str(_wheel(package)), *arguments)


def _test_wheel(
    session: nox.Session,
    package: str,
    *versions: str,
    covered: int = 0,
    tests: Sequence[Path] = (),
) -> None:
    """Import and measure the wheel with only what it declares, then run its tests."""
    folder = PACKAGES[package]
    tests = tests or [folder / "tests"]
    _install_wheel(session, package, *versions)
    session.run("python", "-I", str(FOOTPRINT), package)
    _install_wheel(session, package, *versions, f"--group={folder / 'pyproject.toml'}:test")
    measured = (
        f"--cov={PROJECTS[package].module}",
        f"--cov-config={ROOT / 'pyproject.toml'}",
        "--cov-report=term",
        *([] if session.posargs else [f"--cov-fail-under={covered}"]),
    )
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        session.run(
            "pytest",
            *map(str, tests),
            *BUSY,
            *(measured if covered else ()),
            *session.posargs,
            env={"PYTHONPATH": ""} | HYPOTHESIS,
            # With arguments, as `-k`, a package may have nothing to run.
            success_codes=[0, 5] if session.posargs else [0],
        )


@nox.session(python=PYTHONS, requires=["wheels"])
@nox.parametrize("package", list(PACKAGES))
def tests(session: nox.Session, package: str) -> None:
    """One package's wheel and tests, where only what it declares is installed, as locked."""
    _test_wheel(
        session,
        package,
        f"--constraints={DIST / 'locked.txt'}",
        f"--constraints={_siblings(session, package)}",
        covered=COVERED[package] if WEEKLY else 0,
    )


@nox.session(python=SUPPORTED[0] if SUPPORTED[0] in PYTHONS else DEFAULT, requires=["wheels"])
@nox.parametrize("package", list(PACKAGES))
def lowest(session: nox.Session, package: str) -> None:
    """One package's wheel with the lowest versions it declares; with `WEEKLY=1` all its tests."""
    floors = [it for name in FLOORS for it in (PACKAGES[package] / "tests").rglob(name)]
    _test_wheel(
        session,
        package,
        "--resolution=lowest-direct",
        # What a wheel requires would not count as direct.
        f"--requirements={PACKAGES[package] / 'pyproject.toml'}",
        f"--constraints={_siblings(session, package, released=True)}",
        tests=[] if WEEKLY else floors,
    )


@nox.session(python=PYTHONS[-1], requires=["wheels"])
@nox.parametrize("package", list(PACKAGES))
def newest(session: nox.Session, package: str) -> None:
    """One package's wheel and tests with the newest versions; weekly, or when asked for."""
    _test_wheel(session, package, f"--constraints={_siblings(session, package)}")


@nox.session(python=PYTHONS, requires=["wheels"])
def footprint(session: nox.Session) -> None:
    """The table of what each package costs to install and to import; only when asked for."""
    rows: list[object] = []
    for package in PACKAGES:
        own = Path(session.virtualenv.location, package)
        session.run_install(
            "uv", "venv", "--quiet", "--clear", f"--python={session.python}", str(own)
        )
        _install_wheel(
            session,
            package,
            "--quiet",
            f"--python={own}",
            f"--constraints={DIST / 'locked.txt'}",
            f"--constraints={_siblings(session, package)}",
        )
        python = own / ("Scripts" if os.name == "nt" else "bin") / "python"
        rows.append(
            session.run(
                str(python), "-I", str(FOOTPRINT), package, "--row", silent=True, external=True
            )
        )
    print(
        "| | bare Python | `import` | modules | every name | modules | installed | with what it "
        "needs | distributions |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    print(*rows, sep="", end="")


@nox.session(python=PYTHONS)
def e2e(session: nox.Session) -> None:
    """The installed command, and the server through a real MCP client."""
    _sync(session, "--all-packages", "--group=e2e", "--group=release")
    # Those of adapters and of the browser have a session and libraries of their own.
    others = [f"--ignore={ROOT / 'tests' / name}" for name in ("adapters", "browser")]
    session.run("pytest", str(ROOT / "tests"), *others, *BUSY, *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Random operations with several servers: ten seconds, or as `-- --seconds 3600` says."""
    _sync(session, "--all-packages", "--extra=import")
    session.run("python", str(ROOT / "tests" / "soak" / "run.py"), *session.posargs)


@nox.session
def adapters(session: nox.Session) -> None:
    """The adapters against the agent libraries that they are for."""
    _sync(session, "--all-packages", "--group=adapters")
    session.run("pytest", str(ROOT / "tests" / "adapters"), *BUSY, *session.posargs)


# Without one there is nothing to install either.
@nox.session(venv_backend="uv" if CHROMIUM else "none")
def browser(session: nox.Session) -> None:
    """The console in a real browser, Chromium as the system has it; skipped where it has none."""
    if CHROMIUM is None:
        session.skip(f"no Chromium: install it, as {', '.join(BROWSERS)} on the PATH")
    _sync(session, "--all-packages", "--group=browser")
    session.run(
        "pytest", str(ROOT / "tests" / "browser"), *BUSY, *session.posargs,
        env={"CHROMIUM": CHROMIUM},
    )  # fmt: skip


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, with every link within it checked."""
    _sync(session, "--only-group=docs")
    session.run("mkdocs", "build", "--strict", f"--site-dir={session.create_tmp()}/site")


@nox.session
def clients(session: nox.Session) -> None:
    """The installed server through client libraries of agents; in the matrix, or when asked for."""
    _sync(session, "--all-packages", "--extra=import")
    command = shutil.which("pytools-hybrid", path=session.bin)
    for script, library in CLIENTS.items():
        session.run(
            "uv", "run", "--isolated", "--no-project", f"--python={DEFAULT}", f"--with={library}",
            "python", str(ROOT / "tests" / "clients" / script), str(command),
            str(ROOT / "examples" / "tools"), external=True,
        )  # fmt: skip
    _import_servers(session)


@nox.session
def local_models(session: nox.Session) -> None:
    """Models of sentence-transformers, made small; gigabytes, and only when asked for."""
    _sync(session, "--package=pytools-hybrid", "--group=test", "--extra=sentence-transformers")
    session.run("pytest", str(PACKAGES["pytools-hybrid"] / "tests" / "test_local_models.py"))


@nox.session
def servers(session: nox.Session) -> None:
    """Importing and calling real servers of PyPI and npm; needs npm, and only when asked for."""
    if shutil.which("npm") is None:
        session.error("three of the servers are packages of npm: install Node.js, which brings npm")
    _sync(session, "--all-packages", "--extra=import")
    folder = Path(session.virtualenv.location, "npm")
    session.run_install(
        "npm", "install", f"--prefix={folder}", "--no-audit", "--no-fund", "--no-save",
        *NPM_SERVERS, external=True, silent=True,
    )  # fmt: skip
    _import_servers(session, folder / "node_modules" / ".bin")


def _import_servers(session: nox.Session, *folders: Path) -> None:
    """Import from the servers of PyPI, in an environment of their own, and those in folders."""
    own = Path(session.virtualenv.location, "servers")
    session.run_install(
        "uv", "venv", "--quiet", "--allow-existing", f"--python={DEFAULT}", str(own)
    )
    session.run_install("uv", "pip", "install", "--quiet", f"--python={own}", *PYPI_SERVERS)
    binaries = own / ("Scripts" if os.name == "nt" else "bin")
    session.run(
        "python", str(ROOT / "tests" / "servers" / "run.py"),
        str(shutil.which("pytools-hybrid", path=session.bin)),
        str(shutil.which("python", path=session.bin)),
        env={"PATH": os.pathsep.join((*map(str, folders), str(binaries), os.environ["PATH"]))},
    )  # fmt: skip


@nox.session
def conformance(session: nox.Session) -> None:
    """The protocol's official suite and inspector; needs npm, and only when asked for."""
    if shutil.which("npm") is None:
        session.error("the official suite is a package of npm: install Node.js, which brings npm")
    _sync(session, "--all-packages")
    folder = Path(session.virtualenv.location, "npm")
    session.run_install(
        "npm", "install", f"--prefix={folder}", "--no-audit", "--no-fund", "--no-save",
        *CONFORMANCE, external=True, silent=True,
    )  # fmt: skip
    session.run(
        "python", str(ROOT / "tests" / "conformance" / "run.py"),
        str(shutil.which("pytools-hybrid", path=session.bin)), str(ROOT / "examples" / "tools"),
        env={"PATH": os.pathsep.join((str(folder / "node_modules" / ".bin"), os.environ["PATH"]))},
    )  # fmt: skip


@nox.session(python=[version for version in ("3.12", "3.13") if version in PYTHONS] or [DEFAULT])
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing of toolscan: ten minutes, and only when asked for."""
    _sync(session, "--package=toolscan")
    session.install("atheris")
    harness = PACKAGES["toolscan"] / "fuzz" / "fuzz_scan.py"
    with session.chdir(session.create_tmp()):
        session.run("python", str(harness), *(session.posargs or ["-max_total_time=600"]))


@nox.session(venv_backend="none")
def install(session: nox.Session) -> None:
    """The commands of docs/guides/install.md for pip, and the Dockerfile's; run weekly."""
    session.run(sys.executable, str(ROOT / "tests" / "install" / "run.py"), sys.executable)


@nox.session
def platforms(session: nox.Session) -> None:
    """Wheels of every dependency for every platform and Python that we promise; weekly."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        overrides = Path(folder, "overrides.txt")
        overrides.write_text(WITHOUT_SQLITE_VEC, "utf-8")
        session.run_install(
            "uv", "export", "--frozen", "--package=pytools-hybrid", "--no-dev", "--no-hashes",
            "--no-emit-workspace", "--output-file", str(requirements), silent=True,
        )  # fmt: skip
        for platform in PLATFORMS:
            for version in SUPPORTED:
                session.run_install(
                    "uv", "pip", "compile", "--quiet", "--no-deps", "--only-binary=:all:",
                    f"--python-platform={platform}", f"--python-version={version}",
                    str(requirements), "--output-file", str(Path(folder, "out.txt")),
                    *(["--override", str(overrides)] if platform.endswith("musl") else []),
                )  # fmt: skip


@nox.session
def api(session: nox.Session) -> None:
    """What a user would have to change since the last release, or should be told, is told."""
    _sync(session, "--only-group=release")
    session.run("python", "-m", "release", "check")


@nox.session(requires=["wheels"])
def release(session: nox.Session) -> None:
    """What is built is what an index takes; with a tag's name, `dist/` gets what it uploads."""
    _sync(session, "--only-group=release")
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.glob("*-*"))))
    if session.posargs:
        session.run("python", "-m", "release", "make", *session.posargs)
