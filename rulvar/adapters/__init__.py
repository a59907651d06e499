"""Adapters: providers of models behind the one seam, each on its official SDK.

``rulvar.adapters.anthropic``, ``rulvar.adapters.openai`` and ``rulvar.adapters.compatible`` are imported
by name; their SDK is loaded when an adapter sends its first request.
"""
