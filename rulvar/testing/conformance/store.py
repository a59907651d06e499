"""What every store must do, as a suite that third-party stores run too."""

from __future__ import annotations

from rulvar.testing.conformance.blob_cases import BlobCases
from rulvar.testing.conformance.journal_cases import JournalCases
from rulvar.testing.conformance.lease_cases import LeaseCases

__all__ = ["StoreConformance"]


class StoreConformance(JournalCases, BlobCases, LeaseCases):
    """The suite: subclass it as ``TestSomething`` and say how to make the store.

    ::

        class TestMyStore(StoreConformance):
            def make_store(self):
                return MyStore(self.folder())

    A durable store also overrides ``reopen``, so that what is kept can be looked at from outside. Cases of
    transcripts and leases run for stores that have them.
    """
