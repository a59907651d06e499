"""The rules: families that listen to the interpreter, the pages that describe them, and how findings
are worded.
"""
