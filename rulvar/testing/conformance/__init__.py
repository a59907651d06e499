"""Suites that implementations of the seams run against themselves."""
