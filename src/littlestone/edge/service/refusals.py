"""Refusals: what a client is told when it does not get what it asked for. Always a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from littlestone.edge.blocks import BadRow


class Refused(Exception):
    """An answer that is no success: a status, a sentence, and perhaps the rows that are at fault.

    >>> Refused(413, "too long").to_json()
    {'error': 'too long'}
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        rows: Sequence[BadRow] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.rows = status, sentence, rows
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        rows = [{"row": row.line, "error": row.sentence} for row in self.rows]
        return {"error": self.sentence} | ({"rows": rows} if rows else {})


def unavailable(sentence: str, retry: int | None = None) -> Refused:
    """The service cannot do it now; with `retry`, it may be able to after so many seconds."""
    return Refused(503, sentence, headers={} if retry is None else {"Retry-After": str(retry)})
