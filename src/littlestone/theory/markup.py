"""Markup: HTML and SVG in which text cannot turn into markup.

Promises: whatever `element` is given as plain text is escaped, and what does not print (control
characters, marks that turn the direction of reading) is shown instead of obeyed.
"""

import html
import unicodedata
from collections.abc import Iterable
from itertools import accumulate

VOID = frozenset({"input", "meta"})


class Markup(str):
    """A string that is markup already. Everything else is text."""

    __slots__ = ()


def element(name: str, /, *inside: str, **attributes: object) -> Markup:
    """An element with its attributes (`class_` for class, `stroke_width` for stroke-width).

    >>> print(element("td", "<script>", class_="rule"))
    <td class="rule">&lt;script&gt;</td>
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
    )
    end = "" if name in VOID else f"</{name}>"
    return Markup(f"<{name}{written}>{joined(inside)}{end}")


def joined(parts: Iterable[str]) -> Markup:
    """Parts side by side, those that are text escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def escaped(text: str) -> str:
    """Text as it may stand in an element or an attribute."""
    return html.escape(visible(text))


def visible(text: str) -> str:
    r"""Text with what does not print made visible.

    >>> print(visible("one\ntwo\u202e"))
    one␊two\u202e
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else character.encode("unicode_escape").decode("ascii")


def clipped(text: str, room: int) -> str:
    """Text cut to `room` columns, with an ellipsis where something is missing.

    >>> clipped("version = '4.2.1'", 10)
    'version =…'
    """
    text = visible(text[: room + 1])
    if columns(text) <= room:
        return text
    kept = sum(width < room for width in accumulate(map(columns, text)))
    return f"{text[:kept].rstrip()}…"


def columns(text: str) -> int:
    """How wide text is, in letters: a Chinese character takes the room of two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
