"""The built-in redaction masks at least what the original masks."""

import re
from typing import Any

from scenario_language import check_words

from rulvar.contracts.redaction import MASK, default_redact

PROSE = re.compile(r"\b(?i:authorization|x-api-key|api[_-]?key)\s+([a-z]+)(?![\w=:-])")
"""A plain word behind a name is masked by the original, and is no credential: "authorization was granted"."""


NAMES = ("authorization", "x-api-key", "basic", "digest")
"""Names of headers and schemes: they may stay where the credential behind them is masked."""


def masked_words(before: str, after: str) -> set[str]:
    """The words of a text that a redaction took away."""
    kept = after.replace(MASK, " ")
    return {
        word for word in re.findall(r"[^\s\"'\\=:,;]{3,}", before) if word not in kept and MASK not in word
    }


def is_masking_of(before: str, after: str) -> bool:
    """Whether a text is another one with parts masked; a scheme before a mask is written ``Bearer``."""
    kept = after.split(MASK)
    pattern = "(?s:.+?)".join(re.escape(part) for part in kept)
    pattern = pattern.replace(r"Bearer\ (?s", r"(?i:bearer)[\s\ufeff]+(?s")
    return re.fullmatch(pattern, before) is not None


def test_every_case_says_what_the_original_makes_of_a_text(load_vectors: Any) -> None:
    for case in load_vectors("redact.json")["cases"]:
        check_words("a case of redaction", case, {"group", "name", "input", "output", "idempotent"})
        assert is_masking_of(case["input"], case["output"]), case["name"]
        ours = default_redact(case["input"])
        assert is_masking_of(case["input"], ours), (case["name"], ours)


def test_every_credential_that_the_original_masks_is_masked(load_vectors: Any) -> None:
    for case in load_vectors("redact.json")["cases"]:
        output = default_redact(case["input"])
        for word in masked_words(case["input"], case["output"]) - set(PROSE.findall(case["input"])):
            assert word not in output or word.lower() in NAMES, case["name"]


def test_a_text_with_a_credential_in_it_has_fewer_secret_characters(load_vectors: Any) -> None:
    for case in load_vectors("redact.json")["cases"]:
        if "FAKE" in case["input"] and "FAKE" not in case["output"]:
            assert "FAKE" not in default_redact(case["input"]), case["name"]


def test_prose_is_left_alone() -> None:
    text = "the authorization was granted yesterday"
    assert PROSE.findall(text) == ["was"]
    assert default_redact(text) == text


def test_redaction_is_idempotent_on_every_vector(load_vectors: Any) -> None:
    for case in load_vectors("redact.json")["cases"]:
        once = default_redact(case["input"])
        assert (default_redact(once) == once) is case["idempotent"], case["name"]
