"""The base of every error that littlestone raises on purpose."""


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
