"""What can be wrong with what a person gave us.

Each error is a sentence that says what, where, and what to do.
"""


class BadExample(ValueError):
    """A row or a label that the class cannot read; in a batch, `row` says which."""

    def __init__(self, sentence: str, row: int | None = None) -> None:
        super().__init__(sentence if row is None else f"row {row}: {sentence}")
        self.sentence, self.row = sentence, row


class BadColumn(BadExample):
    """A whole column of a type that may have been guessed from its rows: no row of it is read."""


class BadClass(ValueError):
    """A hypothesis class that does not make sense as given; `field` names the part to mend."""

    def __init__(self, sentence: str, field: str | None = None) -> None:
        super().__init__(sentence)
        self.field = field


class TooLarge(ValueError):
    """A computation refused before it gets slow; the sentence names a size that would work."""
