"""Values that a name marks as credentials."""

from __future__ import annotations

import pytest

from rulvar.contracts.redaction import MASK, default_redact


@pytest.mark.parametrize("text", ['apiKey"FAKEVALUE', "apikey'FAKEVALUE9", 'authorization "FAKEVALUE'])
def test_a_value_behind_a_lone_quote_is_masked(text: str) -> None:
    assert "FAKE" not in default_redact(text)
    assert MASK in default_redact(text)


@pytest.mark.parametrize(
    "text",
    ["the field 'api_key' is missing", 'config["apiKey"].Value1', 'read "apikey"s of all', "`API_KEY`s are"],
)
def test_a_name_in_quotes_is_no_name_of_the_word_behind_it(text: str) -> None:
    assert default_redact(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("api_key=[REDACTED]w8Kq2", "api_key=[REDACTED]"),
        ('"x-api-key": "[REDACTED]-w8Kq2"', '"x-api-key": "[REDACTED]"'),
        ("api_key: w8Kq}2xT}", "api_key: [REDACTED]}"),
        ("{api_key: w8Kq2}, {b: 1}", "{api_key: [REDACTED]}, {b: 1}"),
        ("api_key={key}. Then go on", "api_key=[REDACTED]}. Then go on"),
        ('authorization="w8Kq2 and [REDACTED]"', 'authorization="[REDACTED] and [REDACTED]"'),
        ('authorization="Bearer [REDACTED]"', 'authorization="Bearer [REDACTED]"'),
        ('{"Authorization": "Basic <user>:<password>"}.', '{"Authorization": "[REDACTED]"}.'),
        ("api_key=Bearer w8Kq2xT0zz", "api_key=Bearer [REDACTED]"),
    ],
)
def test_what_stands_beside_a_mask_or_a_brace_is_part_of_the_value(text: str, masked: str) -> None:
    assert default_redact(text) == masked
    assert default_redact(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "api_key=w8Kq2;Authorization: zR41p",
        "token=w8Kq2;password: zR41p",
        'x-api-key w8Kq2;api_key="zR41p"',
        "apiKey='w8Kq2\nauthorization': 'zR41p'",
    ],
)
def test_a_name_behind_a_masked_value_has_its_own_value_masked(text: str) -> None:
    redacted = default_redact(text)
    assert "w8Kq2" not in redacted
    assert "zR41p" not in redacted
    assert default_redact(redacted) == redacted
