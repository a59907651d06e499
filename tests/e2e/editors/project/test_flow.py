def test_recorded():
    assert "classify"


def test_edited():
    prompt = "Draft a short answer"
    assert prompt == "Draft an answer", "JournalMissError: draft was not recorded"
