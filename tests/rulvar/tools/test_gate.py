"""The gate decides before a tool acts."""

from __future__ import annotations

import pytest

from rulvar import Decision, Permissions, evaluate_permission, tool, workflow
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine, fake_tool_calls


@tool(risk="exec")
def shell(command: str) -> str:
    """Run a command line."""
    return f"ran {command}"


@tool(risk="read")
def look(path: str) -> str:
    """Look at a file."""
    return path


@tool(risk="destructive")
def wipe() -> str:
    """Delete everything."""
    return "gone"


@tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


@tool(command="line")
def run_line(line: list[str]) -> str:
    """Run words."""
    return " ".join(line)


async def verdict(permissions, named, args=None):
    return (await evaluate_permission(permissions, named, args)).verdict


async def test_deny_comes_before_ask_and_ask_before_allow():
    rules = {"deny": ["wipe"], "ask": ["wipe", "look"], "allow": ["*"]}
    assert await verdict(rules, wipe) == "deny"
    assert await verdict(rules, look) == "ask"
    assert await verdict(rules, pay) == "allow"  # a rule clears what needs approval
    assert await verdict(None, pay) == "ask"
    assert await verdict({"default": "deny"}, pay) == "deny"


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("strict", {"look": "allow", "shell": "ask", "wipe": "deny", "pay": "ask"}),
        ("standard", {"look": "allow", "shell": "ask", "wipe": "ask", "pay": "ask"}),
        ("open", {"look": "allow", "shell": "allow", "wipe": "allow", "pay": "ask"}),
    ],
)
async def test_a_preset_judges_tools_by_their_risk(preset, expected):
    assert {named.name: await verdict(preset, named, {}) for named in (look, shell, wipe, pay)} == expected


async def test_own_rules_come_on_top_of_a_preset():
    rules = {"preset": "strict", "allow": ["shell(git log *)"]}
    assert await verdict(rules, shell, {"command": "git log -1"}) == "allow"
    assert await verdict(rules, shell, {"command": "git push"}) == "ask"
    assert await verdict(rules, wipe) == "deny"


async def test_a_command_line_runs_only_when_each_of_its_commands_is_allowed():
    rules = {"allow": ["shell(git log **)", "shell(ls *)"], "deny": ["shell(rm **)"]}
    assert await verdict(rules, shell, {"command": "git log -1 && ls a"}) == "allow"
    assert await verdict(rules, shell, {"command": "git log -1 && curl x"}) == "ask"
    assert await verdict(rules, shell, {"command": "git log -1; rm -r /"}) == "deny"
    assert await verdict(rules, shell, {"command": "git log $(rm x)"}) == "ask"


async def test_a_general_allow_rule_does_not_let_through_what_the_rules_for_lines_leave_open():
    rules = {"allow": ["*", "shell(ls *)"], "default": "allow"}
    assert await verdict(rules, shell, {"command": "curl x"}) == "ask"


async def test_words_that_reach_no_shell_are_matched_as_they_are():
    rules = {"allow": ["run_line(echo *)"]}
    assert await verdict(rules, run_line, {"line": ["echo", "a; rm b"]}) == "allow"


async def test_a_rule_on_a_command_line_needs_an_argument_that_holds_one():
    with pytest.raises(ConfigError, match="look"):
        await evaluate_permission({"deny": ["look(rm *)"]}, look, {"path": "x"})


async def test_hooks_decide_before_any_rule_and_can_use_tool_after_all_of_them():
    seen = []

    async def hook(request):
        seen.append((request.tool.name, request.dry_run))
        return "deny" if request.args.get("path") == "/secret" else None

    rules = Permissions(
        hooks=(hook,), ask=("wipe",), can_use_tool=lambda request: Decision("deny", "me", "not today")
    )
    assert await evaluate_permission(rules, look, {"path": "/secret"}) == Decision("deny", "hook")
    assert await evaluate_permission(rules, wipe) == Decision("ask", "ask")
    assert await evaluate_permission(rules, look, {"path": "/"}) == Decision(
        "deny", "can_use_tool", "not today"
    )
    assert seen == [("look", True), ("wipe", True), ("look", True)]


