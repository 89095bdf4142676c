"""Markup: HTML and SVG in which text cannot turn into markup.

Promises: whatever `element` is given as plain text is escaped, and what does not print (control
characters, marks that turn the direction of reading) is shown instead of obeyed.
"""

import html
import unicodedata
from collections.abc import Iterable
from itertools import accumulate

VOID = frozenset({"input", "meta"})
"""Elements without an end tag."""


class Markup(str):
    """Mark a string as markup, which is not escaped again."""

    __slots__ = ()


def element(name: str, /, *inside: str, **attributes: object) -> Markup:
    """Return an element.

    Parameters
    ----------
    name : str
        The tag.
    *inside : str
        The content; what is not `Markup` is escaped.
    **attributes : object
        The attributes, escaped: `class_` for class, `stroke_width` for stroke-width.

    Returns
    -------
    Markup
        The element.

    Examples
    --------
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
    """Return the parts in a row; what is not `Markup` is escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escaped(part) for part in parts))


def escaped(text: str) -> str:
    """Return text as it may stand in an element or an attribute."""
    return html.escape(visible(text))


def visible(text: str) -> str:
    r"""Return text with a visible sign for each character that does not print.

    Examples
    --------
    >>> print(visible("one\ntwo\u202e"))
    one␊two\u202e
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    # Unicode has a picture for each control character, from U+2400 on, in their order.
    return chr(0x2400 + code) if code < 0x20 else character.encode("unicode_escape").decode("ascii")


def clipped(text: str, room: int) -> str:
    """Return text cut to a width, with an ellipsis if something is missing.

    Parameters
    ----------
    text : str
        Text, which need not be printable.
    room : int
        The width, in columns of a terminal.

    Returns
    -------
    str
        Visible text, at most `room` columns wide.

    Examples
    --------
    >>> clipped("version = '4.2.1'", 10)
    'version =…'
    """
    # Cut first: a text may be very long, and a character takes at least one column.
    text = visible(text[: room + 1])
    if columns(text) <= room:
        return text
    kept = sum(width < room for width in accumulate(map(columns, text)))
    return f"{text[:kept].rstrip()}…"


def columns(text: str) -> int:
    """Return the width of text in columns of a terminal: a Chinese character takes two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)
