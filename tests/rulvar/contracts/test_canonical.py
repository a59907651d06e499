"""Canonical JSON does not depend on the way that writes it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulvar.contracts.canonical import _write, canonical_json, decode_json
from rulvar.contracts.messages import ChatRequest, Msg, TextPart, ToolCallPart, ToolContract, ToolResultPart
from rulvar.contracts.request_hash import hashed_request, request_hash
from rulvar.errors import NonSerializableValueError

NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**54), 2**54).map(float)
    | st.sampled_from([0.0, -0.0, 1e-5, 1e-6, 1e-7, 1e15, 1e16, 1e21, 1e20, 2.0**53, 2**53, 0.1, 5e-324])
)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def exact(value: Any) -> bytes:
    out: list[str] = []
    _write(value, out, "$", 0, True)
    return "".join(out).encode("utf-8")


@given(VALUES)
def test_the_fast_way_writes_what_the_exact_one_does(value: Any) -> None:
    assert canonical_json(value) == exact(value)


@given(VALUES)
def test_writing_is_idempotent(value: Any) -> None:
    once = canonical_json(value)
    assert canonical_json(decode_json(once)) == once


REQUESTS = st.builds(
    lambda text, args, result, schema, options, hint: ChatRequest(
        model="m",
        messages=(
            Msg(role="user", parts=(TextPart(text=text), ToolCallPart(id="1", name="t", args=args))),
            Msg(role="tool", parts=(ToolResultPart(id="1", name="t", result=result),)),
        ),
        tools=(ToolContract(name="t", description=text, parameters=schema),),
        schema=schema,
        provider_options=options,
        cache_hint=hint,
    ),
    TEXTS,
    VALUES,
    VALUES,
    st.dictionaries(TEXTS, VALUES, max_size=2),
    st.none() | st.dictionaries(TEXTS | st.just("rulvar"), VALUES, max_size=2),
    VALUES,
)


@given(REQUESTS)
def test_a_typed_request_hashes_like_its_json_object(request_: ChatRequest) -> None:
    assert request_hash(request_) == request_hash(hashed_request(request_))
    assert request_hash(request_) == request_hash(request_.to_wire())


@pytest.mark.parametrize("levels", [500, 3000])
def test_a_request_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    with pytest.raises(NonSerializableValueError, match="deeper than 400 levels"):
        request_hash(ChatRequest(model="m", messages=(), schema=schema))


def test_a_refusal_in_the_depths_is_told_in_one_line() -> None:
    deep: Any = "bottom"
    for _ in range(1000):
        deep = {"a long name": deep}
    with pytest.raises(NonSerializableValueError) as refused:
        canonical_json(deep)
    assert len(str(refused.value)) < 300
    assert str(refused.value).endswith("nested deeper than 400 levels")
