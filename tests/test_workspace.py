"""Rules between the packages, and for the repository as a whole."""

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from toolembed.providers import PROVIDERS
from toolindex._rows import name_key as indexed_key
from toolindex._rows import segments
from toolrank import name_key
from toolrank._query import query_words
from toolscan import ToolId

from release.projects import read_projects

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
PACKAGES = read_projects(ROOT)
PROJECTS = [
    tomllib.loads((package.folder / "pyproject.toml").read_text("utf-8"))["project"]
    for package in PACKAGES.values()
]
NAMES = [project["name"] for project in PROJECTS]
# The files that list every package, and the form of an entry.
LISTS = {
    ".github/ISSUE_TEMPLATE/bug.yml": "- {name}\n",
    ".github/ISSUE_TEMPLATE/idea.yml": "- {name}\n",
    "README.md": "| [{name}]({folder}) |",
    "docs/stability.md": "| {name} | `{module}`",
    "mkdocs.yml": "[{folder}/README.md, {folder}/CHANGELOG.md]",
    "pyproject.toml": "\n{name} = {{ workspace = true }}\n",
}
# Invented requests, some of which name folders.
INVENTED = ROOT / "benchmarks/quality/training"
ONE_MACHINE_ONLY = re.compile(
    r"file:///"
    r"|https?://(?:10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)[\d.]+"
    r"|https?://[\w.-]+\.(?:internal|local|lan|corp)\b"
    r"|(?<![\w./-])/(?:root|work|home/\w+|Users/\w+)/"
    r"|\.\./shared\b"
)


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    return [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]


def requirements(project):
    """Return a project's requirements and those of its extras, except for itself."""
    extras = project.get("optional-dependencies", {}).values()
    declared = [*project.get("dependencies", []), *(line for extra in extras for line in extra)]
    return [it for it in map(Requirement, declared) if it.name != project["name"]]


def test_the_lock_has_only_public_addresses():
    """uv writes the index that the environment sets, and `uv lock --check` does not notice."""
    hosts = set(re.findall(r"https?://[^/\"\s]+", (ROOT / "uv.lock").read_text("utf-8")))

    assert hosts == {"https://pypi.org", "https://files.pythonhosted.org"}, (
        "write the lock with: uv lock --default-index https://pypi.org/simple"
    )


def test_no_file_names_a_path_or_host_of_a_single_machine():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in tracked_files()
        if path.is_file() and path.name != "uv.lock" and path != Path(__file__)
        if INVENTED not in path.parents
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), start=1)
        if (match := ONE_MACHINE_ONLY.search(line))
    ]

    assert not found


@pytest.mark.parametrize("there", [True, False])
def test_sqlite_vec_is_required_exactly_where_it_has_wheels(there):
    """It has no source distribution, so elsewhere a requirement would make installing fail."""
    wheels = " ".join(
        wheel["url"]
        for package in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]
        if package["name"] == "sqlite-vec"
        for wheel in package["wheels"]
    )
    platforms = {
        ("linux", "x86_64"): "manylinux1_x86_64",
        ("linux", "aarch64"): "manylinux2014_aarch64",
        ("linux", "armv7l"): "armv7l",
        ("linux", "riscv64"): "riscv64",
        ("linux", "ppc64le"): "ppc64le",
        ("darwin", "arm64"): "macosx_11_0_arm64",
        ("darwin", "x86_64"): "macosx_10_6_x86_64",
        ("win32", "AMD64"): "win_amd64",
        ("win32", "ARM64"): "win_arm64",
        ("freebsd14", "amd64"): "freebsd",
    }
    chosen = {where for where, tag in platforms.items() if (tag in wheels) is there}
    (required,) = (
        requirement
        for project in PROJECTS
        for requirement in map(Requirement, project.get("dependencies", []))
        if requirement.name == "sqlite-vec"
    )
    assert required.marker is not None
    assert chosen
    for system, machine in chosen:
        where = {"sys_platform": system, "platform_machine": machine}
        assert required.marker.evaluate(where) is there, where


