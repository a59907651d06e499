import static


async def test_static(replayed):
    outcome = await replayed(static.static)
    assert outcome.status == "ok", outcome.error


def test_with_cassette(cassette):
    assert cassette
