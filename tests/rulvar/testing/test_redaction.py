"""Credentials never reach a file; prose does."""

import json
import re
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar.contracts.redaction import MASK, Redactor, default_redact, find_secrets
from rulvar.errors import ConfigError

CREDENTIALS = [
    ("Authorization: Basic RkFLRTpGQUtFUEFTUw==", "RkFLRTpGQUtFUEFTUw"),
    ("Basic RkFLRTpGQUtFUEFTUw==", "RkFLRTpGQUtFUEFTUw"),
    ("authorization: Token FAKEabc123", "FAKEabc123"),
    ('Authorization: Digest username="FAKEUSER", response="0123456789abcdef"', "0123456789abcdef"),
    ("my_key=FAKEVALUE", "FAKEVALUE"),
    ("signing-key=FAKEVALUE", "FAKEVALUE"),
    ("refresh_token=FAKEVALUE", "FAKEVALUE"),
    ("password=hunter", "hunter"),
    ("password: hunter", "hunter"),
    ("secret=quiet", "quiet"),
    ("PGPASSWORD=FAKEVALUE", "FAKEVALUE"),
    ("AWS_SECRET_ACCESS_KEY=FAKE/K7MDENG+FAKE", "K7MDENG"),
    ("client_secret: 'FAKE VALUE WITH SPACES'", "SPACES"),
    ("--api-token FAKEVALUE1", "FAKEVALUE1"),
    ("api key: FAKEVALUE1", "FAKEVALUE1"),
    ("sk_live_FAKEFAKEFAKE", "FAKEFAKE"),
    ("sk_test_FAKEFAKEFAKE", "FAKEFAKE"),
    ("ghp_FAKEFAKEFAKEFAKEFAKE", "FAKEFAKE"),
    ("github_pat_FAKEFAKE_FAKEFAKE", "FAKEFAKE"),
    ("AKIAFAKEFAKEFAKEFAKE", "FAKEFAKE"),
    ("AIzaFAKEFAKE_FAKE-FAKEFAKE", "FAKEFAKE"),
    ("xoxb-000000000000-FAKEFAKE", "FAKEFAKE"),
    ("eyJGQUtFRkFLRQ.eyJGQUtFRkFLRQ.RkFLRQ", "RkFLRQ"),
    ("postgres://app:FAKEPASS@db/app", "FAKEPASS"),
    ('{\\"api_key\\":\\"FAKEVALUE\\"}', "FAKEVALUE"),
    ('{\\\\\\"password\\\\\\":\\\\\\"FAKE VALUE\\\\\\"}', "FAKE VALUE"),
    ("{'Authorization': 'Token FAKEabc123'}", "FAKEabc123"),
    ('"accessToken": "FAKEVALUE"', "FAKEVALUE"),
    ("-----BEGIN RSA PRIVATE KEY-----\nFAKE\n-----END RSA PRIVATE KEY-----", "FAKE"),
    ("-----BEGIN PRIVATE KEY-----\\nFAKEFAKE", "FAKEFAKE"),
    ('password = """FAKE VALUE"""', "FAKE VALUE"),
    ("api_key = '''FAKEVALUE'''", "FAKEVALUE"),
    ("`api_key`: `FAKEVALUE`", "FAKEVALUE"),
    ("https://host/?api_key%3DFAKEVALUE", "FAKEVALUE"),
    ("%7B%22access_token%22%3A%22FAKEVALUE1%22%7D", "FAKEVALUE1"),
    ("<password>FAKEVALUE</password>", "FAKEVALUE"),
    ("<account><apiKey>FAKEVALUE</apiKey></account>", "FAKEVALUE"),
    ("curl -sS -u user:FAKEVALUE https://host", "FAKEVALUE"),
    ("curl --user 'user:FAKEVALUE' https://host", "FAKEVALUE"),
]
PROSE = [
    "the authorization was granted yesterday",
    "Authorization is required, and authorization code grants are slow.",
    "401 Authorization Required",
    "Bearer authentication is required",
    "the bearer certificates are old",
    "basic understanding of JavaScript, basic TypeScript knowledge",
    "Basic authentication is not enough",
    "enter your password: it is required",
    "the secret: patience and time",
    "a token is a piece of a word; tokens: 12, max_tokens=4096",
    '{"max_tokens": 512, "next_page_token": "abc123def", "primary_key": "id"}',
    "task-management, risk-adjusted returns, desk-organisation",
    "the key: value pairs of a dictionary, sort_key=name",
    "password reset, secret santa, token ring, API key rotation",
    "basically, the keyboard and the monkey",
    "put the secret `DEPLOY_TOKEN` into the repository, and the `api_key` `name` beside it",
    "<token>word</token> <key>CFBundleName</key> <password/> <secret>{{ value }}</secret>",
    "curl https://host | sort -u a:b; docker run -u 1000:1000 image",
    'curl -u "$NAME:$WORD" https://host',
]