@pytest.mark.parametrize("project", PROJECTS, ids=NAMES)
def test_the_ranges_of_siblings_include_their_current_versions(project):
    for requirement in requirements(project):
        if requirement.name not in NAMES:
            continue
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators == {">=", "<"}, requirement
        assert version(requirement.name) in requirement.specifier


def test_the_app_has_each_extra_of_toolembed():
    """Error messages about a model name the app's extra, for any provider."""
    by_name = {project["name"]: project.get("optional-dependencies", {}) for project in PROJECTS}
    for extra in by_name["toolembed"]:
        wanted = map(Requirement, by_name["pytools-hybrid"][extra])
        assert any(it.name == "toolembed" and extra in it.extras for it in wanted), extra


def test_each_extra_of_a_provider_is_an_extra_of_toolembed():
    (project,) = (it for it in PROJECTS if it["name"] == "toolembed")
    extras = {provider.extra for provider in PROVIDERS.values() if provider.extra}

    assert extras | {"accurate", "pydantic-ai"} == set(project["optional-dependencies"])


@pytest.mark.parametrize("project", PROJECTS, ids=NAMES)
def test_every_other_dependency_has_a_lower_bound_or_is_pinned(project):
    for requirement in requirements(project):
        operators = {specifier.operator for specifier in requirement.specifier}
        assert operators & {">=", "=="}, requirement


@pytest.mark.parametrize("package", PACKAGES.values(), ids=NAMES)
def test_a_package_has_its_metadata_and_type_marker(package):
    project = tomllib.loads((package.folder / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["license"] == "Apache-2.0"
    assert "LICENSE" in project["license-files"]
    assert all((package.folder / name).is_file() for name in project["license-files"])
    assert (package.source / "py.typed").is_file()
    # Relative links do not work on PyPI.
    readme = (package.folder / project["readme"]).read_text("utf-8")
    assert not re.findall(r"\]\((?!https?:|mailto:|#)[^)\n]*\)", readme)
    assert len(readme.splitlines()) <= 140


@pytest.mark.parametrize(("place", "entry"), LISTS.items(), ids=LISTS)
def test_every_list_of_packages_is_complete(place, entry):
    text = (ROOT / place).read_text("utf-8")

    for name, package in PACKAGES.items():
        folder = package.folder.relative_to(ROOT).as_posix()
        assert entry.format(name=name, folder=folder, module=package.module) in text


def test_the_layers_include_every_package():
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    modules = {package.module for package in PACKAGES.values()}

    assert set(linter["root_packages"]) == modules
    assert {
        module for layer in linter["contracts"][0]["layers"] for module in layer.split(" | ")
    } == modules


# Generating examples may take long on a busy machine, above all the first ones.
at_any_speed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@at_any_speed
@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,30}", fullmatch=True))
def test_a_query_is_split_like_an_indexed_name(name):
    """toolrank splits queries and toolscan splits names; neither may know the other."""
    words = [word for word in ToolId.words_of(name) if len(word) > 1]

    assert set(words) <= {term for word in query_words(name) for term in word.terms}


# Half of the texts are in scripts without spaces, including the marks between their letters.
ANY_TEXT = st.text(st.characters(codec=None)) | st.text(
    st.sampled_from("作成问题メールㄱ한국어ไทยກຂកខဗမာ゙ั်　。、09aÀ_-:\0\ud800ﬁ㌔①")
)


@at_any_speed
@given(ANY_TEXT)
@example("ｃｒｅａｔｅ_Issue")
@example("İstanbul ﬁle Straße")
def test_a_request_for_a_name_has_the_same_key(name):
    """toolindex stores keys of names, and toolrank makes those of requests."""
    assert name_key(name) == indexed_key(name)


@at_any_speed
@given(ANY_TEXT)
@example("メールを送信する")
@example("作成issue。删除 a 文")
@example("ภาษาไทย ြမန်မာ")
@example("한국어를 씁니다")
def test_scripts_without_spaces_are_split_alike_in_requests_and_the_index(text):
    """toolindex splits texts and toolrank splits requests; neither may know the other."""
    pairs = [
        term
        for word in query_words(text)
        if word.is_unspaced
        for term in word.parts or (word.surface.lower(),)
    ]

    assert set(pairs) == {pair.lower() for pair in segments([text]).split()}
