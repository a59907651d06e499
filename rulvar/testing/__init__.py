"""The testing tier: scripted models, cassettes, strict replay, and what pytest needs of them.

This module re-exports the public names and nothing else; a name's module is loaded when the name is
first used.
"""

from typing import TYPE_CHECKING

from rulvar.lazy_names import lazy_names

if TYPE_CHECKING:
    from rulvar.agents.agent import check_agent as check_agent
    from rulvar.contracts.redaction import Redactor as Redactor
    from rulvar.contracts.redaction import default_redact as default_redact
    from rulvar.contracts.request_hash import request_hash as request_hash
    from rulvar.contracts.strictness import strict_schema as strict_schema
    from rulvar.machines.recording import ToolFixture as ToolFixture
    from rulvar.machines.recording import load_fixture as load_fixture
    from rulvar.testing.answers import failure as failure
    from rulvar.testing.answers import queue as queue
    from rulvar.testing.cassette import Cassette as Cassette
    from rulvar.testing.cassette import CassetteHeader as CassetteHeader
    from rulvar.testing.cassette import CassetteRow as CassetteRow
    from rulvar.testing.cassette import read_cassette as read_cassette
    from rulvar.testing.cassette_changes import diff_cassettes as diff_cassettes
    from rulvar.testing.cassette_changes import merge_cassettes as merge_cassettes
    from rulvar.testing.cassette_changes import prune_cassette as prune_cassette
    from rulvar.testing.cassette_check import CassetteFinding as CassetteFinding
    from rulvar.testing.cassette_check import check_cassette as check_cassette
    from rulvar.testing.cassette_listing import cassette_stats as cassette_stats
    from rulvar.testing.cassette_listing import list_cassettes as list_cassettes
    from rulvar.testing.clock import TestClock as TestClock
    from rulvar.testing.conformance import AdapterConformance as AdapterConformance
    from rulvar.testing.conformance import StoreConformance as StoreConformance
    from rulvar.testing.conformance import adapter_conformance as adapter_conformance
    from rulvar.testing.conformance import adapter_scenes as adapter_scenes
    from rulvar.testing.diagnose import MissDiagnosis as MissDiagnosis
    from rulvar.testing.diagnose import diagnose_miss as diagnose_miss
    from rulvar.testing.doubles import contract_fake as contract_fake
    from rulvar.testing.doubles import tool_mock as tool_mock
    from rulvar.testing.engine import TestEngine as TestEngine
    from rulvar.testing.engine import create_test_engine as create_test_engine
    from rulvar.testing.eval_report import EvalReport as EvalReport
    from rulvar.testing.evals import EvalCase as EvalCase
    from rulvar.testing.evals import evaluate as evaluate
    from rulvar.testing.evals import rubric_judge as rubric_judge
    from rulvar.testing.fake import FAKE_MODEL_REF as FAKE_MODEL_REF
    from rulvar.testing.fake import FakeAdapter as FakeAdapter
    from rulvar.testing.journal_replay import Replay as Replay
    from rulvar.testing.journal_replay import replay_run as replay_run
    from rulvar.testing.leftover_answers import UnusedAnswerWarning as UnusedAnswerWarning
    from rulvar.testing.live import MAX_LIVE_SMOKE_ATTEMPTS as MAX_LIVE_SMOKE_ATTEMPTS
    from rulvar.testing.live import MAX_LIVE_SMOKE_DELAY_MS as MAX_LIVE_SMOKE_DELAY_MS
    from rulvar.testing.live import LiveSmoke as LiveSmoke
    from rulvar.testing.live import live_test_enabled as live_test_enabled
    from rulvar.testing.live import run_live_smoke as run_live_smoke
    from rulvar.testing.machine import run_workflow as run_workflow
    from rulvar.testing.machine_coverage import Coverage as Coverage
    from rulvar.testing.machine_coverage import coverage as coverage
    from rulvar.testing.matchers import assert_called_agent as assert_called_agent
    from rulvar.testing.matchers import assert_under_budget as assert_under_budget
    from rulvar.testing.minimize.minimization import MinimizedRun as MinimizedRun
    from rulvar.testing.minimize.minimization import minimize_run as minimize_run
    from rulvar.testing.pytest_cassette import PytestCassette as PytestCassette
    from rulvar.testing.pytest_machines import PytestToolRecording as PytestToolRecording
    from rulvar.testing.recorder import record as record
    from rulvar.testing.replayer import ReplayAdapter as ReplayAdapter
    from rulvar.testing.replayer import replay as replay
    from rulvar.testing.report import ReplayReport as ReplayReport
    from rulvar.testing.report import read_report as read_report
    from rulvar.testing.responders import FakeCall as FakeCall
    from rulvar.testing.responders import fake_tool_calls as fake_tool_calls
    from rulvar.testing.responders import fake_wire_error as fake_wire_error
    from rulvar.testing.run import TestRun as TestRun
    from rulvar.testing.samples import sample_pdf as sample_pdf
    from rulvar.testing.samples import sample_png as sample_png
    from rulvar.testing.script import ScriptedModel as ScriptedModel
    from rulvar.testing.script import ScriptedRequest as ScriptedRequest
    from rulvar.testing.script import final as final
    from rulvar.testing.script import scripted_model as scripted_model
    from rulvar.testing.script import tool_calls as tool_calls
    from rulvar.testing.shake.entrances import shake_journal as shake_journal
    from rulvar.testing.shake.entrances import shake_tests as shake_tests
    from rulvar.testing.shake.report import ShakeMove as ShakeMove
    from rulvar.testing.shake.report import ShakeReport as ShakeReport
    from rulvar.testing.single_transition import TransitionRun as TransitionRun
    from rulvar.testing.single_transition import run_transition as run_transition
    from rulvar.testing.tool import ToolTestRun as ToolTestRun
    from rulvar.testing.tool import run_tool as run_tool
    from rulvar.testing.tool import test_tool as test_tool
    from rulvar.testing.traces import diff_traces as diff_traces
    from rulvar.tools.grants import tool_grants as tool_grants

