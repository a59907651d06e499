"""Kinds of faults that language servers, their libraries and their clients are known for, and the tests against each.

The map is the place to look up whether a kind is covered; its own tests hold it to what exists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = "tests/rulvar_lsp"
FAULTS, PROTOCOL, RUNS = (
    f"{HERE}/edge/test_faults.py",
    f"{HERE}/edge/test_protocol.py",
    f"{HERE}/edge/test_runs.py",
)
RECORDED, LEAKS, TEXT = f"{HERE}/edge/test_recorded.py", f"{HERE}/edge/test_leaks.py", f"{HERE}/test_text.py"
ODD, WORKSPACE, SESSION = (
    f"{HERE}/edge/test_{name}.py" for name in ("odd_documents", "workspace", "session")
)
EDITS, EDITORS = f"{HERE}/edge/test_edits.py", f"{HERE}/edge/test_editors.py"
LAUNCH, QUEUE = (f"vscode-extension/test/{name}.test.ts" for name in ("launch", "restartQueue"))
VSCODE, NEOVIM = (f"tests/e2e/editors/test_{name}.py" for name in ("vscode", "neovim"))

Tests = tuple[tuple[str, str], ...]  # file, name or title of a test

PUBLIC: dict[str, Tests] = {
    "positions after emoji and accents": (
        (PROTOCOL, "test_an_emoji_before_the_finding_counts_in_the_clients_units"),
        (TEXT, "test_every_column_survives_the_way_to_the_client_and_back"),
        (NEOVIM, "test_neovim_shows_fixes_runs_and_explains"),
    ),
    "line breaks other than LF, CRLF and CR": (
        (PROTOCOL, "test_a_form_feed_is_no_line_break"),
        (TEXT, "test_lines_end_at_lf_crlf_and_cr_only"),
    ),
    "ranges of a change out of the text, reversed or within a character": (
        (FAULTS, "test_a_change_at_a_place_that_does_not_exist_is_clamped"),
        (PROTOCOL, "test_a_reversed_range_is_read_the_right_way_round"),
        (TEXT, "test_a_character_that_does_not_exist_is_clamped_and_rounded_down"),
        (EDITS, "test_the_session_has_the_clients_text"),
    ),
    "huge integers and unknown enum values": (
        (PROTOCOL, "test_huge_positions_are_clamped"),
        (PROTOCOL, "test_another_tools_diagnostic_in_a_code_action_request_does_not_matter"),
        (FAULTS, "test_numbers_that_the_protocol_does_not_know_are_passed_over"),
    ),
    "cancelled requests that are worked off all the same": (
        (PROTOCOL, "test_queued_requests_that_were_cancelled_are_not_worked_on"),
        (PROTOCOL, "test_a_running_request_can_be_cancelled"),
    ),
    "late answers for an old version": (
        (PROTOCOL, "test_a_request_for_a_text_that_is_gone_is_refused"),
        (LEAKS, "test_what_was_found_last_is_what_is_shown"),
        (LEAKS, "test_a_late_request_for_an_old_text_does_not_take_the_new_ones_findings_away"),
    ),
    "a pulling client that cannot be told to pull again": (
        (WORKSPACE, "test_a_client_that_cannot_be_told_to_pull_again_is_pushed"),
        (RECORDED, "test_a_pulling_client_is_asked_to_pull_again"),
    ),
    "diagnostics that stay after a close, a deletion or a rename": (
        (RECORDED, "test_diagnostics_go_when_the_document_closes"),
        (WORKSPACE, "test_findings_of_a_file_that_was_deleted_or_whose_folder_has_left_are_taken_back"),
        (FAULTS, "test_a_file_that_is_renamed_takes_its_findings_along"),
    ),
    "spellings of one URI": (
        (SESSION, "test_spellings_of_one_file_have_one_key"),
        (RECORDED, "test_each_spelling_of_a_uri_gets_its_own_back"),
        (ODD, "test_every_request_about_any_uri_is_answered"),
    ),
    "anything else on standard output": ((PROTOCOL, "test_stray_prints_do_not_reach_the_client"),),
    "an orphan that spins, children that stay": (
        (PROTOCOL, "test_the_server_leaves_when_its_client_is_gone_though_the_pipe_stays_open"),
        (FAULTS, "test_the_server_takes_no_time_when_nothing_happens"),
        (RUNS, "test_children_are_gone_when_the_server_is"),
        (RUNS, "test_a_test_ends_with_a_server_that_was_killed"),
    ),
    "a log that fills the pipe": (
        (FAULTS, "test_nobody_need_read_what_the_server_says_on_standard_error"),
        (PROTOCOL, "test_a_flood_on_standard_error_does_not_block"),
    ),
    "command already exists": (
        (PROTOCOL, "test_commands_are_not_offered_to_a_client_that_registers_them_itself"),
        (VSCODE, "test_the_extension_holds_inside_the_extension_host"),
    ),
    "restarts that race": (
        (QUEUE, "restarts never overlap, and at most one waits"),
        (QUEUE, "a restart that fails does not block the next"),
    ),
    "the wrong folder's settings or interpreter": (
        (SESSION, "test_each_file_has_the_settings_of_its_innermost_folder"),
        (FAULTS, "test_each_folder_runs_its_tests_with_its_own_interpreter"),
        (FAULTS, "test_settings_that_change_are_asked_for_again"),
        (WORKSPACE, "test_a_folder_that_is_added_brings_its_configuration_and_settings"),
    ),
    "code that runs in an untrusted workspace": (
        (RUNS, "test_a_run_is_refused_unless_the_workspace_is_trusted"),
        (LAUNCH, "an untrusted workspace contributes nothing that would be executed"),
        (VSCODE, "test_nothing_runs_in_an_untrusted_workspace_until_trust_is_granted"),
    ),
    "lenses that jump or vanish while the file does not parse": (
        (RECORDED, "test_lenses_stay_while_the_file_does_not_parse"),
        (f"{HERE}/features/test_outline.py", "test_tests_stay_when_the_text_around_them_does_not_parse"),
    ),
    "a run that never ends": (
        (RUNS, "test_a_daemon_that_keeps_the_output_open_does_not_keep_the_run_open"),
        (RUNS, "test_a_test_that_crashes_or_asks_for_input_takes_nothing_down"),
        (RUNS, "test_a_hanging_test_is_stopped_after_the_time_limit"),
    ),
    "floods of changed files, and clients that do not watch": (
        (PROTOCOL, "test_a_flood_of_changed_files_is_handled_once"),
        (RECORDED, "test_a_report_that_appears_later_is_noticed_without_a_watching_client"),
    ),
    "notebooks": (
        (ODD, "test_notebooks_are_declined_cleanly"),
        (FAULTS, "test_a_notebook_whose_cells_are_moved_pasted_and_deleted_bothers_nobody"),
    ),
    "a workspace file in place of a module": (
        (FAULTS, "test_a_module_of_the_workspace_does_not_stand_in_for_one_of_the_servers"),
        (LAUNCH, "a module of the workspace cannot stand in for the standard library"),
    ),
    "mixed encodings on one buffer": (
        (EDITORS, "test_an_editor_gets_diagnostics_fixes_hints_and_an_orderly_end"),
    ),
    "findings of the last good tree at the lines of a broken text": (
        (PROTOCOL, "test_a_file_that_does_not_parse_says_so_and_heals"),
    ),
    "progress that never ends, or that nobody can show": (
        (FAULTS, "test_every_progress_bar_that_is_opened_is_closed"),
        (PROTOCOL, "test_nothing_is_asked_of_a_client_that_can_do_nothing"),
    ),
    "an action that edits an old version, or runs something on save": (
        (RECORDED, "test_fix_all_is_refused_for_a_text_that_is_gone"),
        (RECORDED, "test_running_is_never_a_quick_fix_nor_a_source_action"),
        (FAULTS, "test_an_action_that_comes_back_without_its_data_is_given_back"),
    ),
    "null settings, and clients without any capability": (
        (PROTOCOL, "test_configuration_may_be_null_everywhere"),
        (PROTOCOL, "test_capabilities_of_any_shape_are_survived"),
        (PROTOCOL, "test_a_client_that_answers_nothing_does_not_hold_the_server_up"),
    ),
}

# What a well-known server library gets wrong; the server has a protocol of its own, and may not fall back into it.
OF_A_LIBRARY: dict[str, Tests] = {
    "params of the wrong shape are never answered": (
        (PROTOCOL, "test_params_that_make_no_sense_are_refused_not_left_unanswered"),
        (ODD, "test_every_request_with_any_params_is_answered"),
    ),
    "a nested key `jsonrpc` is taken for a message": (
        (PROTOCOL, "test_a_nested_jsonrpc_key_is_data_like_any_other"),
    ),
    "a header in lower case hangs": ((PROTOCOL, "test_header_names_count_in_any_case"),),
    "form feeds and other marks count as line breaks": ((PROTOCOL, "test_a_form_feed_is_no_line_break"),),
    "an insertion past the end of a line lands a character early": (
        (PROTOCOL, "test_an_insertion_past_the_end_of_a_line_lands_at_its_end"),
    ),
    "requests behind a slow one cannot be cancelled": (
        (PROTOCOL, "test_queued_requests_that_were_cancelled_are_not_worked_on"),
    ),
    "the end of input waits for a handler": (
        (FAULTS, "test_the_end_of_input_ends_a_server_that_is_at_work"),
        (PROTOCOL, "test_the_end_of_input_ends_the_server"),
    ),
    "wrong errors before initialize, none after shutdown": (
        (PROTOCOL, "test_a_request_before_initialize_is_refused_as_not_initialized"),
        (PROTOCOL, "test_a_request_after_shutdown_is_refused_and_exit_ends_with_zero"),
    ),
    "exit without shutdown ends with 0": ((PROTOCOL, "test_exit_without_shutdown_ends_with_one"),),
    "a change of a document that is not open pops up an error": (
        (PROTOCOL, "test_a_change_of_a_document_that_is_not_open_bothers_nobody"),
    ),
    "TCP writes from other threads, progress tokens that stay": (
        (f"{HERE}/test_main.py", "test_one_client_is_served_over_tcp"),
        (FAULTS, "test_every_progress_bar_that_is_opened_is_closed"),
    ),
    "tracebacks in answers, closed files read as UTF-8 with other line breaks": (
        (FAULTS, "test_an_error_of_a_handler_tells_the_client_nothing_of_this_machine"),
        (FAULTS, "test_a_closed_file_is_read_by_its_own_encoding_and_with_its_own_line_breaks"),
    ),
}


def titles(path: Path) -> set[str]:
    text = path.read_text("utf-8")
    pattern = r'^test\("(.+?)",' if path.suffix == ".ts" else r"^(?:async )?def (test_\w+)\("
    return set(re.findall(pattern, text, re.MULTILINE))


@pytest.mark.parametrize("fault", [*PUBLIC, *OF_A_LIBRARY])
def test_every_kind_of_fault_has_a_test_that_exists(fault: str) -> None:
    named = (PUBLIC | OF_A_LIBRARY)[fault]
    assert named
    for file, title in named:
        assert title in titles(ROOT / file), f"{file}: {title}"


def test_no_test_against_faults_is_missing_from_the_map() -> None:
    mapped = {title for tests in (PUBLIC | OF_A_LIBRARY).values() for file, title in tests if file == FAULTS}
    assert titles(ROOT / FAULTS) == mapped


def test_the_map_is_whole() -> None:
    assert (len(PUBLIC), len(OF_A_LIBRARY)) == (26, 12)
