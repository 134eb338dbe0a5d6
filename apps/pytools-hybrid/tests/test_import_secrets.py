"""Values that must not be shown, and the texts that are freed of them."""

import base64
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid.connections import Redactor

SECRET = 'sk-"live/é\\ 42+x'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        urllib.parse.quote(SECRET, safe=""),
        urllib.parse.quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        f"Authorization: Bearer {SECRET}!",
    ],
)
def test_a_secret_is_found_however_it_is_written(form):
    shown = Redactor({"API_KEY": SECRET}).text(form)
    assert "[API_KEY]" in shown
    assert "live" not in shown
    assert "42" not in shown


def test_the_parts_of_a_header_are_secrets_too():
    redactor = Redactor({"Authorization": "Bearer abc-123-def"})
    assert redactor.text("refused abc-123-def; Bearer wanted") == (
        "refused [Authorization]; Bearer wanted"
    )


def test_each_line_of_a_secret_is_one():
    assert "MIIEvQ" not in Redactor({"KEY": "-----BEGIN\nMIIEvQ\n-----END"}).text("x MIIEvQ y")


@pytest.mark.parametrize("value", ["", "1", "on", "true", "8080", "info", "localhost"])
def test_what_is_nobodys_secret_stays_in_messages(value):
    text = f"listening on {value}, with the value {value}"
    assert Redactor({"SETTING": value}).text(text) == text


def test_descriptions_keep_words_that_a_variable_happens_to_hold():
    redactor = Redactor({"MODE": "read", "ROOT": "/srv/shop/projects", "API_TOKEN": "hunter2x"})
    listed = {"description": "read files in /srv/shop/projects", "default": ["hunter2x", 3, None]}
    assert redactor.listing(listed) == listed | {"default": ["[API_TOKEN]", 3, None]}
    assert "read" not in redactor.text("to read")


def test_an_address_has_secrets_in_its_query_and_before_its_host():
    found = dict(Redactor.of_address("https://me:p4ss@x.org/mcp?api_key=abcd&v=1"))
    assert found == {"user": "me", "password": "p4ss", "api_key": "abcd", "v": "1"}
    assert dict(Redactor.of_address("http://[")) == {}


@given(st.text(min_size=4), st.text(), st.text())
def test_no_text_is_shown_with_a_secret_in_it(secret, before, after):
    shown = Redactor({"N": secret}).text(f"{before}{secret}{after}")
    if shown == f"{before}{secret}{after}":
        harmless = secret.strip().isdecimal() or len(secret.strip()) < 4
        assert harmless or all(len(part) < 4 or part.isalpha() for part in secret.split())
