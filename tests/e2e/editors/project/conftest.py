"""Reports what a replay of `flow.py` would: the first call is served, the second was edited."""

import contextlib
import hashlib
import json
import pathlib
import time

import pytest

RUNS = []


def pytest_addoption(parser):
    for option in ("--rulvar-replay", "--rulvar-report"):
        with contextlib.suppress(ValueError):  # rulvar's own plugin has it
            parser.addoption(option)


def pytest_runtest_logreport(report):
    if report.when == "call":
        RUNS.append(report)


def site(lines, first, last):
    body = "\n".join(line.strip() for line in lines[first - 1 : last])
    return {
        "file": "flow.py",
        "line": first,
        "column": lines[first - 1].index("ctx.") + 1,
        "endLine": last,
        "endColumn": lines[last - 1].rindex(")") + 2,
        "function": "triage",
        "digest": hashlib.sha256(body.encode()).hexdigest()[:16],
    }


def calls(root):
    lines = (root / "flow.py").read_text("utf-8").split("\n")
    first = next(n for n, line in enumerate(lines, 1) if 'label="classify"' in line)
    second = next(n for n, line in enumerate(lines, 1) if line.endswith("ctx.agent("))
    common = {"kind": "agent", "adapter": "anthropic", "model": "claude-test", "scope": ""}
    return [
        {
            **common,
            "served": "hit",
            "site": site(lines, first, first),
            "label": "classify",
            "requestHash": "3f9ac2" + "7" * 58,
            "occurrence": 0,
            "occurrences": 1,
            "cassette": "cassettes/triage.jsonl",
            "row": 2,
            "usage": {"inputTokens": 412, "outputTokens": 9},
            "costUsd": 0.001371,
        },
        {
            **common,
            "served": "miss",
            "site": site(lines, second, second + 3),
            "label": "draft",
            "requestHash": "81b0d4" + "7" * 58,
            "nearest": {
                "cassette": "cassettes/triage.jsonl",
                "row": 3,
                "requestHash": "c04e1f" + "7" * 58,
                "distance": 0.08,
                "differences": [
                    {
                        "path": "messages[0].parts[0].text",
                        "recorded": "Draft an answer to a bug ticket",
                        "actual": "Draft a short answer to a bug ticket",
                    }
                ],
            },
        },
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    target = session.config.getoption("--rulvar-report")
    if not target:
        return
    root = pathlib.Path(str(session.config.rootpath))
    now = time.time()
    body = {
        "v": 1,
        "kind": "rulvar-replay-report",
        "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f"{now % 1:.3f}Z"[1:],
        "root": str(root),
        "mode": "strict",
        "tests": [
            {
                "nodeId": run.nodeid,
                "file": run.nodeid.partition("::")[0],
                "line": run.location[1] + 1,
                "outcome": run.outcome,
                "durationMs": run.duration * 1000,
                "message": "JournalMissError: draft was not recorded" if run.failed else None,
                "cassettes": [{"path": "cassettes/triage.jsonl", "rows": 2, "served": [2], "unused": [3]}],
                "calls": calls(root)[: 2 if run.failed else 1],
            }
            for run in RUNS
        ],
    }
    temporary = pathlib.Path(target + ".new")
    temporary.write_text(json.dumps(body))
    temporary.replace(target)
