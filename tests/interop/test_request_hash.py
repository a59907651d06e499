"""Every request hashes to what the original computes."""

import base64
from typing import Any

import pytest

from rulvar.contracts.canonical import canonical_json, decode_json, hash_canonical
from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.request_hash import hashed_request, request_hash
from rulvar.errors import ConfigError


def read_request(case: dict[str, Any]) -> Any:
    request = decode_json(case["request_json"])
    for path in case.get("bytes_paths", []):
        owner = request
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = base64.b64decode(owner[path[-1]])
    return request


def test_every_request_has_the_recorded_hash(load_vectors: Any) -> None:
    wrong = []
    for case in load_vectors("request_hash.json")["cases"]:
        request = read_request(case)
        if "throws" in case:
            with pytest.raises(ConfigError):
                request_hash(request)
        elif request_hash(request) != case["hash"]:
            wrong.append(case["name"])
    assert wrong == []


def test_every_request_has_the_recorded_canonical_text(load_vectors: Any) -> None:
    for case in load_vectors("request_hash.json")["cases"]:
        if "canonical" in case:
            canonical = canonical_json(hashed_request(read_request(case)), lenient=True)
            # a lone surrogate stands as itself in the vector's text, as an escape in the bytes
            assert canonical.decode() == case["canonical"].encode("utf-16", "surrogatepass").decode(
                "utf-16", "surrogatepass"
            ), case["name"]


def test_a_typed_request_hashes_like_its_json_object(load_vectors: Any, is_own_set: bool) -> None:
    typed = 0
    for case in load_vectors("request_hash.json")["cases"]:
        wire = read_request(case)
        try:
            request = ChatRequest.from_wire(wire)
        except ConfigError:
            continue
        typed += 1
        assert request_hash(request) == hash_canonical(hashed_request(request), lenient=True), case["name"]
        if request.to_wire() == wire and "hash" in case:
            assert request_hash(request) == case["hash"], case["name"]
    assert typed > 100 or not is_own_set
