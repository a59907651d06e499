"""The operator's command line: run, look at, answer, resume and check runs."""