_HOMES = {
    "AdapterConformance": "rulvar.testing.conformance",
    "Cassette": "rulvar.testing.cassette",
    "CassetteFinding": "rulvar.testing.cassette_check",
    "CassetteHeader": "rulvar.testing.cassette",
    "CassetteRow": "rulvar.testing.cassette",
    "Coverage": "rulvar.testing.machine_coverage",
    "EvalCase": "rulvar.testing.evals",
    "EvalReport": "rulvar.testing.eval_report",
    "FAKE_MODEL_REF": "rulvar.testing.fake",
    "FakeAdapter": "rulvar.testing.fake",
    "FakeCall": "rulvar.testing.responders",
    "LiveSmoke": "rulvar.testing.live",
    "MAX_LIVE_SMOKE_ATTEMPTS": "rulvar.testing.live",
    "MAX_LIVE_SMOKE_DELAY_MS": "rulvar.testing.live",
    "MinimizedRun": "rulvar.testing.minimize.minimization",
    "MissDiagnosis": "rulvar.testing.diagnose",
    "PytestCassette": "rulvar.testing.pytest_cassette",
    "PytestToolRecording": "rulvar.testing.pytest_machines",
    "Redactor": "rulvar.contracts.redaction",
    "Replay": "rulvar.testing.journal_replay",
    "ReplayAdapter": "rulvar.testing.replayer",
    "ReplayReport": "rulvar.testing.report",
    "ScriptedModel": "rulvar.testing.script",
    "ScriptedRequest": "rulvar.testing.script",
    "ShakeMove": "rulvar.testing.shake.report",
    "ShakeReport": "rulvar.testing.shake.report",
    "StoreConformance": "rulvar.testing.conformance",
    "TestClock": "rulvar.testing.clock",
    "TestEngine": "rulvar.testing.engine",
    "TestRun": "rulvar.testing.run",
    "ToolFixture": "rulvar.machines.recording",
    "ToolTestRun": "rulvar.testing.tool",
    "TransitionRun": "rulvar.testing.single_transition",
    "UnusedAnswerWarning": "rulvar.testing.leftover_answers",
    "adapter_conformance": "rulvar.testing.conformance",
    "adapter_scenes": "rulvar.testing.conformance",
    "assert_called_agent": "rulvar.testing.matchers",
    "assert_under_budget": "rulvar.testing.matchers",
    "cassette_stats": "rulvar.testing.cassette_listing",
    "check_agent": "rulvar.agents.agent",
    "check_cassette": "rulvar.testing.cassette_check",
    "contract_fake": "rulvar.testing.doubles",
    "coverage": "rulvar.testing.machine_coverage",
    "create_test_engine": "rulvar.testing.engine",
    "default_redact": "rulvar.contracts.redaction",
    "diagnose_miss": "rulvar.testing.diagnose",
    "diff_cassettes": "rulvar.testing.cassette_changes",
    "diff_traces": "rulvar.testing.traces",
    "evaluate": "rulvar.testing.evals",
    "failure": "rulvar.testing.answers",
    "fake_tool_calls": "rulvar.testing.responders",
    "fake_wire_error": "rulvar.testing.responders",
    "final": "rulvar.testing.script",
    "list_cassettes": "rulvar.testing.cassette_listing",
    "live_test_enabled": "rulvar.testing.live",
    "load_fixture": "rulvar.machines.recording",
    "merge_cassettes": "rulvar.testing.cassette_changes",
    "minimize_run": "rulvar.testing.minimize.minimization",
    "prune_cassette": "rulvar.testing.cassette_changes",
    "queue": "rulvar.testing.answers",
    "read_cassette": "rulvar.testing.cassette",
    "read_report": "rulvar.testing.report",
    "record": "rulvar.testing.recorder",
    "replay": "rulvar.testing.replayer",
    "replay_run": "rulvar.testing.journal_replay",
    "request_hash": "rulvar.contracts.request_hash",
    "rubric_judge": "rulvar.testing.evals",
    "run_live_smoke": "rulvar.testing.live",
    "run_tool": "rulvar.testing.tool",
    "run_transition": "rulvar.testing.single_transition",
    "run_workflow": "rulvar.testing.machine",
    "sample_pdf": "rulvar.testing.samples",
    "sample_png": "rulvar.testing.samples",
    "scripted_model": "rulvar.testing.script",
    "shake_journal": "rulvar.testing.shake.entrances",
    "shake_tests": "rulvar.testing.shake.entrances",
    "strict_schema": "rulvar.contracts.strictness",
    "test_tool": "rulvar.testing.tool",
    "tool_calls": "rulvar.testing.script",
    "tool_grants": "rulvar.tools.grants",
    "tool_mock": "rulvar.testing.doubles",
}

