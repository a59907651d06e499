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
