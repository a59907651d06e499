"""`rulvar-lint` as a process: options, formats and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

FLOW = """import time

from rulvar import Ctx, workflow


@workflow
async def flow(ctx: Ctx, args: dict):
    print("start")
    ids = list({r["id"] for r in args["rows"]})
    return await ctx.agent(f"At {time.time()}", key=ids[0])
"""
HERE = "workflows/flow.py"


def run(
    root: Path,
    *args: str,
    given: str | bytes = "",
    cwd: Path | None = None,
    env: dict | None = None,
) -> subprocess.CompletedProcess[str]:
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        [sys.executable, "-m", "rulvar_lint", *args],
        cwd=cwd or root,
        input=data,
        capture_output=True,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        timeout=120,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workflows").mkdir()
    (tmp_path / HERE).write_text(FLOW)
    (tmp_path / "pyproject.toml").write_text("[tool.rulvar.lint]\n")
    return tmp_path


def lines(text: str) -> list[tuple[str, str]]:
    """(line number, code) of a concise report."""
    found = [line.split(":", 3) for line in text.splitlines() if ": RLV" in line]
    return [(parts[1], parts[3].split()[0]) for parts in found]


ALL = [("8", "RLV113"), ("9", "RLV201"), ("10", "RLV101")]


def test_findings_exit_with_1_and_a_clean_project_with_0(root: Path) -> None:
    found = run(root, "--output-format", "concise")
    assert (found.returncode, lines(found.stdout)) == (1, ALL)
    assert "Found 2 errors and 1 warning." in found.stdout
    (root / HERE).write_text(
        "from rulvar import workflow\n\n\n@workflow\nasync def f(ctx, a):\n    return 1\n"
    )
    clean = run(root)
    assert (clean.returncode, clean.stdout) == (0, "All checks passed.\n")


def test_check_is_the_default_command(root: Path) -> None:
    assert run(root, "check").stdout == run(root).stdout
    assert run(root, "check", HERE).returncode == 1


def test_the_full_report_shows_the_line_the_fix_and_the_page(root: Path) -> None:
    out = run(root).stdout
    assert '10 |     return await ctx.agent(f"At {time.time()}", key=ids[0])' in out
    assert "^^^^^^^^^^^ RLV101" in out
    assert "= fix: Use `ctx.time()`" in out
    assert "/rules/ambient.md#rlv101-wall-clock" in out
    assert "re-keys the call, which is paid again on every resume" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--select", "RLV9"], "unknown rule `RLV9`"),
        (["--select", "RLV1O1"], "did you mean RLV101?"),
        (["--output-format", "yaml"], "invalid choice"),
        (["--nonsense"], "unrecognized arguments"),
        (["nowhere.py"], "nowhere.py: no such file or folder"),
        (["--root", "nowhere"], "--root nowhere: no such folder"),
        (["-q", "explain", "a.py:1"], "write it first: rulvar-lint explain ..."),
        (["--output-file", "nowhere/x"], "--output-file nowhere/x: No such file or directory"),
        (["--per-file-ignores", "RLV101"], "expected GLOB:CODE"),
        (["rule"], "name a rule code, or use --all"),
        (["rule", "RLV1O1"], "did you mean RLV101?"),
        (["explain", "nowhere.py:3"], "nowhere.py: no such file"),
        (["identity-diff", "HEAD"], "expected BASE..HEAD"),
    ],
)
def test_wrong_use_exits_with_2_and_one_message(root: Path, args: list[str], said: str) -> None:
    done = run(root, *args)
    assert done.returncode == 2
    assert done.stderr.startswith("rulvar-lint: ")
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("selct = ['RLV1']", "[tool.rulvar.lint]: unknown key `selct`; did you mean `select`?"),
        ("select = 'RLV1'", "[tool.rulvar.lint] select: expected a list of strings"),
        ("ignore = ['RLV77']", "[tool.rulvar.lint] ignore: unknown rule `RLV77`"),
        ("respect-gitignore = 1", "[tool.rulvar.lint] respect-gitignore: expected true or false"),
        ("effects = {'a.b' = 'X'}", "effects.a.b: expected a rule code such as RLV105"),
        ("per-file-ignores = ['x']", "per-file-ignores: expected a table"),
        ("per-file-ignores = {'x' = 'RLV1'}", "expected a list of strings"),
        ("select = [", "pyproject.toml: "),
    ],
)
def test_a_wrong_configuration_names_the_file_and_the_key(root: Path, table: str, said: str) -> None:
    (root / "pyproject.toml").write_text(f"[tool.rulvar.lint]\n{table}\n")
    done = run(root)
    assert done.returncode == 2
    assert "pyproject.toml" in done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tool.rulvar = 3", "[tool.rulvar]: expected a table"),
        ("[tool.rulvar]\nlint = 3", "[tool.rulvar.lint]: expected a table"),
    ],
)
def test_a_configuration_that_is_no_table_is_not_passed_over(root: Path, text: str, said: str) -> None:
    (root / "pyproject.toml").write_text(text)
    done = run(root)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"pyproject.toml: {said}" in done.stderr


def test_a_configuration_may_begin_with_a_byte_order_mark(root: Path) -> None:
    (root / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.rulvar.lint]\nselect = ['RLV001']\n")
    assert run(root).returncode == 0


def test_standard_input_that_does_not_parse_is_a_finding_whatever_is_in_it(root: Path) -> None:
    done = run(root, "--stdin-filename", "x.py", "-", given="x = (\n")
    assert done.returncode == 1
    assert "x.py:1:5: RLV001" in done.stdout


def test_rules_are_chosen_on_the_command_line_and_in_the_configuration(root: Path) -> None:
    def codes(*args: str) -> list[str]:
        return [code for _, code in lines(run(root, "--output-format", "concise", *args).stdout)]

    assert codes("--select", "RLV1") == ["RLV113", "RLV101"]
    assert codes("--select", "RLV101,RLV201") == ["RLV201", "RLV101"]
    assert codes("--ignore", "RLV1") == ["RLV201"]
    assert codes("--per-file-ignores", "workflows/**:RLV101,RLV113") == ["RLV201"]
    (root / "pyproject.toml").write_text(
        "[tool.rulvar.lint]\nignore = ['RLV2']\n[tool.rulvar.lint.per-file-ignores]\n"
        "'workflows/*' = ['RLV113']\n"
    )
    assert codes() == ["RLV101"]
    assert codes("--isolated") == ["RLV113", "RLV201", "RLV101"]
    assert codes("--extend-select", "RLV201") == ["RLV201", "RLV101"]
    assert codes("--select", "RLV201") == ["RLV201"]


def test_the_configuration_adds_unstable_functions(root: Path) -> None:
    (root / "pyproject.toml").write_text("[tool.rulvar.lint.effects]\n'acme.now' = 'RLV101'\n")
    (root / HERE).write_text(
        "import acme\nfrom rulvar import workflow\n\n\n@workflow\nasync def f(ctx, a):\n"
        "    return acme.now()\n"
    )
    assert lines(run(root, "--output-format", "concise").stdout) == [("7", "RLV101")]


def test_json_is_one_array_of_the_promised_objects(root: Path) -> None:
    done = run(root, "--output-format", "json")
    data = json.loads(done.stdout)
    keys = "path line column endLine endColumn code name severity message url related fix"
    assert [list(item) for item in data] == [keys.split()] * 3
    assert [item["code"] for item in data] == ["RLV113", "RLV201", "RLV101"]
    assert data[2]["fix"]["applicability"] == "safe"
    assert data[2]["fix"]["edits"][0]["text"] == "ctx.time()"
    assert data[0]["path"] == HERE
    each = run(root, "--output-format", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in each] == data


def test_paths_are_relative_to_the_working_folder(root: Path) -> None:
    done = run(root, "--output-format", "json", cwd=root / "workflows")
    assert {item["path"] for item in json.loads(done.stdout)} == {"flow.py"}
    (root / "other").mkdir()
    done = run(root, "--output-format", "json", "..", cwd=root / "other")
    assert {item["path"] for item in json.loads(done.stdout)} == {"../workflows/flow.py"}


def test_sarif_has_rules_results_and_fixes(root: Path) -> None:
    report = json.loads(run(root, "--output-format", "sarif").stdout)
    assert report["version"] == "2.1.0"
    (only,) = report["runs"]
    rules = only["tool"]["driver"]["rules"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] <= region["endLine"]
    assert only["results"][2]["fixes"][0]["artifactChanges"][0]["replacements"]


def test_github_gitlab_junit_and_rdjson_are_well_formed(root: Path) -> None:
    github = run(root, "--output-format", "github").stdout.splitlines()
    assert github[0].startswith("::warning title=rulvar-lint RLV113 (print-or-log),file=workflows/")
    assert github[2].startswith("::error ")
    gitlab = json.loads(run(root, "--output-format", "gitlab").stdout)
    assert len({entry["fingerprint"] for entry in gitlab}) == 3
    suites = ElementTree.fromstring(run(root, "--output-format", "junit").stdout)
    assert suites.attrib["failures"] == "3"
    rdjson = json.loads(run(root, "--output-format", "rdjson").stdout)
    assert rdjson["diagnostics"][2]["suggestions"][0]["text"] == "ctx.time()"


@pytest.mark.parametrize("kind", ["json", "sarif", "gitlab", "rdjson", "junit", "jsonl", "github"])
def test_a_clean_project_gives_a_well_formed_empty_report(tmp_path: Path, kind: str) -> None:
    done = run(tmp_path, "--output-format", kind)
    assert done.returncode == 0
    if kind == "junit":
        assert ElementTree.fromstring(done.stdout).attrib["failures"] == "0"
    elif kind not in ("jsonl", "github"):
        json.loads(done.stdout)
    else:
        assert done.stdout == ""
    assert "0 workflows found" in done.stderr


def test_no_workflows_are_said_out_loud(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    assert run(tmp_path).stdout == "All checks passed.\n0 workflows found in 1 Python file.\n"


def test_a_report_can_be_written_to_a_file(root: Path) -> None:
    done = run(root, "--output-format", "json", "--output-file", "report.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(json.loads((root / "report.json").read_text())) == 3


def test_statistics_count_each_rule(root: Path) -> None:
    out = run(root, "--statistics").stdout
    assert "1  RLV101  [*] wall-clock" in out
    data = json.loads(run(root, "--statistics", "--output-format", "json").stdout)
    assert {(row["code"], row["count"]) for row in data} == {
        ("RLV101", 1),
        ("RLV113", 1),
        ("RLV201", 1),
    }


def test_exit_zero_keeps_the_report(root: Path) -> None:
    done = run(root, "--exit-zero")
    assert done.returncode == 0
    assert "RLV101" in done.stdout


def test_names_choose_what_is_reported_while_everything_is_analysed(root: Path) -> None:
    (root / "workflows/clock.py").write_text("import time\n\n\ndef read():\n    return time.time()\n")
    (root / "workflows/other.py").write_text(
        "from clock import read\nfrom rulvar import workflow\n\n\n@workflow\n"
        "async def f(ctx, a):\n    return read()\n"
    )
    done = run(root, "--output-format", "concise", "workflows/other.py")
    assert lines(done.stdout) == [("7", "RLV101")]
    assert "`read`" in done.stdout
    assert run(root, "workflows/clock.py").returncode == 0


def test_standard_input_is_checked_under_a_name(root: Path) -> None:
    text = FLOW.replace('    print("start")\n', "")
    done = run(root, "--stdin-filename", HERE, "--output-format", "concise", given=text)
    assert lines(done.stdout) == [("8", "RLV201"), ("9", "RLV101")]
    assert lines(run(root, "-", "--output-format", "concise", given=text).stdout) == lines(done.stdout)
    assert (root / HERE).read_text() == FLOW
    fixed = run(root, "--fix", "--stdin-filename", HERE, given=text)
    assert fixed.stdout == text.replace("time.time()", "ctx.time()")
    assert "RLV201" in fixed.stderr


def test_fix_applies_safe_fixes_and_reports_what_is_left(root: Path) -> None:
    done = run(root, "--fix", "--output-format", "concise")
    assert (root / HERE).read_text() == FLOW.replace("time.time()", "ctx.time()")
    assert lines(done.stdout) == ALL[:2]
    assert (done.returncode, "Fixed 1 finding." in done.stdout) == (1, True)


def test_unsafe_fixes_are_applied_when_asked_for(root: Path) -> None:
    done = run(root, "--fix", "--unsafe-fixes")
    text = (root / HERE).read_text()
    assert 'ctx.log("info", "start")' in text
    assert 'sorted({r["id"] for r in args["rows"]})' in text
    assert (done.returncode, done.stdout) == (0, "Fixed 3 findings. No findings are left.\n")
    assert run(root).returncode == 0


def test_diff_shows_what_fix_would_do_and_changes_nothing(root: Path) -> None:
    done = run(root, "--diff")
    assert done.returncode == 1
    assert done.stdout.startswith("--- workflows/flow.py\n+++ workflows/flow.py\n")
    assert '+    return await ctx.agent(f"At {ctx.time()}", key=ids[0])' in done.stdout
    assert (root / HERE).read_text() == FLOW
    assert "Would fix 1 file." in done.stderr
    patched = subprocess.run(
        ["git", "apply", "-p0", "-"], cwd=root, input=done.stdout, text=True, check=False
    )
    assert patched.returncode == 0
    assert "ctx.time()" in (root / HERE).read_text()


def test_a_crlf_file_in_latin_1_is_fixed_in_place(root: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n# é\n" + FLOW
    (root / HERE).write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    run(root, "--fix")
    made = text.replace("time.time()", "ctx.time()").replace("\n", "\r\n").encode("latin-1")
    assert (root / HERE).read_bytes() == made


def test_add_ignore_accepts_today_s_findings(root: Path) -> None:
    done = run(root, "--add-ignore")
    assert done.stdout == "Added 3 suppression comments.\n"
    text = (root / HERE).read_text()
    assert 'print("start")  # rulvar: ignore[RLV113]\n' in text
    assert run(root).stdout == "All checks passed.\n"
    assert run(root, "--add-ignore").stdout == "Added 0 suppression comments.\n"


def test_gitignore_and_exclude_are_respected(root: Path) -> None:
    (root / ".gitignore").write_text("out/\n*.gen.py\n!keep.gen.py\n")
    for path in ("out/a.py", "x.gen.py", "keep.gen.py", "old/b.py", ".venv/c.py"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("x = 1\n")
    assert run(root, "--show-files").stdout.split() == ["keep.gen.py", "old/b.py", HERE]
    shown = run(root, "--show-files", "--exclude", "old").stdout.split()
    assert shown == ["keep.gen.py", HERE]
    assert "out/a.py" in run(root, "--show-files", "--no-gitignore").stdout
    assert run(root, "--show-files", "out/a.py").stdout.split() == ["out/a.py"]


def test_rule_prints_pages_as_text_json_and_markdown(root: Path) -> None:
    text = run(root, "rule", "RLV101").stdout
    assert text.startswith("RLV101 wall-clock (error)\n")
    data = json.loads(run(root, "rule", "wall-clock", "--output-format", "json").stdout)
    assert (data["code"], data["fix"], data["default"]) == ("RLV101", "safe", True)
    every = json.loads(run(root, "rule", "--all", "--output-format", "json").stdout)
    assert len(every) == 46
    assert run(root, "rule", "RLV101", "--output-format", "markdown").stdout.startswith("## RLV101")


def test_explain_tells_the_chain_of_a_finding(root: Path) -> None:
    (root / "workflows/clock.py").write_text("import time\n\n\ndef read():\n    return time.time()\n")
    (root / "workflows/other.py").write_text(
        "from clock import read\nfrom rulvar import workflow\n\n\n@workflow\n"
        "async def f(ctx, a):\n    return read()\n"
    )
    done = run(root, "explain", "workflows/other.py:7")
    assert done.returncode == 1
    assert "workflows/clock.py:5:12: `time.time()` reads the wall clock" in done.stdout
    assert run(root, "explain", "workflows/other.py:6").stdout == (
        "No findings on line 6 of workflows/other.py.\n"
    )
    assert run(root, "explain", "RLV101").stdout == run(root, "rule", "RLV101").stdout


def test_version_and_help(root: Path) -> None:
    assert run(root, "--version").stdout.startswith("rulvar-lint ")
    assert "Exit codes: 0 no findings, 1 findings, 2 wrong use" in run(root, "--help").stdout
    assert run(root, "rule", "--help").returncode == 0


def test_without_its_extra_it_says_which_one_to_install(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.machinery as m\n"
        "find = m.PathFinder.find_spec\n"
        "m.PathFinder.find_spec = staticmethod("
        "lambda name, *a: None if name == 'libcst' else find(name, *a))\n"
        "from rulvar_lint.cli import main\nsys.exit(main([]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == ("rulvar-lint needs an extra that is not installed: pip install 'rulvar[lint]'\n")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, rulvar_lint, rulvar_lint.cli\n"
        "print([m for m in ('libcst', 'ast', 'argparse', 'json', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "lint")},
    )
    assert done.stdout.strip() == "[]"


def test_colours_are_used_when_asked_for(root: Path) -> None:
    assert "\x1b[31mRLV101" in run(root, "--color", "always").stdout
    assert "\x1b[" not in run(root).stdout
    forced = run(root, env={"FORCE_COLOR": "1", "NO_COLOR": ""})
    assert "\x1b[" in forced.stdout


def test_a_narrow_output_encoding_does_not_matter(root: Path) -> None:
    (root / HERE).write_text(FLOW.replace("start", "héllo \u2713"))
    done = run(root, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 1
    assert "RLV113" in done.stdout


def test_a_closed_pipe_ends_quietly(root: Path) -> None:
    many = FLOW + "".join(f"    print({n})\n" for n in range(3000))
    (root / HERE).write_text(many)
    script = f"{sys.executable} -m rulvar_lint --no-cache | head -n 1"
    done = subprocess.run(
        ["bash", "-c", script], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    assert "RLV113" in done.stdout


def test_watch_checks_again_when_a_file_changes(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "rulvar_lint", "--watch", "--output-format", "concise"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        seen = _until(process, "Watching for changes.")
        assert "RLV113" in seen
        (root / HERE).write_text(FLOW.replace('    print("start")\n', ""))
        assert "RLV113" not in _until(process, "Watching for changes.")
        (root / HERE).unlink()
        assert "0 workflows found." in _until(process, "Watching for changes.")
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def _until(process: subprocess.Popen[str], end: str) -> str:
    assert process.stdout is not None
    text, start = "", time.monotonic()
    while end not in text and time.monotonic() - start < 60:
        text += process.stdout.readline()
    assert end in text
    return text


def test_options_and_paths_come_in_any_order(root: Path) -> None:
    (root / "a.py").write_text("x = 1\n")
    done = run(root, "a.py", "--output-format", "concise", HERE)
    assert lines(done.stdout) == ALL
