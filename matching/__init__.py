"""The selector language, the Python DSL, covering and the subscription index."""

from gossamer.matching.covering import covers, merge
from gossamer.matching.dsl import attr
from gossamer.matching.errors import SelectorError
from gossamer.matching.index import Index
from gossamer.matching.selector import Selector

__all__ = ["Index", "Selector", "SelectorError", "attr", "covers", "merge"]
