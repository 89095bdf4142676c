"""Columns of values: parts that are joined again and again, as blocks of a file are."""

from littlestone._hypotheses.columns import column_from_cells, join_columns


def test_values_that_no_row_has_any_more_do_not_add_up() -> None:
    rest = column_from_cells([])
    for block in range(20):
        ids = [f"{block}-{n}" for n in range(100)]
        joined = join_columns([rest, column_from_cells(ids)])
        assert joined.tolist() == rest.tolist() + ids
        assert len(joined.values) <= len(joined)
        rest = joined[-5:]  # what is left of a block begins the next one
