"""Run `littlestone show` and `backup`: read a stored learner, copy it, or go on with a copy."""

import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from littlestone._cli.terminal import (
    plain_console,
    print_json,
    print_owner_lines,
    print_public,
    say,
)
from littlestone._display import library_version
from littlestone._learners.cause_counts import MILLION
from littlestone._privacy.accounting import in_sections
from littlestone._privacy.parameters import BadParameter
from littlestone._report.causes import csv_of, markdown_of
from littlestone._report.report import (
    counts_in_words,
    counts_of,
    errors_by_kind,
    public_of,
    refuse_file,
    some,
    statement_of,
    write_private_json,
)
from littlestone._store.copies import StoreMarks, back_up, take_over
from littlestone._store.serialization import OLD_COPY
from littlestone._store.store import StoreView, read_store

MOST_VOTES = 8
PROMISED = (
    "The guarantee rests on a promise of the operator: the file is a backup copy that was taken "
    "over at round {rounds:,} without its original, which has published nothing after that round "
    "and never goes on"
)


def show(
    file: Path,
    *,
    statement: bool,
    markdown: bool,
    as_csv: bool,
    as_json: bool,
    private: bool,
    private_json: Path | None,
) -> None:
    """Show what a stored learner has published; with --private, what only its owner may see."""
    # Before anything is printed: a refusal afterwards would look like half a success.
    refuse_file(private_json)
    if statement + markdown + as_csv + as_json > 1:
        raise BadParameter("--statement, --markdown, --csv and --json are one or the other")
    _refuse_missing(file)
    shown = read_store(file)
    if as_json:
        public = public_of(shown.about, shown.published) | marks_to_json(shown.marks)
        print_json({"public": public})
    elif statement:
        typer.echo(_statement(shown))
    elif markdown:
        typer.echo(markdown_of(shown.about, shown.published))
    elif as_csv:
        typer.echo(csv_of(shown.published), nl=False)
    else:
        _print_public(plain_console(), shown)
    write_private_json(private_json, hidden(shown))
    if private:
        # Both streams may be one terminal: the public side comes first.
        sys.stdout.flush()
        _print_private(plain_console(stderr=True), shown)


def _statement(shown: StoreView) -> str:
    """Return the statement about a stored learner, on one page."""
    seen = "" if shown.about.terms.table else f", as of event {shown.published.rounds:,}"
    title = f"Privacy statement{seen} of run {shown.run}"
    sections = statement_of(shown.about, shown.published)
    if shown.marks.promised is not None:
        sections["What it rests on"] = PROMISED.format(rounds=shown.marks.promised) + "."
    return f"{title}\n\n{in_sections(sections)}\n\nComputed by littlestone {library_version()}."


def marks_to_json(marks: StoreMarks) -> dict[str, Any]:
    """Return what a file says of itself, as JSON data: nothing for one that just goes on."""
    data: dict[str, Any] = {"old_copy": OLD_COPY} if marks.old_copy else {}
    if marks.copy is not None:
        data["backup_copy"] = {"round": marks.copy.rounds}
    if marks.handed_over is not None:
        data["handed_over"] = True
    if marks.promised is not None:
        data["promised"] = PROMISED.format(rounds=marks.promised)
    return data


def hidden(shown: StoreView) -> dict[str, Any]:
    """Return what belongs to the data owner, as JSON data."""
    # Of the trace the last sample is enough: it has the votes as they are now.
    live, last = shown.saved.state, shown.saved.trace.new[-1:]
    loop = live["loop"]
    told: dict[str, Any] = {}
    if "missed" in loop:
        cost = loop["missed"] + loop["alarm_cost"] / MILLION
        told = errors_by_kind(loop["mistakes"], loop["missed"], cost)
    return {
        **counts_of(
            shown.published.rounds, live["null_rounds"], live.get("beyond_cap", 0), loop["mistakes"]
        ),
        **told,
        "votes": [[str(rule), n] for entry in last for rule, n in entry.sample.votes],
        "opened": shown.generation,
        "sources": [
            {"name": source.name, "rows": source.rows, "repeat": source.repeat}
            for source in shown.sources
        ],
    }


def _print_public(console: Console, shown: StoreView) -> None:
    print_public(console, shown.about, shown.published)
    if shown.published.final is not None:
        say(console, shown.published.final)
    if shown.marks.promised is not None:
        say(console, PROMISED.format(rounds=shown.marks.promised))
    if (sentence := shown.marks.sentence()) is not None:
        say(console, sentence)


def _print_private(console: Console, shown: StoreView) -> None:
    private = hidden(shown)
    lines = list(counts_in_words(private, "row" if shown.about.terms.table else "round"))
    lines += [f"{votes:,} votes for {rule}" for rule, votes in private["votes"][:MOST_VOTES]]
    for source in private["sources"]:
        again = f", learned for the {source['repeat']}. time" if source["repeat"] > 1 else ""
        lines.append(f"{source['rows']:,} rows of {source['name']}{again}")
    print_owner_lines(console, [*lines, f"opened for writing {some(private['opened'], 'time')}"])


USAGE = (
    "say which file to copy and where (littlestone backup RUN.DB COPY.DB), or which copy to go on "
    "with (littlestone backup --take-over COPY.DB)"
)


def backup(
    file: Path | None,
    copy: Path | None,
    *,
    continued: Path | None,
    original: Path | None,
    original_lost: bool,
) -> None:
    """Copy a stored learner to another file, also while it is running."""
    if continued is None:
        if file is None or copy is None or original is not None or original_lost:
            raise BadParameter(USAGE)
        _refuse_missing(file)
        mark = back_up(file, copy)
        typer.echo(
            f"{copy} is a copy of {file} at round {mark.rounds:,}. `littlestone show` reads it; to "
            f"go on with it in the place of {file}: littlestone backup --take-over {copy}"
        )
        return
    if file is not None or (original is not None and original_lost):
        raise BadParameter(USAGE)
    _refuse_missing(continued)
    rounds = take_over(continued, original, lost=original_lost)
    typer.echo(f"the learner goes on in {continued}, after round {rounds:,}")


def _refuse_missing(file: Path) -> None:
    if not file.exists():
        raise FileNotFoundError(2, "there is no such file", str(file))
