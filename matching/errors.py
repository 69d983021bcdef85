"""What a user sees when a selector is wrong: what, where, and what was probably meant."""

from gossamer.messages.errors import UsageError

WINDOW = 96  # characters of the offending line that are shown around the place


class SelectorError(UsageError):
    """A selector that cannot be understood, or that is larger than Gossamer accepts.

    `position` is the index in `text` of the first character that is wrong. Errors that have no place in a text
    (a policy, a Python expression) leave `text` empty.
    """

    def __init__(self, message: str, text: str = "", position: int = 0) -> None:
        super().__init__(message, text, position)
        self.message = message
        self.text = text
        self.position = position

    def __str__(self) -> str:
        if not self.text:
            return self.message
        return f"{self.message}\n{caret(self.text, self.position)}"


def caret(text: str, position: int) -> str:
    """The line of `text` that holds `position`, cut to a readable width, and a caret under the place."""
    position = min(max(position, 0), len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    first = max(0, min(column - WINDOW // 2, len(line) - WINDOW))
    # Anything that does not take exactly one column would move the caret away from its place.
    shown = "".join(c if c.isprintable() else " " for c in line[first : first + WINDOW])
    return f"  {shown}\n  {' ' * (column - first)}^"
