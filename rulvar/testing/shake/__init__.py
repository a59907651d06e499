"""Shake: workflows run again on their recorded calls, under other conditions, to see which calls move.

What a replay needs is that a workflow makes the same calls every time. A shake runs it in other
processes and under another clock, time zone, locale, environment, directory order, seed and order of
completion, each by itself, and reports the first call whose identity is another one, with its call
site, the field and the conditions. Every call is served from the record: nothing goes live.
"""
