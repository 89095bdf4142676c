"""Markup, where the edge looks for it: it lives in the theory room, as notebooks need it too."""

from littlestone.theory.markup import (
    VOID,
    Markup,
    clipped,
    columns,
    element,
    escaped,
    joined,
    visible,
)

__all__ = ["VOID", "Markup", "clipped", "columns", "element", "escaped", "joined", "visible"]
