"""OpenAI-compatible endpoints: ``openai_compatible(id, base_url)`` is the adapter; needs the extra ``openai``."""

from rulvar.adapters.compatible.adapter import CompatibleAdapter, openai_compatible

__all__ = ["CompatibleAdapter", "openai_compatible"]
