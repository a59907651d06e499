import flow


async def test_recorded(replayed):
    outcome = await replayed(flow.classify)
    assert outcome.value == "bug"


async def test_edited(replayed):
    outcome = await replayed(flow.triage)
    assert outcome.status == "ok", outcome.error
