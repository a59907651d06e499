"""Language server for replay-stable workflows."""

__version__ = "0.1.0"
