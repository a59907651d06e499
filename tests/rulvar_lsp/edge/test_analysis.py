"""Looks at documents and files, in the process of the test."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from rulvar_lsp.edge.analysis import Analyst, Superseded
from rulvar_lsp.edge.session import Change, Session

WF = """from datetime import datetime
from rulvar import workflow


@workflow(name="w")
async def w(ctx, args):
    return datetime.now()
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "pyproject.toml").write_text("[project]\nname='x'\nversion='0'\n")
    (tmp_path / "flow.py").write_text(WF)
    session = Session()
    session.add_folder(tmp_path.as_uri())
    return session


async def test_a_closed_file_that_is_what_it_was_is_not_looked_at_again(
    session: Session, tmp_path: Path
) -> None:
    analyst, path = Analyst(session), str(tmp_path / "flow.py")
    look = await analyst.look_at_file(str(tmp_path), path)
    assert look is not None and [d.code for d in look.found] == ["RLV101"]
    assert await analyst.look_at_file(str(tmp_path), path, look) is look
    (tmp_path / "flow.py").write_text(WF.replace("datetime.now()", "None"))
    analyst.changed_on_disk([path])
    again = await analyst.look_at_file(str(tmp_path), path, look)
    assert again is not None and again.found == ()
    os.unlink(path)
    assert await analyst.look_at_file(str(tmp_path), path, again) is None


async def test_a_look_that_is_overtaken_by_a_fresher_one_of_the_same_text_is_answered_by_that(
    session: Session, tmp_path: Path
) -> None:
    analyst = Analyst(session)
    document = session.open((tmp_path / "flow.py").as_uri(), "python", 1, WF)
    looks = [asyncio.ensure_future(analyst.view(document)) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(5):
        analyst.edited(document)  # as if another file had changed
        looks.append(asyncio.ensure_future(analyst.view(document, fresh=True)))
        await asyncio.sleep(0)
    views = await asyncio.gather(*looks)
    assert [[f.code for f in view.findings] for view in views] == [["RLV101"]] * 8


async def test_a_look_at_a_text_that_is_gone_is_refused(session: Session, tmp_path: Path) -> None:
    analyst, uri = Analyst(session), (tmp_path / "flow.py").as_uri()
    old = session.open(uri, "python", 1, WF)
    waiting = asyncio.ensure_future(analyst.view(old))
    await asyncio.sleep(0)
    new = session.change(uri, 2, [Change("x = 1\n")])
    assert new is not None
    assert (await analyst.view(new, fresh=True)).findings == ()
    for look in (waiting, analyst.view(old)):
        with pytest.raises(Superseded):
            await look
    session.close(uri)
    analyst.closed(new)
    with pytest.raises(Superseded):
        await analyst.view(new)
    held = await analyst.held()
    assert [held[name] for name in ("jobs", "views", "overlays", "workflows")] == [0, 0, 0, 0]


async def test_a_look_that_nobody_waits_for_any_more_is_cancelled_for_good(
    session: Session, tmp_path: Path
) -> None:
    analyst = Analyst(session)
    document = session.open((tmp_path / "flow.py").as_uri(), "python", 1, WF)
    look = asyncio.ensure_future(analyst.view(document))
    await asyncio.sleep(0)
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert [f.code for f in (await analyst.view(document)).findings] == ["RLV101"]
