"""Show text and tables: in a terminal, in notebooks, and in HTML in which text stays text.

Promises: what a template is given as plain text is escaped, and what does not print (control
characters, marks that turn the direction of reading) is shown instead of obeyed.
"""

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment(package: str | None = None) -> "Environment":
    r"""Return the environment in which Jinja2 renders our templates."""
    # Imported here: Jinja2 takes longer to import than most of this library.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=None if package is None else PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["clipped"] = clipped
    made.filters["commas"] = "{:,}".format
    return made


def _printed(value: object) -> str:
    return value if isinstance(value, Markup) else visible(str(value))


def code(text: str) -> Markup:
    """Return text as an element `code`."""
    return Markup("<code>{}</code>").format(visible(text))


def visible(text: str) -> str:
    r"""Return text with a visible sign for each character that does not print."""
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    # Unicode has a picture for each control character, from U+2400 on, in their order.
    return chr(0x2400 + code) if code < 0x20 else character.encode("unicode_escape").decode("ascii")


def clipped(text: str, room: int) -> str:
    """Return text cut to a width, with an ellipsis if something is missing."""
    # Cut first: a text may be very long, and a character takes at least one column.
    text = visible(text[: room + 1])
    if columns(text) <= room:
        return text
    kept = sum(width < room for width in accumulate(map(columns, text)))
    return f"{text[:kept].rstrip()}…"


def columns(text: str) -> int:
    """Return the width of text in columns of a terminal: a Chinese character takes two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


# The most rows that a table shows; of a longer one it shows the first and the last.
LONGEST_CELL = 20


_TABLE = """
{%- macro row(cells, kind) %}
<tr>{% for cell in cells %}{% set tag = "th" if loop.first else kind -%}
<{{ tag }}>{{ cell }}</{{ tag }}>{% endfor %}</tr>
{%- endmacro -%}
<table><caption>{{ caption }}</caption>
{%- if head %}<thead>{{ row(head, "th") }}</thead>{% endif -%}
<tbody>{% for cells in rows %}{{ row(cells, "td") }}{% endfor %}</tbody></table>
"""


def facts_table(
    title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = (), note: str = ""
) -> Markup:
    """Return a table with a caption."""
    caption = f"{title} ({note})" if note else title
    template = environment().from_string(_TABLE)
    return Markup(template.render(caption=caption, head=head, rows=rows))


def facts(title: str, values: Mapping[str, str], note: str = "") -> Markup:
    """Return a table of names and values."""
    return facts_table(title, values.items(), note=note)


def few(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the rows, or the first and the last of them if they are more than `LONGEST_CELL`."""
    half = LONGEST_CELL // 2
    if len(rows) <= LONGEST_CELL:
        return list(rows)
    between = f"{len(rows) - LONGEST_CELL:,} more"
    return [*rows[:half], ("...", between, *[""] * (len(rows[0]) - 2)), *rows[-half:]]


def side_by_side(parts: Iterable[Markup]) -> Markup:
    """Return several tables, one after the other."""
    return Markup("<div>{}</div>").format(Markup("").join(parts))


def plural(number: int) -> str:
    """Return a number as text, rounded to a power of ten if it is very large."""
    return f"{number:,}" if number < 10**15 else f"about 10^{int(math.log10(number))}"


def short_number(value: float) -> str:
    """Return a number for an axis, in thousands, millions or billions if it is large."""
    for size, unit in ((10**9, "bn"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:,.4g}{unit}"
    return f"{value:g}"


def library_version() -> str:
    """Return the version of this library."""
    # Imported here: `importlib.metadata` takes longer to import than the rest of this module.
    from importlib.metadata import version

    return version("littlestone")
