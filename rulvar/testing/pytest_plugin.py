"""The pytest plugin: recorded runs, strict replay and the replay report.

Every pytest run of every user imports this module, so it loads nothing of rulvar until an option, a
marker or a fixture asks for it.
"""
