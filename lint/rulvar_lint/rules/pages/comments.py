"""RLV0xx: files that do not parse, and comments that ask the lint to be quiet."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

TITLE: Final = "Files and suppression comments"
INTRO: Final = """A finding is suppressed by a comment on its line, with a reason:

    value = time.time()  # rulvar: ignore[RLV101] only feeds a metric

Several codes are separated by commas. `# rulvar: ignore-file[RLV113]` speaks for the whole file,
`# noqa: RLV101` works too (ruff then needs `lint.external = ["RLV"]`). A comment without codes
suppresses every rule. In a helper, a comment at the source also ends what callers would be told.
`# rulvar: deterministic` on a `def` says that calls of the function may be trusted."""

RULES: Final = (
    RuleInfo(
        code="RLV001",
        name="syntax-error",
        severity="error",
        fix="none",
        family="comments",
        summary="A file does not parse.",
        advice="fix the syntax",
        why=(
            "Nothing in the file can be checked, and a worker that imports it dies. Other files "
            "are checked all the same."
        ),
        bad=(
            "from rulvar import workflow\n\n\n@workflow\nasync def broken(ctx, args)  # RLV001\n   "
            " return 1\n"
        ),
        good=("from rulvar import workflow\n\n\n@workflow\nasync def works(ctx, args):\n    return 1\n"),
        suppress="It cannot be suppressed by a comment; exclude the file in the configuration.",
    ),
    RuleInfo(
        code="RLV002",
        name="unused-suppression",
        severity="warning",
        fix="safe",
        family="comments",
        summary="A suppression comment has nothing to suppress.",
        advice="remove it",
        why="A comment that outlives its reason hides the next real finding on that line.",
        bad=(
            "from rulvar import Ctx, workflow\n\n\n@workflow\nasync def total(ctx: Ctx, args: "
            "dict):\n"
            "    return 1 + 1  # rulvar: ignore[RLV102] was random once  # RLV002\n"
        ),
        good=(
            "from rulvar import Ctx, workflow\n\n\n@workflow\nasync def total(ctx: Ctx, args: "
            "dict):\n    return 1 + 1\n"
        ),
        suppress=("Remove the comment instead. Codes of rules that are switched off are not reported."),
    ),
    RuleInfo(
        code="RLV003",
        name="unknown-rule-in-suppression",
        severity="warning",
        fix="manual",
        family="comments",
        summary="A suppression comment names a rule that does not exist.",
        advice="correct the code",
        why=(
            "A mistyped code suppresses nothing, so the finding stays, and a reader believes it "
            "was considered."
        ),
        bad=(
            "import time\n\nfrom rulvar import Ctx, workflow\n\n\n@workflow\nasync def "
            "metric(ctx: Ctx, args: dict):\n"
            "    return time.time()  # rulvar: ignore[RLV1O1] only a metric  # RLV003 RLV101\n"
        ),
        good=(
            "import time\n\nfrom rulvar import Ctx, workflow\n\n\n@workflow\nasync def "
            "metric(ctx: Ctx, args: dict):\n"
            "    return time.time()  # rulvar: ignore[RLV101] only a metric\n"
        ),
        suppress="Correct the code instead.",
    ),
)
