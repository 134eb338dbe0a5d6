"""Every check of the project. `uv run nox` runs them; CI runs nothing else.

uv run nox -l                    list the sessions
uv run nox -s tests              the tests of each package, on every interpreter found
uv run nox -s tests-3.12 -- -x   one interpreter, with arguments for pytest
uv run nox -j 1 -s …             one session after the other, printing as it goes
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nox

ROOT = Path(__file__).parent
# nox runs as its own program, so this folder is not on sys.path.
sys.path.insert(0, str(ROOT))

import nox_environments as env  # noqa: E402
from nox_environments import DEFAULT, DIST, PROJECTS, PYTHONS, SUPPORTED  # noqa: E402

# `WEEKLY=1`, as set by GitHub's weekly workflow: `tests` measures coverage, `lowest` runs all
# tests, `types` runs a second checker, and hypothesis tries more examples.
WEEKLY = "WEEKLY" in os.environ
# Required coverage of lines and branches in percent, measured weekly because it makes the tests
# 50 % slower. The libraries miss only what depends on the system or on the outcome of a race.
# Much of the app is covered by the end-to-end tests, which are not measured. toolimport generates
# models in a process that is killed before it reports coverage. toolembed's tests skip models of
# sentence-transformers, which need gigabytes, and the downloads of its command.
COVERED = dict.fromkeys(PROJECTS, 98) | {"pytools-hybrid": 80, "toolimport": 90, "toolembed": 86}
# More workers than cores, because many tests wait.
BUSY = ["--numprocesses=3"]
if WEEKLY:
    # A property with so many examples takes longer than pyproject.toml allows a test.
    BUSY.append("--override-ini=faulthandler_timeout=1800")
HYPOTHESIS = {
    "TEST_EXAMPLES": "300" if WEEKLY else "20",
    # Shared by all sessions, so that each retries examples that failed in another.
    "HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis"),
}
# The tests that fail when a version is too low: public contracts, and calls of dependencies.
FLOORS = (
    "test_*contract.py", "test_docstrings.py", "test_embedding.py", "test_greeting.py",
    "test_http_api.py", "test_runtime.py", "test_search.py", "test_watch.py", "test_weights.py",
)  # fmt: skip
FOOTPRINT = ROOT / "benchmarks" / "footprint.py"


# The checks start thousands of processes, each of which would compile everything it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A package index that is slow or unreachable for a moment must not fail a session.
os.environ.setdefault("UV_HTTP_TIMEOUT", "120")
os.environ.setdefault("UV_HTTP_RETRIES", "6")

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
# Run one session per core.
nox.options.parallel = "auto"
nox.options.allow_parallel = True
# The longest come first, so that no core is idle at the end.
nox.options.sessions = [
    "lint", f"e2e-{DEFAULT}", "types", f"tests-{DEFAULT}", "browser", "soak", "adapters", "release",
    "lowest", "docs", "api",
]  # fmt: skip


# The JSON Schemas of the files in .github.
GITHUB_FILES = {
    "github-workflows": "workflows/*.y*ml",
    "dependabot": "dependabot.y*ml",
    "github-issue-forms": "ISSUE_TEMPLATE/[!c]*.y*ml",
    "github-issue-config": "ISSUE_TEMPLATE/config.y*ml",
}


@nox.session
def lint(session: nox.Session) -> None:
    """Style, format, layers, dependencies, workflows; for given files, only style and format."""
    env.sync(session, "--all-packages", "--group=lint")
    files = session.posargs or ["."]
    session.run("ruff", "check", *files)
    session.run("ruff", "format", "--check", *files)
    if session.posargs:
        return
    session.run("lint-imports", "--no-cache")
    for project in PROJECTS.values():
        with session.chdir(project.folder):
            session.run("deptry", "src", silent=True)
    session.run("zizmor", "--offline", "--persona=auditor", "--quiet", ".github")
    for schema, pattern in GITHUB_FILES.items():
        found = map(str, sorted(Path(".github").glob(pattern)))
        session.run("check-jsonschema", f"--builtin-schema=vendor.{schema}", *found, silent=True)
    session.run("uv", "lock", "--check", "--default-index=https://pypi.org/simple", external=True)


@nox.session
def licences(session: nox.Session) -> None:
    """The licences of all dependencies: permitted, and listed in docs/licences.md; by hand."""
    env.sync(session, "--only-group=licences")
    session.run("python", str(ROOT / "docs" / "make" / "licences.py"), *session.posargs)


@nox.session(venv_backend="none")
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of the locked versions, from osv.dev; weekly, or by hand."""
    session.run("uv", "audit", "--frozen", "--preview-features=audit-command", external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Strict types; with `WEEKLY=1` a second checker, and the completeness of public types."""
    env.sync(session, "--all-packages", "--group=types", "--group=release")
    # Without --pythonpath it uses the environment that nox itself runs in.
    session.run("basedpyright", f"--pythonpath={env.program(session, 'python')}", "--threads", "2")
    if not WEEKLY:
        return
    sources = (str(it.folder / "src") for it in PROJECTS.values())
    session.run("mypy", "--num-workers=2", *sources, "tests/types", "release", str(FOOTPRINT))
    for it in PROJECTS.values():
        session.run("basedpyright", "--ignoreexternal", "--verifytypes", it.module, silent=True)


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build every package as for a release: a source distribution, and a wheel from it."""
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


def _test_wheel(
    session: nox.Session, package: str, *versions: str, covered: int = 0, tests: Iterable[Path] = ()
) -> None:
    """Import and measure the wheel with only its declared dependencies, then run its tests."""
    folder = PROJECTS[package].folder
    install = ("uv", "pip", "install", "--no-sources", str(env.wheel(package)), *versions)
    session.run_install(*install)
    session.run("python", "-I", str(FOOTPRINT), package)
    session.run_install(*install, f"--group={folder / 'pyproject.toml'}:test")
    arguments = [*map(str, tests or [folder / "tests"]), *BUSY, *session.posargs]
    if covered:
        arguments += [
            f"--cov={PROJECTS[package].module}",
            f"--cov-config={ROOT / 'pyproject.toml'}",
            "--cov-report=term",
            *([] if session.posargs else [f"--cov-fail-under={covered}"]),
        ]
    with tempfile.TemporaryDirectory() as elsewhere, session.chdir(elsewhere):
        session.run(
            "pytest",
            *arguments,
            env={"PYTHONPATH": ""} | HYPOTHESIS,
            # Arguments such as `-k` may select no test of a package.
            success_codes=[0, 5] if session.posargs else [0],
        )


@nox.session(python=PYTHONS, requires=["wheels"])
@nox.parametrize("package", list(PROJECTS))
def tests(session: nox.Session, package: str) -> None:
    """One package's wheel and tests, with only its declared dependencies, as locked."""
    covered = COVERED[package] if WEEKLY else 0
    _test_wheel(session, package, env.LOCKED, env.siblings(session, package), covered=covered)


@nox.session(python=SUPPORTED[0] if SUPPORTED[0] in PYTHONS else DEFAULT, requires=["wheels"])
@nox.parametrize("package", list(PROJECTS))
def lowest(session: nox.Session, package: str) -> None:
    """One package's wheel with the lowest versions it declares; with `WEEKLY=1` all its tests."""
    folder = PROJECTS[package].folder
    _test_wheel(
        session,
        package,
        "--resolution=lowest-direct",
        # Only the requirements of this file count as direct, not those of the wheel.
        f"--requirements={folder / 'pyproject.toml'}",
        env.siblings(session, package, released=True),
        tests=[] if WEEKLY else [it for name in FLOORS for it in (folder / "tests").rglob(name)],
    )


@nox.session(python=PYTHONS[-1], requires=["wheels"])
@nox.parametrize("package", list(PROJECTS))
def newest(session: nox.Session, package: str) -> None:
    """One package's wheel and tests with the newest versions; weekly, or by hand."""
    _test_wheel(session, package, env.siblings(session, package))


@nox.session(python=PYTHONS, requires=["wheels"])
def footprint(session: nox.Session) -> None:
    """Print what each package costs to install and to import; by hand."""
    rows: list[object] = []
    for package in PROJECTS:
        programs = env.new_environment(
            session, package, str(env.wheel(package)), env.LOCKED, env.siblings(session, package)
        )
        row = (str(programs / "python"), "-I", str(FOOTPRINT), package, "--row")
        rows.append(session.run(*row, silent=True, external=True))
    print(
        "| | bare Python | `import` | modules | every name | modules | installed | with what it "
        "needs | distributions |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    print(*rows, sep="", end="")


@nox.session(python=PYTHONS)
def e2e(session: nox.Session) -> None:
    """The installed command and server, as processes; the examples in the documentation."""
    env.sync(session, "--all-packages", "--group=e2e", "--group=release")
    # These have their own sessions and libraries.
    others = [f"--ignore={ROOT / 'tests' / name}" for name in ("adapters", "browser")]
    session.run("pytest", str(ROOT / "tests"), *others, *BUSY, *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Random operations with several servers: ten seconds, or `-- --seconds 3600`."""
    env.sync(session, "--all-packages", "--extra=import")
    session.run("python", str(ROOT / "tests" / "soak" / "run.py"), *session.posargs)


@nox.session
def adapters(session: nox.Session) -> None:
    """The adapters, with the agent libraries that they support."""
    env.sync(session, "--all-packages", "--group=adapters")
    session.run("pytest", str(ROOT / "tests" / "adapters"), *BUSY, *session.posargs)


# The names of the browser on Debian, Ubuntu, Arch, and in Google's packages.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


# Without Chromium the session needs no environment either.
@nox.session(venv_backend="uv" if CHROMIUM else "none")
def browser(session: nox.Session) -> None:
    """The console in the system's Chromium; skipped if there is none."""
    if CHROMIUM is None:
        session.skip(f"no Chromium on PATH: install it as one of {', '.join(BROWSERS)}")
    env.sync(session, "--all-packages", "--group=browser")
    session.run(
        "pytest", str(ROOT / "tests" / "browser"), *BUSY, *session.posargs,
        env={"CHROMIUM": CHROMIUM},
    )  # fmt: skip


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site, and check every link within it."""
    env.sync(session, "--only-group=docs")
    session.run("mkdocs", "build", "--strict", f"--site-dir={session.create_tmp()}/site")


# The scripts in tests/clients. Each runs with its library alone, without any of our packages.
CLIENTS = {
    "mcp_v1.py": "mcp>=1.30,<2",
    "mcp_v2.py": "mcp>=2.3,<3",
    "pydantic_ai_toolset.py": "pydantic-ai-slim[mcp]>=2.68,<3",
}


@nox.session
def clients(session: nox.Session) -> None:
    """The installed server with the client libraries of agents; in CI's matrix, or by hand."""
    env.sync(session, "--all-packages", "--extra=import")
    for script, library in CLIENTS.items():
        session.run(
            "uv", "run", "--isolated", "--no-project", f"--python={DEFAULT}", f"--with={library}",
            "python", str(ROOT / "tests" / "clients" / script),
            env.program(session, "pytools-hybrid"), str(ROOT / "examples" / "tools"), external=True,
        )  # fmt: skip
    _import_servers(session)


@nox.session
def local_models(session: nox.Session) -> None:
    """Small models of sentence-transformers, which installs gigabytes; by hand."""
    env.sync(session, "--package=pytools-hybrid", "--group=test", "--extra=sentence-transformers")
    app = PROJECTS["pytools-hybrid"].folder
    session.run("pytest", str(app / "tests" / "test_local_models.py"))


# MCP servers of other projects, imported and called by `servers`; `clients` uses those of PyPI.
PYPI_SERVERS = ("mcp-server-time>=2026.10.19", "mcp-server-git>=2026.10.19")
NPM_SERVERS = tuple(
    f"@modelcontextprotocol/server-{name}@2026.8.31"
    for name in ("filesystem", "memory", "everything")
)


@nox.session
def servers(session: nox.Session) -> None:
    """Import and call MCP servers of PyPI and npm; needs npm; by hand."""
    env.sync(session, "--all-packages", "--extra=import")
    _import_servers(session, env.install_npm(session, *NPM_SERVERS))


def _import_servers(session: nox.Session, *folders: Path) -> None:
    """Import and call the servers of PyPI, in a separate environment, and those in folders."""
    programs = env.new_environment(session, "servers", *PYPI_SERVERS)
    session.run(
        "python", str(ROOT / "tests" / "servers" / "run.py"),
        env.program(session, "pytools-hybrid"), env.program(session, "python"),
        env=env.path(*folders, programs),
    )  # fmt: skip


# MCP's official checks. The suite's last stable release does not support revision 2026-07-28.
# Node is included because the checks need a newer one than many systems have.
CONFORMANCE = (
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "node@22.23.3",
)


@nox.session
def conformance(session: nox.Session) -> None:
    """MCP's official test suite and inspector; needs npm; by hand."""
    env.sync(session, "--all-packages")
    programs = env.install_npm(session, *CONFORMANCE)
    session.run(
        "python", str(ROOT / "tests" / "conformance" / "run.py"),
        env.program(session, "pytools-hybrid"), str(ROOT / "examples" / "tools"),
        env=env.path(programs),
    )  # fmt: skip


@nox.session(python=[version for version in ("3.12", "3.13") if version in PYTHONS] or [DEFAULT])
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzing of toolscan for ten minutes; by hand."""
    env.sync(session, "--package=toolscan")
    session.install("atheris")
    harness = PROJECTS["toolscan"].folder / "fuzz" / "fuzz_scan.py"
    with session.chdir(session.create_tmp()):
        session.run("python", str(harness), *(session.posargs or ["-max_total_time=600"]))


@nox.session(venv_backend="none")
def install(session: nox.Session) -> None:
    """The Dockerfile, and the commands for pip in docs/guides/install.md; weekly."""
    session.run(sys.executable, str(ROOT / "tests" / "install" / "run.py"), sys.executable)


# The platforms that we promise, by uv's names.
PLATFORMS = (
    "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl",
)  # fmt: skip
# Install without sqlite-vec on musl, where it has no wheel, as the documentation advises. There is
# no marker that distinguishes musl from glibc.
WITHOUT_SQLITE_VEC = "sqlite-vec; sys_platform == 'never'"


@nox.session
def platforms(session: nox.Session) -> None:
    """Wheels of every dependency for every promised platform and Python; weekly."""
    folder = Path(session.create_tmp())
    requirements, overrides = folder / "requirements.txt", folder / "overrides.txt"
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
                str(requirements), "--output-file", str(folder / "out.txt"),
                *(["--override", str(overrides)] if platform.endswith("musl") else []),
            )  # fmt: skip


@nox.session
def api(session: nox.Session) -> None:
    """Breaking changes of public APIs, and other changes of packages, have a fragment."""
    env.sync(session, "--only-group=release")
    session.run("python", "-m", "release", "check")


@nox.session(requires=["wheels"])
def release(session: nox.Session) -> None:
    """A package index would accept the builds; with a tag, write the files to upload to `dist/`."""
    env.sync(session, "--only-group=release")
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.glob("*-*"))))
    if session.posargs:
        session.run("python", "-m", "release", "make", *session.posargs)
