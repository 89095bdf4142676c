"""Run `littlestone init`: propose a command from the header of a file, never from its values."""

import json
import math
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import typer

from littlestone._cli.terminal import plain_console
from littlestone._data.readers import Header, read_header
from littlestone._learners.plan_table import usual_delta
from littlestone._privacy.parameters import BadParameter

EPSILON = 1
_MOST_COLUMNS = 12
_WIDTH = 96


def _words(name: str) -> set[str]:
    """Return the words of a name: isFraud, is_fraud and IS-FRAUD have the same."""
    return set(_in_order(name))


def _in_order(name: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.split(r"[\W_]+", apart) if word]


# Words in the names of columns. Of the labels, those that say more come first.
_LABELS = re.findall(
    r"\w+",
    "label target failed failure fail crashed crash errored error fraudulent fraud chargeback "
    "abusive abuse spam churned churn converted clicked defaulted default denied deny rejected "
    "late delayed cancelled canceled survived died death deceased readmitted anomaly positive "
    "incident outcome result status y",
)
_SEVERAL = _words("outcome result status code")
_PERSONS = _words(
    "user customer account patient member person employee subscriber client email phone ip ssn"
)
_OF_PERSONS = _words(
    "surname firstname lastname fullname username address passport birthday birthdate dob"
)
_OF_A_PERSON = _words("id uuid guid key no number hash name address")
_NAMES_OF_PERSONS = _words("first last middle full given family maiden")
_TIMES = _words("time timestamp date datetime ts day week month year")
_OF_A_TIME = _words("event start end created updated local utc at hour")
# Names that end so: death_date, dep_time.
_POINTS_IN_TIME = _words("time timestamp date datetime")
_IDENTIFIERS = _words("id uuid guid index")
_OF_A_ROW = _words(
    "event row request transaction txn trace span session order message record log payment"
)
_SCORES = _words("score risk probability prob")
_NUMBERS = _SCORES | _words(
    "amount price age duration latency ms millis seconds size bytes count total temperature rate "
    "ratio percent latitude longitude lat lon weight height distance speed balance income salary "
    "cost quantity delay flight minute temp length depth width mm cm km kg kb mb gb"
)


