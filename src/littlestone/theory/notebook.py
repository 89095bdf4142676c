"""How things look in a notebook: small tables, in which text cannot turn into markup."""

import math
from collections.abc import Iterable, Mapping, Sequence

from littlestone.theory.markup import Markup, element, joined

LONGEST = 20
"""How many rows a table shows; of a longer one the first and the last."""


def table(
    title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = (), note: str = ""
) -> Markup:
    """A table with a caption.

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
    """What there is to tell, a fact a row."""
    return table(title, told.items(), note=note)


def few(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Rows, or the first and the last of them where they are many.

    >>> [row[0] for row in few([(str(n), "x") for n in range(100)])][8:13]
    ['8', '9', '...', '90', '91']
    """
    half = LONGEST // 2
    if len(rows) <= LONGEST:
        return list(rows)
    between = f"{len(rows) - LONGEST:,} more"
    return [*rows[:half], ("...", between, *[""] * (len(rows[0]) - 2)), *rows[-half:]]


def side_by_side(parts: Iterable[Markup]) -> Markup:
    """Several tables, one after the other."""
    return element("div", joined(parts))


def counted(number: int) -> str:
    """A number of things, however large.

    >>> counted(1234567), counted(3**1000)
    ('1,234,567', 'about 10^477')
    """
    return f"{number:,}" if number < 10**15 else f"about 10^{int(math.log10(number))}"
