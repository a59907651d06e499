"""`--fix` and `--diff`."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rulvar_lint.cli.report import finish
from rulvar_lint.core.source import decode, encoding_of
from rulvar_lint.fixes import apply, is_lossless

if TYPE_CHECKING:
    from rulvar_lint.batch import Outcome
    from rulvar_lint.cli.session import Session

_BOM = b"\xef\xbb\xbf"


MAX_PASSES = 10


def fix(session: Session) -> int:
    """Apply the fixes until none is left, then report what remains."""
    args = session.args
    before: dict[str, str] = {}
    texts: dict[str, str] = {}
    fixed = 0
    outcome = session.run()
    for _ in range(MAX_PASSES):
        changed, number = _pass(session, outcome, before, texts)
        if not changed:
            break
        fixed += number
        session.overlays.update(changed)
        outcome = session.run()
    if args.diff:
        return _show_diff(session, before, texts)
    if session.stdin_name is not None:
        sys.stdout.write(session.overlays[session.stdin_name])
        sys.stdout.flush()
    else:
        for path, text in texts.items():
            write_text(session.root / path, text)
            session.overlays.pop(path, None)
    return finish(session, outcome, fixed)


def _pass(
    session: Session, outcome: Outcome, before: dict[str, str], texts: dict[str, str]
) -> tuple[dict[str, str], int]:
    """One pass over all files with fixable findings: (path to new text, number of fixes)."""
    by_path: dict[str, list[int]] = {}
    for index, item in enumerate(outcome.found):
        if item.fix is not None:
            by_path.setdefault(item.path, []).append(index)
    changed: dict[str, str] = {}
    number = 0
    for path, indices in by_path.items():
        text = texts.get(path) or session.source_text(path)
        applied = apply(text, [outcome.found[i] for i in indices], unsafe=session.args.unsafe_fixes)
        if applied.text == text or not _encodes(session, path, applied.text) or not is_lossless(applied.text):
            continue
        before.setdefault(path, text)
        texts[path] = changed[path] = applied.text
        number += len(applied.fixed)
    return changed, number


def _encodes(session: Session, path: str, text: str) -> bool:
    file = session.root / path
    try:
        text.encode(encoding_of(file.read_bytes()))
    except OSError:
        return True
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def write_text(path: Path, text: str) -> None:
    """Replace the text of a file, atomically. Encoding, byte order mark and mode are kept."""
    data = path.read_bytes()
    body = text.encode(encoding_of(data))
    made = (_BOM if data.startswith(_BOM) else b"") + body
    if decode(data) != text:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        temporary.write_bytes(made)
        os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)


def _show_diff(session: Session, before: dict[str, str], after: dict[str, str]) -> int:
    here = os.getcwd()
    for path in sorted(after):
        name = Path(os.path.relpath(session.root / path, here)).as_posix()
        lines = difflib.unified_diff(
            before[path].splitlines(keepends=True),
            after[path].splitlines(keepends=True),
            name,
            name,
        )
        for line in lines:
            sys.stdout.write(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    if not session.args.quiet:
        number = len(after)
        sys.stderr.write(
            f"Would fix {number} file{'' if number == 1 else 's'}.\n" if number else "Nothing to fix.\n"
        )
    return 1 if after and not session.args.exit_zero else 0