__all__ = [
    "FAKE_MODEL_REF",
    "MAX_LIVE_SMOKE_ATTEMPTS",
    "MAX_LIVE_SMOKE_DELAY_MS",
    "AdapterConformance",
    "Cassette",
    "CassetteFinding",
    "CassetteHeader",
    "CassetteRow",
    "Coverage",
    "EvalCase",
    "EvalReport",
    "FakeAdapter",
    "FakeCall",
    "LiveSmoke",
    "MinimizedRun",
    "MissDiagnosis",
    "PytestCassette",
    "PytestToolRecording",
    "Redactor",
    "Replay",
    "ReplayAdapter",
    "ReplayReport",
    "ScriptedModel",
    "ScriptedRequest",
    "ShakeMove",
    "ShakeReport",
    "StoreConformance",
    "TestClock",
    "TestEngine",
    "TestRun",
    "ToolFixture",
    "ToolTestRun",
    "TransitionRun",
    "UnusedAnswerWarning",
    "adapter_conformance",
    "adapter_scenes",
    "assert_called_agent",
    "assert_under_budget",
    "cassette_stats",
    "check_agent",
    "check_cassette",
    "contract_fake",
    "coverage",
    "create_test_engine",
    "default_redact",
    "diagnose_miss",
    "diff_cassettes",
    "diff_traces",
    "evaluate",
    "failure",
    "fake_tool_calls",
    "fake_wire_error",
    "final",
    "list_cassettes",
    "live_test_enabled",
    "load_fixture",
    "merge_cassettes",
    "minimize_run",
    "prune_cassette",
    "queue",
    "read_cassette",
    "read_report",
    "record",
    "replay",
    "replay_run",
    "request_hash",
    "rubric_judge",
    "run_live_smoke",
    "run_tool",
    "run_transition",
    "run_workflow",
    "sample_pdf",
    "sample_png",
    "scripted_model",
    "shake_journal",
    "shake_tests",
    "strict_schema",
    "test_tool",
    "tool_calls",
    "tool_grants",
    "tool_mock",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
