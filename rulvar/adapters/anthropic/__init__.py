"""Models of Anthropic: ``anthropic(api_key=...)`` is the adapter; needs the extra ``anthropic``."""

from rulvar.adapters.anthropic.adapter import AnthropicAdapter

anthropic = AnthropicAdapter

__all__ = ["AnthropicAdapter", "anthropic"]