@dataclass
class Proposal:
    """Hold a proposed command, and what it was chosen from."""

    file: str
    read: str
    rows: int | None
    horizon: int | None
    # How the file is read, as it was said.
    options: list[str] = field(default_factory=list)
    named: bool = False
    label: str | None = None
    other_labels: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> int | None:
        """Return the number of rounds, if it is known."""
        return self.rows if self.horizon is None else self.horizon

    @property
    def delta(self) -> str:
        """Return the usual delta, or less where so many rounds need it."""
        return f"1e-{-round(math.log10(usual_delta(self.rounds or 1)))}"

    @property
    def spec(self) -> str:
        """Return the class of rules."""
        return f"causes:{','.join(map(_escaped, self.columns)) or 'COLUMN'}"

    def command(self) -> list[str]:
        """Return the words of the command."""
        words = ["littlestone", "learn", self.file, *self.options, "--class", self.spec]
        words += ["--label", self.label or "LABEL"]
        words += ["--epsilon", str(EPSILON), "--delta", self.delta]
        words += [] if self.horizon is None else ["--horizon", str(self.horizon)]
        return [*words, "--out", "releases.jsonl", "--report", "report.html"]

    def plan(self) -> list[str]:
        """Return a command that forecasts how long a cause takes."""
        horizon = str(self.rounds or "ROWS")
        words = ["littlestone", "plan", self.spec, "--horizon", horizon, "--delta", self.delta]
        return [*words, "--rate", "0.3", "--share", "0.05", "--base", "0.01"]

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Yield each part of the command with the reason for it."""
        yield f"--label {self.label or 'LABEL'}", self._why_label()
        yield (
            "--class causes:...",
            (
                "any of these columns may hold a cause, such as column = 'value'."
                if self.columns
                else "no column is left that may hold a cause: write yours in place of COLUMN."
            )
            + " Add :2 behind them for causes of two columns at once.",
        )
        yield (
            f"--epsilon {EPSILON}",
            "the privacy budget of everything that is published, for ever. 1 is a usual choice; "
            "half of it needs twice the evidence.",
        )
        yield (
            f"--delta {self.delta}",
            "at most 1 / (10 x rows)"
            + ("." if self.rounds else ", so enough for a million rows. Of more, learn warns."),
        )
        rows = "all" if self.rows is None else f"the {self.rows:,}"
        yield (
            "--horizon",
            f"left out: {rows} rows of the file. If more will come, say how many in all, and keep "
            "the learner with --db run.db."
            if self.horizon is None
            else "as you said. Keep the learner with --db run.db, and it goes on with later rows.",
        )
        for column in self.users[:1]:
            yield (
                f"--user {shlex.quote(column)}",
                "not used: one row is protected. If a person has several rows, add it with --cap "
                "5: then up to 5 rows of a person count, and all of them are protected together.",
            )
        for column in self.scores[:1]:
            yield (
                "instead",
                f"to ask from which {column} on the label is 1: --class "
                f"{shlex.quote(f'thresholds:{_escaped(column)}:LO:HI:STEP')}, on a grid of yours.",
            )

    def _why_label(self) -> str:
        words = "as you said." if self.named else "by its name."
        if self.label is None:
            words = (
                "no name looks like that of a label: say which column it is, `littlestone init "
                f"{shlex.quote(self.file)} --label COLUMN`, and it is left out of --class."
            )
        if self.other_labels:
            words += f" It may also be {' or '.join(map(repr, self.other_labels[:3]))}."
        words += (
            " It must hold 0 and 1, or true and false. Of other values, add which are positive "
            "(--positive VALUE, or --positive '>60' for numbers) or which are normal "
            "(--negative VALUE)."
        )
        if self.label is not None and _SEVERAL & _words(self.label):
            words += " This name sounds as if it held several values."
        return words

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as JSON data."""
        hidden = ("named", "scores", "options")
        held = {name: value for name, value in vars(self).items() if name not in hidden}
        return held | {
            "command": self.command(),
            "class": self.spec,
            "epsilon": EPSILON,
            "delta": float(self.delta),
            "reasons": dict(self.reasons()),
            "plan": self.plan(),
        }


