"""Recorded truth in a real server: hints, hovers, lenses, misses and what is stale."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Start = Callable[..., Any]


def test_hits_and_misses_stand_beside_their_calls(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    hints = client.hints(uri)
    assert [(h["position"], h["label"]) for h in hints] == [
        ({"line": 8, "character": 73}, "hit 3f9ac2 #0"),
        ({"line": 12, "character": 5}, "miss 81b0d4"),
    ]


def test_only_the_asked_lines_get_hints(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    hints = client.request("textDocument/inlayHint", {**client.doc(uri), "range": client.range(0, 0, 9, 0)})
    assert [h["label"] for h in hints] == ["hit 3f9ac2 #0"]


def test_a_hints_tooltip_is_resolved(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    hint = client.request("inlayHint/resolve", client.hints(uri)[0])
    assert "row 2 of triage.jsonl" in hint["tooltip"]["value"]
    assert "1,200 in, 34 out" in hint["tooltip"]["value"]


def test_a_miss_explains_itself_in_hover_and_diagnostic(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    miss = next(d for d in client.diagnostics(uri) if d["code"] == "replay-miss")
    assert miss["range"] == client.range(9, 19, 9, 28)
    assert "nearest is row 3, which differs in messages[1].parts[0].text" in miss["message"]
    assert [r["message"] for r in miss["relatedInformation"]] == [
        "nearest recorded row aabbcc",
        'messages[1].parts[0].text: recorded "Draft a reply", now "Draft an answer"',
    ]
    place = miss["relatedInformation"][0]["location"]
    assert place["uri"] == client.uri("cassettes/triage.jsonl")
    assert place["range"]["start"]["line"] == 2
    text = client.request("textDocument/hover", client.at(uri, 10, 12))["contents"]["value"]
    assert '- "Draft a reply"\n+ "Draft an answer"' in text


def test_from_a_call_one_goes_to_its_row(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    place = client.request("textDocument/definition", client.at(uri, 8, 30))
    assert [(p["uri"], p["range"]["start"]["line"]) for p in place] == [
        (client.uri("cassettes/triage.jsonl"), 1)
    ]


def test_a_changed_call_is_stale_and_its_miss_is_no_diagnostic(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    client.change(uri, 2, (10, 9, 10, 14, "Write"))
    assert {d["code"] for d in client.diagnostics(uri, 2)} == {"RLV101"}
    assert [h["label"] for h in client.hints(uri)] == ["hit 3f9ac2 #0", "stale: miss 81b0d4"]
    text = client.request("textDocument/hover", client.at(uri, 10, 12))["contents"]["value"]
    assert text.startswith("**stale**")


def test_calls_are_followed_when_lines_move(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    client.change(uri, 2, (0, 0, 0, 0, "# one\n# two\n"))
    client.diagnostics(uri, 2)
    assert [(h["position"]["line"], h["label"]) for h in client.hints(uri)] == [
        (10, "hit 3f9ac2 #0"),
        (14, "miss 81b0d4"),
    ]


def test_a_deleted_call_takes_its_hint_along(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    client.change(uri, 2, (8, 0, 9, 0, "    kind = 'x'\n"))
    client.diagnostics(uri, 2)
    assert [h["label"] for h in client.hints(uri)] == ["miss 81b0d4"]


def test_a_report_that_appears_later_is_noticed_without_a_watching_client(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    assert {d["code"] for d in client.diagnostics(uri)} == {"RLV101"}
    project.report(project.test())
    client.wait("workspace/inlayHint/refresh")
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: any(d["code"] == "replay-miss" for d in p["diagnostics"]),
    )
    assert len(client.hints(uri)) == 2


def test_a_pulling_client_is_asked_to_pull_again(lsp: Start, project: Any, pull_capabilities: Any) -> None:
    client = lsp(project.root)
    offered = client.initialize(pull_capabilities)["capabilities"]["diagnosticProvider"]
    assert offered["interFileDependencies"] is True
    uri = client.open("flow.py")
    first = client.request("textDocument/diagnostic", client.doc(uri))
    assert {d["code"] for d in first["items"]} == {"RLV101"}
    again = client.request(
        "textDocument/diagnostic", {**client.doc(uri), "previousResultId": first["resultId"]}
    )
    assert again == {"kind": "unchanged", "resultId": first["resultId"]}
    project.report(project.test())
    client.wait("workspace/diagnostic/refresh")
    now = client.request(
        "textDocument/diagnostic", {**client.doc(uri), "previousResultId": first["resultId"]}
    )
    assert {d["code"] for d in now["items"]} == {"RLV101", "replay-miss"}
    assert client.messages("textDocument/publishDiagnostics") == []


def test_a_cassette_that_was_recorded_anew_makes_results_stale(lsp: Start, project: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    assert {d["code"] for d in client.diagnostics(uri)} == {"RLV101", "replay-miss"}
    client.seen.clear()
    time.sleep(0.01)
    project.write("cassettes/triage.jsonl", "{}\n" * 6)
    client.wait("workspace/inlayHint/refresh")
    assert [h["label"] for h in client.hints(uri)] == [
        "stale: hit 3f9ac2 #0",
        "stale: miss 81b0d4",
    ]
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: [d["code"] for d in p["diagnostics"]] == ["RLV101"],
    )


def test_a_journal_replay_that_left_the_journal_is_a_diagnostic_on_the_call(lsp: Start, project: Any) -> None:
    divergence = {
        "site": project.site(9),
        "kind": "agent",
        "scope": "",
        "label": "classify",
        "reason": "the prompt was reworded",
        "differences": [{"path": "prompt", "recorded": "a", "actual": "b"}],
    }
    replay = {"runId": "r", "workflow": "triage", "status": "error", "divergence": divergence}
    project.report(project.test(calls=[], replays=[replay]))
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    found = next(d for d in client.diagnostics(uri) if d["code"] == "replay-diverged")
    assert "the prompt was reworded" in found["message"]
    assert found["relatedInformation"][0]["message"] == 'prompt: recorded "a", now "b"'
    text = client.request("textDocument/hover", client.at(uri, 8, 30))["contents"]["value"]
    assert '- "a"\n+ "b"' in text


def test_nondeterminism_noticed_at_run_time_is_a_warning_until_the_file_changes(
    lsp: Start, project: Any
) -> None:
    noticed = [
        {"file": "flow.py", "line": line, "code": "clock", "message": "the clock was read"}
        for line in (8, 14)  # of line 8 the lint tells already
    ]
    project.report(project.test(calls=[], warnings=noticed))
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    found = next(d for d in client.diagnostics(uri) if d["code"] == "replay-unstable")
    assert found["range"]["start"] == {"line": 13, "character": 4}
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV101", "replay-unstable"]
    client.change(uri, 2, (0, 0, 0, 0, "\n"))
    assert [d["code"] for d in client.diagnostics(uri, 2)] == ["RLV101"]


def test_of_two_reports_of_a_test_the_newer_counts(lsp: Start, project: Any) -> None:
    hit = project.call("hit", project.site(9))
    miss = project.call("miss", project.site(9))
    project.report(project.test(calls=[miss]), name="a", created="2099-01-01T00:00:00.000Z")
    project.report(project.test(calls=[hit]), name="b", created="2099-01-02T00:00:00.000Z")
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    assert [h["label"] for h in client.hints(uri)] == ["hit 3f9ac2 #0"]


def test_a_bad_report_is_named_with_file_and_field_and_the_old_one_stays(lsp: Start, project: Any) -> None:
    path = project.report(project.test())
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    client.diagnostics(uri)
    assert len(client.hints(uri)) == 2
    project.report(project.test(line="four"))
    shown = client.wait(
        "textDocument/publishDiagnostics", lambda p: p["uri"] == path.as_uri() and p["diagnostics"]
    )
    assert f"{path}: tests[0].line: Expected `int`, got `str`" in shown["diagnostics"][0]["message"]
    assert len(client.hints(uri)) == 2
    project.report(project.test())
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: p["uri"] == path.as_uri() and not p["diagnostics"],
    )


def test_lenses_stand_on_tests_and_tell_their_last_run(lsp: Start, project: Any) -> None:
    project.report(project.test(outcome="failed", message="JournalMissError: no row"))
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")
    found = client.diagnostics(uri)
    assert [(d["code"], d["range"]["start"]) for d in found] == [
        ("replay-failed", {"line": 3, "character": 4})
    ]
    assert "JournalMissError: no row" in found[0]["message"]
    lenses = client.request("textDocument/codeLens", client.doc(uri))
    assert [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses] == [
        (3, "Run replay-strict"),
        (3, "failed: 1 hit, 1 miss"),
        (8, "Run replay-strict"),
    ]
    assert lenses[2]["command"]["arguments"] == [{"uri": uri, "test": "TestDraft::test_short"}]


def test_lenses_stay_while_the_file_does_not_parse(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")
    client.change(uri, 2, (4, 0, 4, 0, "    x = (1, '''\n\n"))
    lenses = client.request("textDocument/codeLens", client.doc(uri))
    assert [lens["range"]["start"]["line"] for lens in lenses][:1] == [3]
    client.change(uri, 3, (4, 0, 6, 0, "    x = (1,\n"))
    lenses = client.request("textDocument/codeLens", client.doc(uri))
    assert [lens["range"]["start"]["line"] for lens in lenses] == [3, 9]


def test_an_edited_test_no_longer_failed(lsp: Start, project: Any) -> None:
    project.report(project.test(outcome="failed", message="boom"))
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")
    assert len(client.diagnostics(uri)) == 1
    client.change(uri, 2, (4, 4, 4, 4, "assert 1; "))
    assert client.diagnostics(uri, 2) == []
    titles = [lens["command"]["title"] for lens in client.request("textDocument/codeLens", client.doc(uri))]
    assert "stale: failed: 1 hit, 1 miss" in titles


def test_a_result_belongs_to_the_lines_of_its_test_wherever_they_stand(
    lsp: Any, project: Any, digest_of: Any
) -> None:
    lines = (project.root / "test_flow.py").read_text().split("\n")
    extent = {"line": 4, "endLine": 5, "digest": digest_of(lines[3:5])}
    project.report(project.test(outcome="failed", message="AssertionError", **extent))
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")

    def titles() -> list[str]:
        found = client.request("textDocument/codeLens", client.doc(uri))
        return [x["command"]["title"] for x in found if x["command"]["command"] == "rulvar.showResult"]

    assert titles() == ["failed: 1 hit, 1 miss"]
    client.change(uri, 2, (0, 0, 0, 0, "# a line above\n\n"))
    assert titles() == ["failed: 1 hit, 1 miss"]
    assert [d["code"] for d in client.diagnostics(uri, 2)] == ["replay-failed"]
    client.change(uri, 3, (6, 4, 6, 4, "assert 1; "))
    assert titles() == ["stale: failed: 1 hit, 1 miss"]
    assert client.diagnostics(uri, 3) == []


def test_settings_switch_hints_and_lenses_off(lsp: Start, project: Any, push_capabilities: Any) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.settings = {"inlayHints": False, "codeLens": False}
    client.initialize(push_capabilities)
    client.wait("workspace/configuration")
    client.settle(0.2)
    uri = client.open("flow.py")
    assert not client.hints(uri)
    assert not client.request("textDocument/codeLens", client.doc(client.open("test_flow.py")))


def test_diagnostics_go_when_the_document_closes(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    assert client.diagnostics(uri)
    client.notify("textDocument/didClose", client.doc(uri))
    assert client.diagnostics(uri, None) == []


def test_each_spelling_of_a_uri_gets_its_own_back(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    odd = client.uri("flow.py").replace("flow", "%66low")
    client.notify(
        "textDocument/didOpen",
        {
            "textDocument": {
                "uri": odd,
                "languageId": "python",
                "version": 1,
                "text": (project.root / "flow.py").read_text(),
            }
        },
    )
    assert client.diagnostics(odd)
    assert client.request("textDocument/hover", client.at(client.uri("flow.py"), 7, 16))


def test_documents_of_other_schemes_and_languages_are_left_alone(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    text = (project.root / "flow.py").read_text()
    for uri, language in (
        ("git:/flow.py", "python"),
        ("vscode-notebook-cell:/n.ipynb#c", "python"),
        (client.uri("flow.toml"), "toml"),
    ):
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        client.notify("textDocument/didOpen", {"textDocument": item})
        assert client.request("textDocument/hover", client.at(uri, 7, 16)) is None
    client.settle(0.3)
    assert client.messages("textDocument/publishDiagnostics") == []


def test_a_configuration_that_cannot_be_used_is_named_until_it_is_mended(lsp: Start, project: Any) -> None:
    project.write("pyproject.toml", "[tool.rulvar.lint]\nbogus = 1\n")
    client = lsp(project.root)
    client.initialize()
    uri = client.open("flow.py")
    assert client.diagnostics(uri) == []
    target = client.uri("pyproject.toml")
    (fault,) = client.diagnostics(target, None)
    assert "bogus" in fault["message"]
    client.settle(1.5)
    time.sleep(0.02)
    project.write("pyproject.toml", "[project]\nname = 'x'\n")
    client.wait("textDocument/publishDiagnostics", lambda p: p["uri"] == target and not p["diagnostics"])
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: p["uri"] == uri and [d["code"] for d in p["diagnostics"]] == ["RLV101"],
    )


def test_a_file_without_a_project_is_looked_at_by_itself(lsp: Start, project: Any, tmp_path: Path) -> None:
    loose = tmp_path / "elsewhere" / "flow.py"
    loose.parent.mkdir()
    loose.write_text((project.root / "flow.py").read_text())
    client = lsp(project.root)
    client.initialize()
    item = {"uri": loose.as_uri(), "languageId": "python", "version": 1, "text": loose.read_text()}
    client.notify("textDocument/didOpen", {"textDocument": item})
    (clock,) = client.diagnostics(loose.as_uri())
    assert clock["code"] == "RLV101"
    assert {r["location"]["uri"] for r in clock.get("relatedInformation", [])} <= {loose.as_uri()}


def test_files_that_are_not_open_are_looked_at_where_that_is_switched_on(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    project.report(project.test())
    client = lsp(project.root)
    client.settings = {"workspaceDiagnostics": True}
    client.initialize(push_capabilities)
    closed = client.uri("flow.py")
    assert {d["code"] for d in client.diagnostics(closed, None)} == {"RLV101", "replay-miss"}
    client.seen.clear()
    client.open("flow.py")
    assert client.diagnostics(closed, None) == []
    assert {d["code"] for d in client.diagnostics(closed)} == {"RLV101", "replay-miss"}
    client.seen.clear()
    client.notify("textDocument/didClose", client.doc(closed))
    client.wait("textDocument/publishDiagnostics", lambda p: p["uri"] == closed and p["diagnostics"])
    client.settings = {"workspaceDiagnostics": False}
    client.seen.clear()
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    assert client.diagnostics(closed, None) == []


def test_an_unsaved_buffer_is_looked_at(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    item = {
        "uri": "untitled:Untitled-1",
        "languageId": "python",
        "version": 1,
        "text": (project.root / "flow.py").read_text(),
    }
    client.notify("textDocument/didOpen", {"textDocument": item})
    assert [d["code"] for d in client.diagnostics("untitled:Untitled-1")] == ["RLV101"]


FIXABLE = """from rulvar import Ctx, workflow


