"""How many examples of a property are tried where each of them takes long."""

from hypothesis import settings

FEW = settings(max_examples=settings.default.max_examples // 5)
"""Twenty in the quick tests; `make test-all` tries five times as many of every property."""