def init(
    file: str,
    *,
    label: str | None,
    horizon: int | None,
    format_: str | None,
    delimiter: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Propose a command for a file, with the reason for each choice."""
    if horizon is not None and horizon < 1:
        raise BadParameter(f"--horizon is the number of rounds, at least 1: not {horizon}")
    header = read_header(file, format_, delimiter, encoding)
    found = propose(file, header, horizon, label)
    said = {"--format": format_, "--delimiter": delimiter, "--encoding": encoding}
    found.options = [word for name, text in said.items() if text for word in (name, text)]
    if as_json:
        typer.echo(json.dumps(found.to_json(), ensure_ascii=False))
        return
    console = plain_console()
    console.print(
        f"Read of {file}: {found.read}. No value was looked at: nothing below depends on one.\n"
    )
    console.print(_command_line(found.command()))
    console.print(
        "\nBecause (decide before you look at the data; what is chosen afterwards is outside the "
        "guarantee):"
    )
    for part, why in found.reasons():
        console.print(_explained(part, why))
    if found.left_out:
        console.print("\nColumns left out:")
        for name, why in found.left_out.items():
            console.print(_explained(name or "(no name)", f"{why}."))
    rows = "" if found.rounds else " (write the number of rows in place of ROWS)"
    console.print(f"\nHow soon it would find a cause that is positive 30 % of the time{rows}:\n")
    console.print(_command_line(found.plan()))


def propose(
    file: str, header: Header, horizon: int | None = None, label: str | None = None
) -> Proposal:
    """Return a proposal that follows from a header."""
    proposal = Proposal(file, header.source, header.rows, horizon)
    if label is None:
        labels = _labels(header)
        proposal.label, proposal.other_labels = (labels[0], labels[1:]) if labels else (None, [])
    elif header.names.count(label) == 1:
        proposal.label, proposal.named = label, True
    else:
        there = "is there twice" if label in header.names else "is not there"
        listed = ", ".join(map(repr, header.names))
        raise BadParameter(f"{file}: --label {label!r} {there}: the columns are {listed}")
    types = header.types or {}
    for name in dict.fromkeys(header.names):
        if name == proposal.label:
            continue
        why = _why_left_out(name, header, types.get(name))
        if why is None and len(proposal.columns) == _MOST_COLUMNS:
            why = f"the class has {_MOST_COLUMNS} columns already; put it in place of another"
        if why is None:
            proposal.columns.append(name)
        else:
            proposal.left_out[name] = why
        if _is_user(name):
            proposal.users.append(name)
        if _words(name) & _SCORES:
            proposal.scores.append(name)
    return proposal


def _labels(header: Header) -> list[str]:
    """Return the columns that may hold labels, the likeliest first."""
    types = header.types or {}
    ranks: dict[str, int] = {}
    for name in header.names:
        held = types.get(name)
        named = [_LABELS.index(word) for word in _words(name) if word in _LABELS]
        fits = held in (None, "truth value", "whole number", "text")
        if _ends_in_time(name):
            continue
        if fits and header.names.count(name) == 1 and (named or held == "truth value"):
            # Among names that say as much, a column of truth values comes first.
            ranks[name] = 2 * min(named, default=len(_LABELS)) + (held != "truth value")
    return sorted(ranks, key=ranks.__getitem__)


def _why_left_out(name: str, header: Header, held: str | None) -> str | None:
    """Return why a column is no cause; None if it may be one."""
    words = _words(name)
    if not name:
        return "it has no name"
    if header.names.count(name) > 1:
        return "it is there twice"
    if _is_person(name):
        return "it names a person: a cause would publish the name"
    timed = words & _TIMES and words <= _TIMES | _OF_A_TIME
    if held == "time" or timed or "at" in words:
        return "a time: the order of the rows is all that counts"
    if held in (None, "whole number") and _ends_in_time(name):
        return (
            "a time: the order of the rows is all that counts. If it is a duration, write "
            f"{_escaped(name)}@10/20/50, with edges that you know beforehand"
        )
    if words & _IDENTIFIERS and words <= _IDENTIFIERS | _OF_A_ROW:
        return "it numbers the rows"
    if held == "truth value":
        return "truth values: convert the column to text to use it"
    if held == "other":
        return "its type cannot be read as text"
    if held == "number" or (held != "text" and words & _NUMBERS):
        return f"a number: write {_escaped(name)}@10/20/50, with edges that you know beforehand"
    return None


def _ends_in_time(name: str) -> bool:
    return bool(_POINTS_IN_TIME & {*_in_order(name)[-1:]})


def _is_person(name: str) -> bool:
    """Return whether a column tells who somebody is."""
    words = _words(name)
    if words & _NAMES_OF_PERSONS and "name" in words:
        return True
    known = _PERSONS | _OF_PERSONS
    return bool(words & known) and words <= known | _OF_A_PERSON


def _is_user(name: str) -> bool:
    """Return whether a column may be the one of --user: several persons may share a name."""
    words = _words(name)
    return bool(words & _PERSONS) and words <= _PERSONS | _OF_A_PERSON


def _escaped(name: str) -> str:
    """Return a name as specifications of classes spell it."""
    return re.sub(r"([:,@\\])", r"\\\1", name)


def _explained(part: str, why: str) -> str:
    """Return a line for a part of the command, with the reason beside it."""
    indent = f"  {part:<19} "
    return textwrap.fill(why, _WIDTH, initial_indent=indent, subsequent_indent=" " * 22)


def _command_line(words: list[str]) -> str:
    """Return a command as one can paste it, in lines that break before options."""
    lines, line = [], ""
    for word in words:
        quoted = shlex.quote(word)
        if line and word.startswith("--") and len(line) + len(quoted) > _WIDTH - 30:
            lines.append(line)
            line = "    " + quoted
        else:
            line = f"{line} {quoted}" if line else quoted
    return " \\\n".join(f"  {one}" for one in [*lines, line])
