"""The one table of libraries: which dotted names do something that a replay does not repeat."""
