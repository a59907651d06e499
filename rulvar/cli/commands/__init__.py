"""One module per verb: each declares its arguments and does its work."""
