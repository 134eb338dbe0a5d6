"""Finding and redacting values that must not be shown."""

import base64
import json
import time
import urllib.parse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED
from toolimport._connect._client import Diagnostics
from toolimport._errors import ServerError
from toolimport.clients._secrets import Redactor, secret_parts

from .conftest import PATIENCE

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
def test_a_secret_is_redacted_in_any_encoding(form):
    shown = Redactor({"API_KEY": SECRET}.items()).text(form)
    assert "[API_KEY]" in shown
    assert "live" not in shown
    assert "42" not in shown


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        ([("A", "Bearer abc-123-def")], "no abc-123-def; Bearer wanted", "no [A]; Bearer wanted"),
        ([("KEY", "-----BEGIN\nMIIEvQ\n-----END")], "x MIIEvQ y", "x [KEY] y"),
        ([("key", "hunter2"), ("key", "hunter3")], "hunter2, hunter3", "[key], [key]"),
    ],
)
def test_each_word_and_line_of_a_secret_is_a_secret(secrets, text, shown):
    assert Redactor(secrets).text(text) == shown


@pytest.mark.parametrize("value", ["", "1", "on", "true", "8080", "info", "localhost"])
def test_values_that_are_not_secret_stay_in_messages(value):
    text = f"listening on {value}, with the value {value}"
    assert Redactor({"SETTING": value}.items()).text(text) == text


def test_descriptions_keep_words_that_equal_a_variables_value():
    redactor = Redactor(
        {"MODE": "read", "ROOT": "/srv/shop/projects", "API_TOKEN": "hunter2x"}.items()
    )
    listed = {"description": "read files in /srv/shop/projects", "default": ["hunter2x", 3, None]}
    assert redactor.listing(listed) == listed | {"default": ["[API_TOKEN]", 3, None]}
    assert "read" not in redactor.text("to read")


def test_names_and_choices_in_a_schema_are_not_redacted():
    values = {
        "AUTH_METHOD": "password",
        "PRIVATE_REPOS": "include",
        "GIT_AUTHOR_NAME": "Test User",
        "TOKEN_KIND": "token",
        "SECRET": "hunter2-0123456789",
    }
    redactor = Redactor(values.items())
    listed = {
        "description": "Log in with a password as Test User; include what you need.",
        "properties": {"password": {"enum": ["password", "token"], "default": "token"}},
        "required": ["password", "include"],
    }
    assert redactor.listing(listed) == listed
    assert redactor.listing({"enum": ["hunter2-0123456789"]}) == {"enum": ["[SECRET]"]}


def test_secrets_in_a_urls_query_and_user_are_redacted():
    found = dict(Redactor.of_address("https://me:p4ss@x.org/mcp?api_key=abcd&v=1"))
    assert found == {"user": "me", "password": "p4ss", "api_key": "abcd", "v": "1"}
    assert dict(Redactor.of_address("http://[")) == {}
    assert set(Redactor.of_address("https://a:p4ss@x.org https://b:p5ss@y.org")) == {
        *(("user", "a"), ("password", "p4ss"), ("user", "b"), ("password", "p5ss"))
    }
    assert dict(Redactor.of_address("https://x.org/mcp/k-0123456789abcdef/sse")) == {
        "path": "k-0123456789abcdef"
    }


@pytest.mark.parametrize("password", ["hun@ter2", "hun/ter2", "hun#ter2", "hun?ter2", "hun[ter2"])
@pytest.mark.parametrize("scheme", ["postgres", "--db=https", "name=https"])
def test_a_urls_password_with_any_characters_is_redacted(scheme, password):
    redactor = Redactor(Redactor.of_address(f"{scheme}://me:{password}@x.org/y"))
    assert redactor.text(f"no {password} at x.org") == "no [password] at x.org"
    assert "ter2" not in redactor.text("Invalid port: 'hun' or host 'ter2@x.org'")


def test_a_password_is_redacted_in_its_decoded_form_too():
    redactor = Redactor(Redactor.of_address("https://me:hunter%2F2@x.org"))
    assert redactor.text("hunter/2 hunter%2F2") == "[password] [password]"


@pytest.mark.parametrize(
    ("arguments", "secret", "name"),
    [
        (["--api-key", "hunter2"], "hunter2", "api-key"),
        (["--api-key=hunter2", "-v"], "hunter2", "api-key"),
        (["-e", "API_TOKEN=hunter2"], "hunter2", "API_TOKEN"),
        (["--header", "Authorization: Bearer hunter2"], "Bearer hunter2", "Authorization"),
        (["--header=X-Key:hunter2"], "hunter2", "X-Key"),
        (["serve", "ghp_0123456789abcdefABC"], "ghp_0123456789abcdefABC", "argument"),
    ],
)
def test_arguments_are_secret_by_the_names_of_their_flags(arguments, secret, name):
    ((place, start, found),) = secret_parts(arguments)
    assert (arguments[place][start:], found) == (secret, name)


def test_other_arguments_are_not_secret():
    arguments = [
        "-y",
        "@scope/server-v2@2025.1",
        "--token",
        "--port",
        "8080",
        "server-time-v20250101",
    ]
    assert list(secret_parts(arguments)) == []


# Common values that are not secrets, although they are not words.
NOBODYS_SECRETS = {"127.0.0.1", "application/json", "utf-8"}


@given(st.text(min_size=4), st.text(), st.text())
@example("127.0.0.1", "", "")
@example("application/json ", "", "")
def test_no_text_is_shown_with_a_secret(secret, before, after):
    shown = Redactor({"N": secret}.items()).text(f"{before}{secret}{after}")
    if shown == f"{before}{secret}{after}":
        harmless = secret.strip().isdecimal() or len(secret.strip()) < 4
        assert harmless or all(
            len(part) < 4 or part.isalpha() or part.lower() in NOBODYS_SECRETS
            for part in secret.split()
        )


@pytest.mark.parametrize("before", [490, 1990])
def test_text_is_truncated_after_its_secrets_are_redacted(before):
    diagnostics, redactor = Diagnostics(), Redactor([("API_KEY", SECRET)])
    with diagnostics.stderr.writing() as file:
        file.write("x" * before + SECRET + "\n" + "y" * 20_000 + "\nlast\n")
    deadline = time.monotonic() + PATIENCE
    while "last" not in diagnostics.stderr.lines:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert SECRET[:6] not in str(diagnostics.explain(OSError(), "shop", redactor))
    error = Diagnostics().explain(ValueError("x" * before + SECRET), "shop", redactor)
    assert SECRET[:6] not in str(error)
    assert len(str(error)) < 2100


def test_a_server_error_that_ends_the_connection_is_reported():
    def told(error):
        return Diagnostics().explain(error, "shop", Redactor(())).reason

    quota, closed = "quota exceeded", "Connection closed"
    assert told(MCPError(CONNECTION_CLOSED, quota)) == quota
    assert told(MCPError(CONNECTION_CLOSED, closed)) == "ended before it answered"
    assert told(ExceptionGroup("", [ServerError("shop", "lists no tools")])) == "lists no tools"
