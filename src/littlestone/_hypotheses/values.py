"""Values: their identity, and their canonical bytes and JSON.

A rule such as ``version = '4.2.1'`` mentions a value that came from somebody's data. **A value is
identified by its text**: ``3``, ``numpy.int64(3)`` and ``'3'`` are one value, ``3.0`` and ``'3.0'``
are another (`canonical`). Readers of tables and arrays guess a type for a whole column: one cell
that is not a whole number makes text or floats of all others. If the type took part in a value's
identity, one replaced row would change all other rows, and the guarantee, which is about one
replaced round, would be void (docs/guarantee.md, Lemma 0).

`encode` and `decode` keep types apart: they write rules, keys and learner states.
"""

import json
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from littlestone.errors import BadExample

# The labels of a batch by a rule: one truth value a row.
Mask = npt.NDArray[np.bool_]

# The types a value has after `plain`.
Plain = None | bool | int | float | str | bytes | tuple[Any, ...]


_AS_IT_IS = {str, bytes, bool, NoneType}
SMALL = 1 << 62
# Bits. Longer whole numbers are identified by their text, as far as it can be printed.
LONGEST_INT = 4096


def plain(value: object) -> Plain:
    """Return a value as plain Python: no numpy scalars, no subclasses, no negative zero."""
    # Exact types, not isinstance: a subclass may print in another way.
    if type(value) in _AS_IT_IS:
        return cast(Plain, value)
    if isinstance(value, np.longdouble):
        value = float(value)  # `item` would return it as it is
    elif isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # Adding 0.0 turns a negative zero into zero.
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
        f"a value of type {type(value).__name__} has no canonical form: "
        "use a string, a number, a truth value, bytes, None, or a tuple of these"
    )


_MOST_DIGITS = 1 + LONGEST_INT * 3 // 10


def canonical(value: object) -> Plain:
    """Return the one value that stands for all values with the same text."""
    if type(value) is str:
        # The most common texts without a call, which gives what they are.
        return value if value[:1] != "-" and not value.isdecimal() else _from_text(value)
    match plain(value):
        case bool(v):
            return str(v)
        case float(v):
            return repr(v)
        case str(v):
            return _from_text(v)
        case bytes(v) if v.isascii():
            return _from_text(v.decode("ascii"))
        case int(v):
            return _from_whole(v)
        case tuple(parts):
            return tuple(map(canonical, parts))
        case v:
            return v


def _from_text(text: str) -> int | str:
    if text == "-0.0":  # what a negative zero prints as
        return "0.0"
    if not text.removeprefix("-").isdecimal() or len(text) > _MOST_DIGITS:
        return text
    # Only the form that Python prints: '007', '-0' and digits of other scripts are their own texts.
    number = int(text)
    return number if str(number) == text and number.bit_length() <= LONGEST_INT else text


def _from_whole(number: int) -> int | str:
    if number.bit_length() <= LONGEST_INT:
        return number
    try:
        return str(number)
    except ValueError:
        raise BadExample("a whole number that is too long to print is not a value") from None


def key_of(value: object) -> bytes:
    """Return the canonical bytes of what identifies a value."""
    # Two fast paths for the most common cells; both give what the last line gives.
    if type(value) is str and not value.isdecimal() and value[:1] != "-":
        return b"s" + value.encode("utf-8", "surrogatepass")
    if type(value) is int and -SMALL < value < SMALL:
        return b"i%x" % value  # its own canonical value
    return encode(canonical(value))


def encode(value: object) -> bytes:
    """Return the canonical bytes of a value, tagged by its type."""
    if type(value) is str:
        return b"s" + value.encode("utf-8", "surrogatepass")
    if type(value) is int and -SMALL < value < SMALL:
        return b"i%x" % value
    if type(value) is tuple:
        data = b"t"
        for part in map(encode, value):
            # With its length in front of each part, no two tuples have the same bytes.
            data += len(part).to_bytes(8) + part
        return data
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
            return encode(parts)


def decode(data: bytes) -> Plain:
    """Return the value that `encode` wrote."""
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
    """Return a value as JSON data: itself where JSON has it, else a tagged object."""
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
    """Return the value that `to_json` wrote."""
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


Made = TypeVar("Made", bound=Any)


def read_back(data: object, build: Callable[[], Made], what: str) -> Made:
    """Return what is built from JSON data; raise `BadExample` unless it writes the same again."""
    wrong = BadExample(f"{data!r} is not {what} that littlestone wrote")
    try:
        made = build()
        # Compared as text, so that it has one JSON: 1 is neither true nor 1.0.
        if json.dumps(made.to_json(), sort_keys=True) == json.dumps(data, sort_keys=True):
            return made
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise wrong from error
    raise wrong