@pytest.mark.parametrize(("text", "secret"), CREDENTIALS)
def test_a_credential_is_masked(text: str, secret: str) -> None:
    redacted = default_redact(text)
    assert secret not in redacted
    assert MASK in redacted


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_not_damaged(text: str) -> None:
    assert default_redact(text) == text


def test_masking_keeps_json_readable() -> None:
    text = json.dumps({"api_key": "FAKEVALUE", "authorization": "Bearer FAKETOKEN123", "rest": [1]})
    assert json.loads(default_redact(text)) == {
        "api_key": MASK,
        "authorization": f"Bearer {MASK}",
        "rest": [1],
    }


PIECES = st.sampled_from(
    [text for text, _ in CREDENTIALS]
    + PROSE
    + [
        MASK,
        " ",
        "\n",
        '"',
        "'",
        "\\",
        "=",
        ":",
        "authorization",
        "api_key",
        "Bearer ",
        "Basic ",
        "sk-FAKEFAKE1",
    ]
)


@given(st.lists(PIECES | st.text(max_size=12), max_size=12).map("".join))
def test_redaction_is_idempotent(text: str) -> None:
    once = default_redact(text)
    assert default_redact(once) == once
    assert find_secrets(once) == []


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "key ",
        'key="',
        "key=\\'",
        "password: ",
        "authorization: x=y,",
        "eyJ-",
        "sk-",
        "://",
        "-",
        "\\",
        "Basic ",
    ],
)
def test_a_long_text_without_an_end_to_its_credential_takes_no_quadratic_time(piece: str) -> None:
    text = piece * 100_000  # quadratic work would take minutes here
    redacted = default_redact(text)
    assert default_redact(redacted) == redacted


def test_values_of_credential_names_are_masked_in_trees() -> None:
    value = {
        "headers": {
            "x-api-key": "plainvalue",
            "Authorization": "Bearer FAKETOKEN123",
            "accept": "text/plain",
        },
        "args": {"password": "hunter", "user": "ada", "tokens": 3},
        "list": [{"client_secret": "x y"}],
    }
    redaction = Redactor().redact(value, "request")
    assert redaction.value == {
        "headers": {"x-api-key": MASK, "Authorization": f"Bearer {MASK}", "accept": "text/plain"},
        "args": {"password": MASK, "user": "ada", "tokens": 3},
        "list": [{"client_secret": MASK}],
    }
    assert [(place.path, place.rule) for place in redaction.masked] == [
        ("request.headers.x-api-key", "api-key-value"),
        ("request.headers.Authorization", "bearer-token"),
        ("request.args.password", "password-value"),
        ("request.list[0].client_secret", "password-value"),
    ]


def test_a_clean_value_is_not_copied() -> None:
    value = {"messages": [{"role": "user", "parts": [{"type": "text", "text": "hello"}]}]}
    redaction = Redactor().redact(value)
    assert redaction.value is value
    assert redaction.masked == ()


def test_keys_are_masked_and_stay_apart() -> None:
    value = {"sk-FAKEFAKE1": 1, "sk-FAKEFAKE2": 2}
    redaction = Redactor().redact(value)
    assert redaction.value == {MASK: 1, f"{MASK} 2": 2}
    assert all("FAKE" not in place.path for place in redaction.masked)


def test_the_hook_runs_first_and_the_policy_over_its_output() -> None:
    redactor = Redactor(lambda text: text.replace("acme", "sk-FAKEFAKEFAKE"))
    redaction = redactor.redact({"text": "ask acme"}, "request")
    assert redaction.value == {"text": f"ask {MASK}"}
    assert [place.rule for place in redaction.masked] == ["custom", "provider-key"]


def test_the_hook_masks_keys_that_people_write_and_none_of_the_formats() -> None:
    redactor = Redactor(lambda text: re.sub(r"\d|input|anna", "#", text))
    usage = {"inputTokens": 5, "cacheWriteTokens": 2, "cacheWrite5mTokens": 2}
    event = {"type": "finish", "usage": usage, "providerMetadata": {"anna@host": {"room": "7"}}}
    redaction = redactor.redact_events([event])
    assert redaction.value == [{**event, "providerMetadata": {"#@host": {"room": "#"}}}]
    assert [place.rule for place in redaction.masked] == ["custom", "custom"]


def hook_that_fails(text: str) -> str:
    raise RuntimeError("no")


@pytest.mark.parametrize("hook", [hook_that_fails, lambda text: None])
def test_a_broken_hook_is_a_config_error(hook: Any) -> None:
    with pytest.raises(ConfigError, match="redact"):
        Redactor(hook).redact({"a": "text"})


