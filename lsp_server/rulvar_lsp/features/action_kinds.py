"""Kinds of code actions.

Running code is of kind `test`, never `quickfix` or `source.*`: "fix all on save" must not be able to run it.
"""

QUICKFIX = "quickfix"
FIX_ALL = "source.fixAll.rulvar"
TEST = "test"
EXPLAIN = "explain"
KINDS = (QUICKFIX, FIX_ALL, TEST, EXPLAIN)