async def test_a_check_that_raises_or_says_nonsense_denies_and_keeps_its_text():
    def broken(request):
        raise RuntimeError("password is hunter2")

    for answer in (broken, lambda request: "maybe", lambda request: True):
        decision = await evaluate_permission({"can_use_tool": answer}, look, {"path": "x"})
        assert decision.verdict == "deny"
        assert "hunter2" not in (decision.reason or "")


async def test_a_check_cannot_change_the_arguments():
    args = {"path": "a"}
    await evaluate_permission({"hooks": [lambda request: request.args.update(path="b")]}, look, args)
    assert args == {"path": "a"}


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"allows": []}, "permissions.allows"),
        ({"deny": "wipe"}, "permissions.deny"),
        ({"deny": [3]}, "permissions.deny[0]"),
        ({"deny": ["a", "b("]}, "permissions.deny[1]"),
        ({"deny": [{"risk": "big"}]}, "permissions.deny[0].risk"),
        ({"default": "maybe"}, "permissions.default"),
        ({"preset": "lax"}, "permissions.preset"),
        ({"hooks": ["x"]}, "permissions.hooks"),
        ({"can_use_tool": 1}, "permissions.can_use_tool"),
        ("lax", "permissions.preset"),
        (7, "permissions"),
    ],
)
def test_wrong_permissions_are_refused_before_anything_runs(rules, field):
    with pytest.raises(ConfigError) as caught:
        create_test_engine(agents={}, permissions=rules)
    assert caught.value.data["field"] == field


async def test_the_model_is_told_of_a_denied_call_and_goes_on():
    @workflow(name="w")
    async def work(ctx, args):
        return await ctx.agent("go", tools=[shell])

    def model(call):
        results = [
            part for message in call.req.messages for part in message.parts if part.type == "tool-result"
        ]
        if results:
            return str(results[0].result)
        return fake_tool_calls(name="shell", args={"command": "rm x"})

    engine = create_test_engine(agents={"*": model}, permissions={"deny": ["shell(rm *)"]})
    outcome = await engine.run(work).result()
    assert "denied by a rule" in outcome.value


@tool(risk="network")
def fetch(url: str) -> str:
    """Fetch a page."""
    return url


@tool
def plain() -> str:
    """Declare nothing."""
    return ""


@tool(risk="read", needs_approval=True)
def secret() -> str:
    """Read what is not everybody's."""
    return ""


async def test_the_standard_preset_asks_for_what_reaches_further_or_does_not_say():
    assert await verdict("standard", fetch, {"url": "x"}) == "ask"
    assert await verdict("standard", plain, {}) == "ask"
    assert await verdict({"ask": [{"risk": "undeclared"}]}, plain, {}) == "ask"
    assert await verdict({"ask": [{"risk": "undeclared"}]}, look, {"path": "x"}) == "allow"


@pytest.mark.parametrize("preset", ["strict", "standard", "open"])
async def test_no_preset_clears_a_tool_that_needs_approval(preset):
    assert await verdict(preset, secret, {}) == "ask"


async def test_a_rule_by_risk_does_not_clear_a_tool_that_needs_approval_and_one_by_name_does():
    assert await verdict({"allow": [{"risk": "read"}]}, secret, {}) == "ask"
    assert await verdict({"allow": ["secret"]}, secret, {}) == "allow"


async def test_rules_that_only_deny_or_ask_for_lines_leave_the_others_to_the_rest():
    rules = {"deny": ["shell(rm **)"], "ask": ["shell(git push **)"]}
    assert await verdict(rules, shell, {"command": "ls -la"}) == "allow"
    assert await verdict(rules, shell, {"command": "ls; git push"}) == "ask"
    assert await verdict(rules, shell, {"command": "ls <<X"}) == "ask"
    assert await verdict({**rules, "default": "deny"}, shell, {"command": "ls"}) == "deny"
    assert await verdict({**rules, "preset": "standard"}, shell, {"command": "ls"}) == "ask"


def test_both_words_for_running_programs_are_one_risk():
    @tool(risk="execute")
    def start() -> str:
        """Start a program."""
        return ""

    assert start.risk == shell.risk == "execute"


async def test_a_rule_finds_a_tool_that_runs_programs_under_either_word():
    assert await verdict({"deny": [{"risk": "exec"}]}, shell, {"command": "x"}) == "deny"
    assert await verdict({"deny": [{"risk": "execute"}]}, shell, {"command": "x"}) == "deny"