@workflow(name="w")
async def w(ctx: Ctx, args):
    ctx.step("é😋", lambda: 1)
    ctx.step("two", lambda: 2)
    return 1
"""


def test_a_fix_is_offered_and_fix_all_only_when_asked_for(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    client = lsp(project.root)
    client.initialize(push_capabilities)
    uri = client.open("fixable.py", FIXABLE)
    assert [d["code"] for d in client.diagnostics(uri)] == ["RLV301", "RLV301"]
    place = client.range(5, 8, 5, 8)
    offered = client.actions(uri, place)
    fix = next(a for a in offered if a.get("isPreferred"))
    assert (fix["kind"], fix["diagnostics"][0]["code"]) == ("quickfix", "RLV301")
    change = fix["edit"]["documentChanges"][0]
    assert change["textDocument"] == {"uri": uri, "version": 1}
    assert [e["newText"] for e in change["edits"]] == ["await "]
    assert change["edits"][0]["range"] == client.range(5, 4, 5, 4)
    assert "Ignore RLV301 on this line" in [a["title"] for a in offered]
    assert not any(a["kind"].startswith("source") for a in offered)
    (fix_all,) = client.actions(uri, place, only=["source.fixAll"])
    assert "edit" not in fix_all
    resolved = client.request("codeAction/resolve", fix_all)
    edits = resolved["edit"]["documentChanges"][0]["edits"]
    assert "".join(e["newText"] for e in edits).count("await ctx.step") == 2


def test_ignoring_adds_to_the_line_and_silences_the_finding(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("fixable.py", FIXABLE)
    client.diagnostics(uri)
    (ignore,) = [a for a in client.actions(uri, client.range(5, 8, 5, 8)) if "Ignore" in a["title"]]
    (edit,) = ignore["edit"]["documentChanges"][0]["edits"]
    start, end = edit["range"]["start"], edit["range"]["end"]
    client.change(uri, 2, (start["line"], start["character"], end["line"], end["character"], edit["newText"]))
    assert [d["range"]["start"]["line"] for d in client.diagnostics(uri, 2)] == [6]


def test_fix_all_is_refused_for_a_text_that_is_gone(lsp: Start, project: Any, push_capabilities: Any) -> None:
    client = lsp(project.root)
    client.initialize(push_capabilities)
    uri = client.open("fixable.py", FIXABLE)
    client.diagnostics(uri)
    (fix_all,) = client.actions(uri, client.range(0, 0, 0, 0), only=["source.fixAll.rulvar"])
    client.change(uri, 2, (0, 0, 0, 0, "\n"))
    client.diagnostics(uri, 2)
    assert client.error("codeAction/resolve", fix_all)["code"] == -32801


def test_running_is_never_a_quick_fix_nor_a_source_action(lsp: Start, project: Any) -> None:
    client = lsp(project.root)
    client.initialize()
    uri = client.open("test_flow.py")
    place = client.range(4, 6, 4, 6)
    for only in (["quickfix"], ["source"], ["source.fixAll"], ["refactor"]):
        assert client.actions(uri, place, only=only) == []
    (run,) = client.actions(uri, place)
    assert run["kind"] == "test"
    assert run["command"]["arguments"] == [{"uri": uri, "test": "test_replay"}]
    assert "edit" not in run


MACHINE = """from rulvar import StateMachine, transition


