"""Markup: HTML and SVG in which text cannot turn into markup.

Promises: whatever `element` is given as plain text is escaped, and what does not print (control
characters, marks that turn the direction of reading) is shown instead of obeyed.

Tables for notebooks, in which text cannot turn into markup.
"""

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
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
    return Markup(f"<{name}{written}>{join_markup(inside)}{end}")


def join_markup(parts: Iterable[str]) -> Markup:
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


LONGEST_CELL = 20
"""The most rows that a table shows; of a longer one it shows the first and the last."""


def facts_table(
    title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = (), note: str = ""
) -> Markup:
    """Return a table with a caption.

    Parameters
    ----------
    title : str
        The caption.
    rows : iterable of sequences of str
        The cells; the first of a row is its heading.
    head : sequence of str
        The headings of the columns, if any.
    note : str
        A remark for the caption, in parentheses.

    Returns
    -------
    Markup
        The table.

    Examples
    --------
    >>> print(table("<plan>", [("trees", "8")]))
    <table><caption>&lt;plan&gt;</caption><tbody><tr><th>trees</th><td>8</td></tr></tbody></table>
    """
    caption = element("caption", f"{title} ({note})" if note else title)
    top = [element("thead", _row(head, "th"))] if head else []
    return element("table", caption, *top, element("tbody", *map(_row, rows)))


def _row(cells: Sequence[str], kind: str = "td") -> Markup:
    first, *others = cells
    return element("tr", element("th", first), *(element(kind, cell) for cell in others))


def facts(title: str, told: Mapping[str, str], note: str = "") -> Markup:
    """Return a table of names and values.

    Parameters
    ----------
    title : str
        The caption.
    told : mapping of str to str
        The names and their values, one row each.
    note : str
        A remark for the caption, in parentheses.

    Returns
    -------
    Markup
        The table.
    """
    return facts_table(title, told.items(), note=note)


def few(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows, or the first and the last of them if they are more than `LONGEST_CELL`.

    Examples
    --------
    >>> [row[0] for row in few([(str(n), "x") for n in range(100)])][8:13]
    ['8', '9', '...', '90', '91']
    """
    half = LONGEST_CELL // 2
    if len(rows) <= LONGEST_CELL:
        return list(rows)
    between = f"{len(rows) - LONGEST_CELL:,} more"
    return [*rows[:half], ("...", between, *[""] * (len(rows[0]) - 2)), *rows[-half:]]


def side_by_side(parts: Iterable[Markup]) -> Markup:
    """Return several tables, one after the other."""
    return element("div", join_markup(parts))


def plural(number: int) -> str:
    """Return a number as text, rounded to a power of ten if it is very large.

    Examples
    --------
    >>> counted(1234567), counted(3**1000)
    ('1,234,567', 'about 10^477')
    """
    return f"{number:,}" if number < 10**15 else f"about 10^{int(math.log10(number))}"


def library_version() -> str:
    """Return the version of this library."""
    # Imported here: `importlib.metadata` takes longer to import than the rest of this module.
    from importlib.metadata import version

    return version("littlestone")
