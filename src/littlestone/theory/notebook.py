"""Tables for notebooks, in which text cannot turn into markup."""

import math
from collections.abc import Iterable, Mapping, Sequence

from littlestone.theory.markup import Markup, element, joined

LONGEST = 20
"""The most rows that a table shows; of a longer one it shows the first and the last."""


def table(
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
    return table(title, told.items(), note=note)


def few(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows, or the first and the last of them if they are more than `LONGEST`.

    Examples
    --------
    >>> [row[0] for row in few([(str(n), "x") for n in range(100)])][8:13]
    ['8', '9', '...', '90', '91']
    """
    half = LONGEST // 2
    if len(rows) <= LONGEST:
        return list(rows)
    between = f"{len(rows) - LONGEST:,} more"
    return [*rows[:half], ("...", between, *[""] * (len(rows[0]) - 2)), *rows[-half:]]


def side_by_side(parts: Iterable[Markup]) -> Markup:
    """Return several tables, one after the other."""
    return element("div", joined(parts))


def counted(number: int) -> str:
    """Return a number as text, rounded to a power of ten if it is very large.

    Examples
    --------
    >>> counted(1234567), counted(3**1000)
    ('1,234,567', 'about 10^477')
    """
    return f"{number:,}" if number < 10**15 else f"about 10^{int(math.log10(number))}"