class Ticket(StateMachine):
    @transition(to="classified")
    async def classify(self, ctx): ...

    @transition(from_="classified", wait=True)
    async def approve(self, ctx, input): ...
"""


def test_a_state_machine_has_symbols_a_hover_and_a_diagram(
    lsp: Start, project: Any, push_capabilities: Any
) -> None:
    project.write("machine.py", MACHINE)
    client = lsp(project.root)
    client.initialize(push_capabilities)
    uri = client.open("machine.py")
    (symbol,) = client.request("textDocument/documentSymbol", client.doc(uri))
    assert (symbol["name"], [c["detail"] for c in symbol["children"]]) == (
        "Ticket",
        ["start → classified", "classified → end, waits"],
    )
    text = client.request("textDocument/hover", client.at(uri, 8, 18))["contents"]["value"]
    assert "waits until an answer arrives" in text
    (lens,) = client.request("textDocument/codeLens", client.doc(uri))
    command = {"command": lens["command"]["command"], "arguments": lens["command"]["arguments"]}
    mermaid = client.request("workspace/executeCommand", command)
    assert mermaid.startswith("stateDiagram-v2")
    shown = client.wait("window/showDocument")
    assert shown["uri"] == client.uri(".rulvar_cache/diagrams/Ticket.md")
    assert mermaid in (project.root / ".rulvar_cache/diagrams/Ticket.md").read_text()
    client.change(uri, 2, (5, 0, 5, 0, "    x = ("))
    assert len(client.request("textDocument/documentSymbol", client.doc(uri))) == 1
