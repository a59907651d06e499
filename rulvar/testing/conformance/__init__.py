"""Suites that third parties run on their own adapters and stores: subclass one, and pytest does the rest."""

from rulvar.testing.conformance.adapter import AdapterConformance, adapter_conformance
from rulvar.testing.conformance.scenes import SceneCase, adapter_scenes
from rulvar.testing.conformance.store import StoreConformance

__all__ = ["AdapterConformance", "SceneCase", "StoreConformance", "adapter_conformance", "adapter_scenes"]