def test_a_hook_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match="redact"):
        Redactor("mask")  # type: ignore[arg-type]


def test_the_hook_masks_a_text_once_however_many_pieces_it_comes_in() -> None:
    def pseudonym(text: str) -> str:
        return re.sub(r"user-(\w+)", lambda match: f"user-{match[1][::-1]}x", text)

    pieces = [{"type": "text-delta", "text": text} for text in ("hi user-ann, ", "hi us", "er-bob")]
    redacted = Redactor(pseudonym).redact_events(pieces).value
    assert "".join(event["text"] for event in redacted) == "hi user-nnax, hi user-bobx"
    assert Redactor(pseudonym).redact_events(pieces[:1]).value[0]["text"] == "hi user-nnax, "


@pytest.mark.parametrize(
    ("pieces", "redacted"),
    [
        (["use sk-FAKEFAKEFAKE", "FAKE1", " now"], f"use {MASK} now"),
        (["x", "Bearer FAKETOKEN1 ", "api_", "key=FAKE2."], f"xBearer {MASK} api_key={MASK}"),
        (["ann: x", "Bearer FAKETOKEN1", " of a", "nn"], f"#: xBearer {MASK} of #"),
    ],
)
def test_what_is_masked_in_a_piece_or_in_the_whole_is_masked(pieces: list[str], redacted: str) -> None:
    events = [{"type": "text-delta", "text": piece} for piece in pieces]
    made = Redactor(lambda text: text.replace("ann", "#")).redact_events(events)
    assert "".join(event["text"] for event in made.value) == redacted
    assert made.masked
    assert Redactor(lambda text: text.replace("ann", "#")).redact_events(made.value).value == made.value


def test_a_credential_cut_in_two_by_the_stream_is_masked() -> None:
    events = [
        {"type": "text-delta", "text": "use sk-FA"},
        {"type": "reasoning-delta", "text": "hm"},
        {"type": "text-delta", "text": "KEFAKEFAKE now"},
    ]
    redaction = Redactor().redact_events(events)
    assert "".join(e["text"] for e in redaction.value if e["type"] == "text-delta") == f"use {MASK} now"
    assert redaction.value[1] == events[1]
    assert redaction.masked[0].path == "events[0].text"


def test_arguments_cut_in_two_are_masked_per_call() -> None:
    events = [
        {"type": "tool-call-delta", "id": "a", "argsTextDelta": '{"password":'},
        {"type": "tool-call-delta", "id": "b", "argsTextDelta": '{"q":'},
        {"type": "tool-call-delta", "id": "a", "argsTextDelta": '"hunter"}'},
        {"type": "tool-call-delta", "id": "b", "argsTextDelta": '"x"}'},
    ]
    redacted = Redactor().redact_events(events).value
    joined = "".join(e["argsTextDelta"] for e in redacted if e["id"] == "a")
    assert json.loads(joined) == {"password": MASK}
    assert [e for e in redacted if e["id"] == "b"] == [events[1], events[3]]


ENCODED = b64encode(b"sk-proj-abcdefghijkl1234").decode()


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Cookie: session=abc123; theme=dark", "Cookie: session=[REDACTED]; theme=[REDACTED]"),
        (
            "Set-Cookie: sid=s%3Aab.cd; Path=/; HttpOnly; Secure",
            "Set-Cookie: sid=[REDACTED]; Path=/; HttpOnly; Secure",
        ),
        ('{"cookie": "sid=ab12"}', '{"cookie": "sid=[REDACTED]"}'),
        (
            "https://a.example/f?sv=2022-11-02&sr=b&sig=abcDEF%2Bxyz1%3D&se=2026",
            "https://a.example/f?sv=2022-11-02&sr=b&sig=[REDACTED]&se=2026",
        ),
        (
            "https://s.example/k?X-Amz-Expires=9&X-Amz-Signature=0123456789abcdef",
            "https://s.example/k?X-Amz-Expires=9&X-Amz-Signature=[REDACTED]",
        ),
        (f"wrapped {ENCODED} here", "wrapped [REDACTED] here"),
        (f'{{"data": "{b64encode(ENCODED.encode()).decode()}"}}', '{"data": "[REDACTED]"}'),
    ],
)
def test_cookies_signatures_and_keys_in_base64_are_masked(text: str, masked: str) -> None:
    assert default_redact(text) == masked
    assert default_redact(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the cookie: a tasty thing", "Cookie jar: full", "sig=night falls softly", "signature=required",
        "a design: signal=strong", b64encode(b"hello world, this is fine").decode(), "deadbeef" * 8,
    ],
)  # fmt: skip
def test_what_only_looks_like_a_cookie_a_signature_or_a_wrapped_key_is_left_alone(text: str) -> None:
    assert default_redact(text) == text
