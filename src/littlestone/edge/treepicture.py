"""A mistake tree as a picture: questions from left to right, at the end of each path its rule."""

from collections.abc import Iterator

from littlestone.edge.markup import Markup, clipped, element
from littlestone.theory.trees import Leaf, MistakeTree, describe, paths

ROW, STEP, LEFT, TOP, LETTER = 26.0, 150.0, 12.0, 24.0, 7.0
LONGEST = 18


def tree_picture(tree: MistakeTree, title: str) -> Markup:
    """The tree as one SVG element."""
    ends = list(paths(tree))
    width = LEFT + STEP * len(ends[0][0]) + LETTER * max(len(str(rule)) for _, rule in ends) + 24
    height = TOP + ROW * len(ends)
    marks = list(_marks(tree, 0, 0.0, float(len(ends))))
    return element(
        "svg",
        element("title", title),
        *marks,
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
    )


def _marks(tree: MistakeTree, level: int, top: float, rows: float) -> Iterator[Markup]:
    """What stands for a tree whose leaves fill `rows` rows from `top` on."""
    x, y = LEFT + STEP * level, TOP + ROW * (top + rows / 2 - 0.5)
    if isinstance(tree, Leaf):
        yield element("text", str(tree.rule), x=f"{x:g}", y=f"{y + 4:g}", class_="rule")
        return
    asked = clipped(describe(tree.point) + " ?", LONGEST)
    from_x = x + LETTER * len(asked) + 6
    for answer, branch in enumerate((tree.zero, tree.one)):
        down = top + answer * rows / 2
        to_y = TOP + ROW * (down + rows / 4 - 0.5)
        to_x = x + STEP - 6
        style = f"branch c{answer}-line"
        yield element("path", class_=style, d=f"M{from_x:g} {y:g}L{to_x:g} {to_y:g}", fill="none")
        middle = (from_x + to_x) / 2, (y + to_y) / 2 - 4
        yield element("text", str(answer), x=f"{middle[0]:g}", y=f"{middle[1]:g}", class_="tick")
        yield from _marks(branch, level + 1, down, rows / 2)
    yield element("text", asked, x=f"{x:g}", y=f"{y + 4:g}")
