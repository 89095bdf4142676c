"""Options of the command line: which of them were said."""

import typer


def given(context: typer.Context) -> frozenset[str]:
    """The options that were said, and not left to their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(n for n, source in sources.items() if source and source.name == "COMMANDLINE")
