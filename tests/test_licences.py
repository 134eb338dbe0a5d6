"""The licences that a dependency may have, and the page that lists every dependency."""

import re
import runpy
import subprocess
from pathlib import Path

import pytest
from packaging.metadata import parse_email

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
TERMS = runpy.run_path(str(ROOT / "docs" / "make" / "licence_terms.py"))
LicenceError = TERMS["LicenceError"]


def licence(*lines, name="parcel"):
    """Read the licence from a distribution's metadata."""
    metadata, _ = parse_email("\n".join((f"Name: {name}", "Version: 1.0", *lines)))
    return TERMS["licence"](metadata)


@pytest.mark.parametrize(
    ("stated", "is_"),
    [
        (["License-Expression: mit"], "MIT"),
        (["License: BSD-3-Clause"], "BSD-3-Clause"),
        (["License: Apache 2.0"], "Apache-2.0"),
        (["License: MIT License", "        Permission is hereby granted"], "MIT"),
        (["Classifier: License :: OSI Approved :: ISC License (ISCL)"], "ISC"),
        (["License-Expression: MIT", "Classifier: License :: Other/Proprietary License"], "MIT"),
        (
            [
                "Classifier: License :: OSI Approved :: MIT License",
                "Classifier: License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)",
            ],
            "MIT AND MPL-2.0",
        ),
    ],
)
def test_a_licence_is_read_from_the_clearest_statement(stated, is_):
    assert licence(*stated) == is_


@pytest.mark.parametrize(
    "stated",
    [
        [],
        ["License: see the website"],
        [
            "License: MIT",
            "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
        ],
        ["Classifier: License :: Other/Proprietary License"],
        [
            "Classifier: License :: OSI Approved :: MIT License",
            "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
        ],
    ],
)
def test_an_unknown_licence_is_refused_with_the_name_of_the_package(stated):
    with pytest.raises(LicenceError, match=r"parcel 1\.0 states no licence that is known here"):
        licence(*stated)


def test_a_manual_decision_is_invalid_once_the_package_states_another_licence():
    assert licence(name="cuda-toolkit") == "LicenseRef-NVIDIA-Proprietary"
    with pytest.raises(LicenceError, match="cuda-toolkit"):
        licence("License: by agreement", name="cuda-toolkit")


@pytest.mark.parametrize(
    "expression",
    ["MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)", "GPL-3.0-only OR MIT", "Apache-2.0 AND MIT"],
)
def test_a_licence_is_permitted_if_one_alternative_is_compatible(expression):
    TERMS["check"]("parcel", expression, always=True)


@pytest.mark.parametrize(
    "expression",
    ["GPL-3.0-only", "MIT AND AGPL-3.0-only", "Apache-2.0 WITH Classpath-exception-2.0"],
)
def test_any_other_licence_is_refused_with_the_name_of_the_package(expression):
    with pytest.raises(LicenceError, match="parcel is under"):
        TERMS["check"]("parcel", expression, always=True)


def test_a_licence_that_is_not_free_is_only_permitted_in_an_extra():
    TERMS["check"]("parcel", "LicenseRef-NVIDIA-Proprietary", always=False)
    with pytest.raises(LicenceError, match="for everybody"):
        TERMS["check"]("parcel", "LicenseRef-NVIDIA-Proprietary", always=True)


def test_the_page_of_licences_has_each_locked_dependency_once():
    exported = subprocess.run(
        [
            *("uv", "export", "--quiet", "--frozen", "--all-packages", "--all-extras"),
            *("--no-default-groups", "--no-emit-workspace", "--no-hashes"),
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout
    page = (ROOT / "docs" / "licences.md").read_text("utf-8")

    listed = re.findall(r"^\| ([\w-]+) \| \S", page, re.M)[1:]
    locked = set(re.findall(r"^([\w-]+)==", exported, re.M))
    assert listed == sorted(locked), "regenerate it: uv run nox -s licences -- --write"
