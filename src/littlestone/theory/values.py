"""Values and their one spelling.

A rule such as ``version = '4.2.1'`` mentions values that came from somebody's data. Two spellings
of one value (``numpy.int64(1)`` and ``1``) must never make two rules, and which spelling was seen
first must never show. So every value has canonical bytes, tagged by type, and equality, hash, order
and JSON all derive from them: ``1``, ``True`` and ``1.0`` are three values, NaN is one, ``-0.0`` is
``0.0``.
"""

from collections.abc import Iterator
from types import NoneType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from littlestone.theory.errors import BadExample

Mask = npt.NDArray[np.bool_]
"""What a rule says of a batch: one truth value a row."""

Plain = None | bool | int | float | str | bytes | tuple[Any, ...]
"""The types a value has after `plain`."""


_AS_IT_IS = {str, bytes, bool, NoneType}
SMALL = 1 << 62
LONGEST_INT = 4096
"""Longer whole numbers could not be printed."""


def plain(value: object) -> Plain:
    """The one Python spelling of a value: no numpy scalars, no subclasses, no negative zero.

    >>> plain(np.int64(7)), plain(-0.0), plain((np.str_("a"), None))
    (7, 0.0, ('a', None))
    """
    if type(value) in _AS_IT_IS:
        return cast(Plain, value)
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > LONGEST_INT:
            raise BadExample(f"a whole number of more than {LONGEST_INT} bits is not a value")
        return int(value)
    if isinstance(value, float):
        return float(value) + 0.0
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if type(value).__name__ == "NAType":  # pandas' own None, whatever the module it lives in
        return None
    raise BadExample(
        f"a value of type {type(value).__name__} has no canonical spelling: "
        "use a string, a number, a truth value, bytes, None, or a tuple of these"
    )


def encode(value: object) -> bytes:
    """The canonical bytes of a value, tagged by its type.

    Promises: `encode(a) == encode(b)` exactly when a and b are the same value.

    >>> encode(1), encode(True), encode(1.0)
    (b'i1', b'b1', b'f0x1.0000000000000p+0')
    >>> encode(float("nan")) == encode(-float("nan"))
    True
    """
    if type(value) is str:
        return b"s" + value.encode("utf-8", "surrogatepass")
    if type(value) is int and -SMALL < value < SMALL:
        return b"i%x" % value
    match plain(value):
        case None:
            return b"n"
        case bool(v):
            return b"b1" if v else b"b0"
        case int(v):
            return b"i%x" % v
        case float(v):
            return b"f" + v.hex().encode()
        case str(v):
            return b"s" + v.encode("utf-8", "surrogatepass")
        case bytes(v):
            return b"y" + v
        case parts:
            return b"t" + b"".join(_sized(encode(part)) for part in parts)


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8) + part


def decode(data: bytes) -> Plain:
    """The value that `encode` wrote.

    >>> decode(encode(("a", 1.5, (None, True))))
    ('a', 1.5, (None, True))
    """
    tag, rest = data[:1], data[1:]
    match tag:
        case b"b":
            return rest == b"1"
        case b"i":
            return int(rest, 16)
        case b"f":
            return float.fromhex(rest.decode())
        case b"s":
            return rest.decode("utf-8", "surrogatepass")
        case b"y":
            return rest
        case b"t":
            return tuple(decode(part) for part in _unsized(rest))
    return None


def _unsized(data: bytes) -> Iterator[bytes]:
    while data:
        end = 8 + int.from_bytes(data[:8])
        yield data[8:end]
        data = data[end:]


def to_json(value: object) -> object:
    """The value as JSON data: itself where JSON has it, a tagged object where it does not.

    >>> to_json(("a", 1.0, float("inf")))
    {'tuple': ['a', 1.0, {'float': 'inf'}]}
    """
    match plain(value):
        case float(v) if v != v or v in (float("inf"), -float("inf")):
            return {"float": "nan" if v != v else str(v)}
        case bytes(v):
            return {"bytes": v.hex()}
        case tuple(parts):
            return {"tuple": [to_json(part) for part in parts]}
        case v:
            return v


def from_json(data: object) -> Plain:
    """The value that `to_json` wrote.

    >>> from_json({"tuple": ["a", 1.0, {"float": "inf"}]})
    ('a', 1.0, inf)
    """
    match data:
        case {"float": str(text)}:
            return float(text)
        case {"bytes": str(text)}:
            return bytes.fromhex(text)
        case {"tuple": list(parts)}:
            return tuple(from_json(part) for part in parts)
        case None | bool() | int() | float() | str():
            return data
    raise BadExample(f"{data!r} is not a value that littlestone wrote")
