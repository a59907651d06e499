"""Models of OpenAI: ``openai(api_key=...)`` is the adapter; needs the extra ``openai``."""

from rulvar.adapters.openai.adapter import OpenAIAdapter

openai = OpenAIAdapter

__all__ = ["OpenAIAdapter", "openai"]
