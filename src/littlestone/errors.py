"""The base of every error that littlestone raises on purpose.

Errors about examples and classes. Each message says what is wrong, where, and what to do.
"""


class LittlestoneError(Exception):
    """Report what is wrong, where, and what to do.

    Catch it to catch all of them; each is also the built-in exception that people expect
    (`ValueError` for bad input, `RuntimeError` for what can no longer be done).

    Examples
    --------
    >>> import littlestone as ls
    >>> try:
    ...     ls.Points().learn(ls.Points().start(), object(), 1)
    ... except ls.LittlestoneError as error:
    ...     print(type(error).__name__, isinstance(error, ValueError))
    BadExample True
    """


class BadExample(LittlestoneError, ValueError):
    """Report a row or a label that the class cannot read.

    Parameters
    ----------
    sentence : str
        The message, without the row.
    row : int, optional
        The index of the row in its batch.
    """

    def __init__(self, sentence: str, row: int | None = None) -> None:
        super().__init__(sentence if row is None else f"row {row}: {sentence}")
        self.sentence, self.row = sentence, row


class BadColumn(BadExample):
    """Report a column whose type may have been guessed from its rows: no row of it is read."""


class BadClass(LittlestoneError, ValueError):
    """Report parameters that make no valid hypothesis class or rule.

    Parameters
    ----------
    sentence : str
        The message.
    field : str, optional
        The parameter to correct.
    """

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.field = field


class TooLarge(LittlestoneError, ValueError):
    """Report a computation that was refused as too slow; the message names a size that works."""
