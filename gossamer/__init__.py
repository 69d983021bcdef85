"""Content-based publish/subscribe that never stalls."""

from gossamer.matching import Selector, SelectorError, attr

__all__ = ["Selector", "SelectorError", "attr"]
