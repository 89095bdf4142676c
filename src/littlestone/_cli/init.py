"""Run `littlestone init`: propose a command from the header of a file, never from its values.

Values are read of one file only: `--sample`, which the person declares public.
"""

import math
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from os.path import realpath
from types import MappingProxyType
from typing import Any

import numpy as np

from littlestone._cli.terminal import plain_console, print_json
from littlestone._data.readers import PAIRS, Header, read_header, read_sample
from littlestone._hypotheses.cells import float_of, is_missing, passes, simplest
from littlestone._hypotheses.cells import label as truth
from littlestone._hypotheses.columns import Column
from littlestone._learners.plan_table import usual_delta
from littlestone._privacy.parameters import BadParameter

EPSILON = 1
_MOST_COLUMNS = 40
_WIDTH = 96


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _list(text: str) -> list[str]:
    return text.split()


# Words in the names of columns. Of the labels, those that say more come first.
_LABELS = _list(
    "label target failed failure fail crashed crash errored error fraudulent fraud chargeback "
    "abusive abuse spam churned churn attrition converted clicked purchased defaulted denied deny "
    "rejected delayed del15 cancelled canceled survived died death deceased readmitted readmission "
    "stroke anomaly intrusion attack phishing malware"
)
# Labels by their whole name only: as a word among others they say little.
_WHOLE_LABELS = _list("y class left exited click late incident positive response diagnosis")
# Names of labels, and of ordinary columns as well: in the last or the first column rather labels.
_PERHAPS_LABELS = _list(
    "default outcome result status income salary risk severity quality grade revenue claim left "
    "late incident positive response diagnosis"
)
# With one of these a name tells more about something than whether it happened.
_DETAILS = _set("code reason type message count rate num number time duration cost kind id")
_SEVERAL = _set("outcome result status code")
_PERSONS = _set(
    "user customer account patient member person employee subscriber client passenger student "
    "applicant borrower driver guest visitor email phone ip ssn"
)
# What belongs to one person, where it is numbered: a device may be a cause, and a device_id not.
_THINGS = _set("device card cookie household wallet profile phone imei")
_OF_PERSONS = _set(
    "surname firstname lastname fullname username address passport birthday birthdate dob"
)
_OF_A_PERSON = _set("id uuid guid key no nr nbr number hash name address")
_NAMES_OF_PERSONS = _set("first last middle full given family maiden")
_TIMES = _set("time timestamp date datetime ts day week year")
_OF_A_TIME = _set("event start end created updated local utc at hour")
# Names that end so: death_date, dep_time.
_POINTS_IN_TIME = _set("time timestamp date datetime")
_IDENTIFIERS = _set("id uuid guid index rowid unnamed serial sequence seq no nr number 0")
_OF_A_ROW = _set(
    "event row request transaction txn trace span session order message record log payment ticket "
    "invoice booking encounter visit policy claim loan application case"
)
_HASHES = _set(
    "hash md5 sha sha1 sha256 checksum digest token uuid guid fingerprint signature nonce"
)
_SCORES = _set("score risk probability prob")
_NUMBERS = _SCORES | _set(
    "amount price duration latency ms millis seconds bytes count total temperature ratio percent "
    "latitude longitude lat lon weight height distance balance quantity delay temp length depth "
    "width mm cm km kg kb mb gb"
)
# These hold numbers in one table and words in another: low, medium, high.
_PERHAPS_NUMBERS = _set(
    "age income salary size rate speed cost flight minute hours years level num"
)
# What a name ends in that has words, whatever it is about: age_group.
_OF_WORDS = _set("group band bucket range category class type tier bin code zone segment")


def _words(name: str) -> set[str]:
    """Return the words of a name: isFraud, is_fraud and IS-FRAUD have the same."""
    return set(_in_order(name))


def _in_order(name: str) -> list[str]:
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    words = [word.lower() for word in re.split(r"[\W_]+", apart) if word]
    numbered = _PERSONS | _THINGS | _OF_A_ROW
    return [
        part
        for word in words
        for part in (
            (word[:-2], "id") if word.endswith("id") and word[:-2] in numbered else (word,)
        )
    ]


@dataclass
class Proposal:
    """Hold a proposed command, and what it was chosen from."""

    file: str
    read: str
    rows: int | None
    horizon: int | None
    # How the file is read, as it was said.
    options: list[str] = field(default_factory=list)
    # How likely the label is one, by its name and place; None if it was said.
    rank: int | None = None
    label: str | None = None
    # What the sample says about the label: which option tells its positive values.
    positive: list[str] = field(default_factory=list)
    other_labels: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    # Of columns of numbers, the edges of their ranges in the sample.
    edges: dict[str, str] = field(default_factory=dict)
    # Columns that may hold numbers as well as words.
    unsure: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    # Columns that are called as times are: then the rows are likely to be in an order.
    times: list[str] = field(default_factory=list)

    @property
    def table(self) -> bool:
        """Return whether the file is taken for a finished table, whose order means nothing."""
        return self.horizon is None and not self.times

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
        columns = [f"{_escaped(name)}{self.edges.get(name, '')}" for name in self.columns]
        return f"causes:{','.join(columns) or 'COLUMN'}"

    def command(self) -> list[str]:
        """Return the words of the command."""
        words = ["littlestone", "learn", self.file, *self.options, "--class", self.spec]
        words += ["--label", self.label or "LABEL", *self.positive]
        words += ["--epsilon", str(EPSILON), "--delta", self.delta]
        words += [] if self.horizon is None else ["--horizon", str(self.horizon)]
        words += ["--table"] if self.table else []
        return [*words, "--out", "releases.jsonl", "--report", "report.html"]

    def plan(self) -> list[str]:
        """Return a command that forecasts how long a cause takes."""
        horizon = str(self.rounds or "ROWS")
        words = ["littlestone", "plan", self.spec, "--horizon", horizon, "--delta", self.delta]
        words += ["--table"] if self.table else []
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
            + " Add :2 behind them for causes of two columns at once."
            + (" The edges are quartiles of the sample, rounded." if self.edges else ""),
        )
        if self.unsure:
            yield (
                "unsure",
                f"{', '.join(map(repr, self.unsure))}: read as text. What holds numbers is better "
                f"read by ranges: {_escaped(self.unsure[0])}@10/20/50, with edges that you know "
                "beforehand.",
            )
        yield (
            f"--epsilon {EPSILON}",
            "the privacy budget of everything that is published, for ever. 1 is a usual choice; "
            "half of it needs twice the evidence.",
        )
        yield (
            f"--delta {self.delta}",
            "at most 1 / (10 x rows)"
            + ("." if self.rounds else ": enough for a million rows, and learn says if it is not."),
        )
        rows = "all" if self.rows is None else f"the {self.rows:,}"
        if self.table:
            yield (
                "--table",
                "no column is called as a time is, so the order of the rows seems to mean nothing: "
                "the table is learned whole. If the rows came one after the other, and causes may "
                "come and go, leave it out.",
            )
        else:
            yield (
                "--horizon",
                f"left out: {rows} rows of the file. If more will come, say how many in all, and "
                "keep the learner with --db run.db. If the order of the rows means nothing, add "
                "--table instead."
                if self.horizon is None
                else "as you said. Keep the learner with --db run.db, and it goes on with later "
                "rows.",
            )
        for column in self.users[:1]:
            cap = "" if self.table else " with --cap 1"
            yield (
                f"--user {shlex.quote(column)}",
                "not used: one row is protected. If a person has several rows, add it"
                f"{cap}: then all rows of a person are protected together.",
            )
        for column in self.scores[:1]:
            yield (
                "instead",
                f"to ask from which {column} on the label is 1: --class "
                f"{shlex.quote(f'thresholds:{_escaped(column)}:LO:HI:STEP')}, on a grid of yours.",
            )

    def _why_label(self) -> str:
        command = f"`littlestone init {shlex.quote(self.file)} --label COLUMN`"
        if self.label is None:
            words = (
                "no name looks like that of a label: say which column it is, "
                f"{command}, and it is left out of --class."
            )
        elif self.rank is None:
            words = "as you said."
        elif self.rank < _BY_PLACE:
            words = "by its name."
        elif self.rank < _LAST:
            words = f"unsure: other columns have such names, too. If it is another one: {command}."
        else:
            words = (
                "unsure: no name looks like that of a label, and the last column often is one. If "
                f"it is another one: {command}."
            )
        if self.other_labels:
            words += f" It may also be {' or '.join(map(repr, self.other_labels[:3]))}."
        if self.positive:
            words += (
                f" {' '.join(map(shlex.quote, self.positive))} by the values that it has in the "
                "sample: check that this is what you ask about."
            )
        else:
            words += (
                " It must hold 0 and 1, or true and false. Of other values, add which are positive "
                "(--positive VALUE, or --positive-if '>60' for numbers) or which are normal "
                "(--negative VALUE)."
            )
        if self.label is not None and _SEVERAL & _words(self.label):
            words += " This name sounds as if it held several values."
        return words

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as JSON data."""
        hidden = ("rank", "scores", "options")
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
    sample: str | None,
    horizon: int | None,
    format_: str | None,
    delimiter: str | None,
    encoding: str | None,
    as_json: bool,
) -> None:
    """Propose a command for a file, with the reason for each choice."""
    if horizon is not None and horizon < 1:
        raise BadParameter(f"--horizon is the number of rounds, at least 1: not {horizon}")
    how = format_, delimiter, encoding
    header = read_header(file, *how)
    if sample is not None and realpath(sample) == realpath(file):
        raise BadParameter(
            f"--sample {sample} is the file itself. A sample may be published: take another file, "
            "such as made-up rows or an old table that is public already"
        )
    seen = {} if sample is None else read_sample(sample, *how)
    proposal = propose(file, header, horizon, label, seen)
    options = zip(("--format", "--delimiter", "--encoding"), how, strict=True)
    proposal.options = [word for name, text in options if text for word in (name, text)]
    if as_json:
        print_json(proposal.to_json())
        return
    console = plain_console()
    looked = "No value was looked at: nothing below depends on one."
    if sample is not None:
        looked = f"And values of {sample}, which you declared public: what follows may show them."
    console.print(f"Read of {file}: {proposal.read}. {looked}\n")
    console.print(_command_line(proposal.command()))
    console.print(
        "\nBecause (decide before you look at the data; what is chosen afterwards is outside the "
        "guarantee):"
    )
    for part, why in proposal.reasons():
        console.print(_explained(part, why))
    if proposal.left_out:
        console.print("\nColumns left out:")
        for name, why in proposal.left_out.items():
            console.print(_explained(name or "(no name)", f"{why}."))
    rows = "" if proposal.rounds else " (write the number of rows in place of ROWS)"
    console.print(f"\nHow soon it would find a cause that is positive 30 % of the time{rows}:\n")
    console.print(_command_line(proposal.plan()))


def propose(
    file: str,
    header: Header,
    horizon: int | None = None,
    label: str | None = None,
    sample: Mapping[str, Column] = MappingProxyType({}),
) -> Proposal:
    """Return a proposal that follows from a header, and from a sample that is public."""
    proposal = Proposal(file, header.source, header.rows, horizon)
    if label is None:
        labels = _labels(header, sample)
        proposal.label, proposal.other_labels = next(iter(labels), None), list(labels)[1:]
        proposal.rank = min(labels.values(), default=None)
    elif header.names.count(label) == 1:
        proposal.label = label
    else:
        problem = "is there twice" if label in header.names else "is not there"
        listed = ", ".join(map(repr, header.names))
        raise BadParameter(f"{file}: --label {label!r} {problem}: the columns are {listed}")
    if proposal.label is not None and proposal.label in sample:
        proposal.positive = _positive_option(sample[proposal.label])
    types = header.types or {}
    for name in dict.fromkeys(header.names):
        if name == proposal.label:
            continue
        held: str | None = types.get(name)
        if name in sample and held in (None, "text", "number", "whole number"):
            # Whether it holds numbers is seen.
            why = _why_left_out(name, header, "text") or _why_no_cause(sample[name])
            if edges := _edges(sample[name]):
                proposal.edges[name] = edges
        else:
            why = _why_left_out(name, header, held)
            if why is None and held is None and _is_number(name, certain=True):
                proposal.unsure.append(name)
        if why is None and len(proposal.columns) == _MOST_COLUMNS:
            why = f"the class has {_MOST_COLUMNS} columns already; put it in place of another"
        if why is None:
            proposal.columns.append(name)
        else:
            proposal.left_out[name] = why
            if why.startswith(_A_TIME):
                proposal.times.append(name)
        if _is_user(name):
            proposal.users.append(name)
        if _words(name) & _SCORES:
            proposal.scores.append(name)
    return proposal


# A column of more numbers than these is read by ranges.
_MOST_NUMBERS = 20


def _counts(column: Column) -> Counter[Any]:
    """Return the values of a column that are not missing, and how many rows have each."""
    counts = Counter(column.tolist())
    return Counter({value: rows for value, rows in counts.items() if not is_missing(value)})


def _are_numbers(values: Collection[Any]) -> bool:
    return len(values) > _MOST_NUMBERS and all(passes(float_of, value) for value in values)


def _why_no_cause(column: Column) -> str | None:
    """Return why a column is no cause by its values; None if it may be one."""
    values = _counts(column)
    if len(values) < 2:
        return "it has no two values in the sample"
    if not _are_numbers(values):
        differs = 2 * len(values) > len(column)
        return "it differs in more than half of the rows of the sample" if differs else None
    whole = all(float_of(value) % 1 == 0 for value in values)
    return "it numbers the rows of the sample" if whole and len(values) == len(column) else None


def _edges(column: Column) -> str:
    """Return rounded quartiles of a column of numbers, as specifications write edges."""
    values = _counts(column)
    if not _are_numbers(values):
        return ""
    quartiles = np.quantile([float_of(value) for value in values.elements()], [0.25, 0.5, 0.75])
    edges = sorted({float(f"{edge:.2g}") for edge in quartiles})
    return "@" + "/".join(str(simplest(edge)) for edge in edges)


def _positive_option(column: Column) -> list[str]:
    """Return the option that says which labels are positive; none if they are 0 and 1."""
    values = _counts(column)
    if all(passes(truth, value) for value in values):
        return []
    if _are_numbers(values):
        return ["--positive-if", "CONDITION"]
    if len(values) != 2:
        return ["--positive", "VALUE"]
    # A usual word for positive; else the rarer one.
    usual = [value for value in values if str(value).lower() in PAIRS.values()]
    return ["--positive", str(usual[0] if usual else values.most_common()[-1][0])]


# Ranks of labels from which on a name does not say it alone; the last of them says nothing.
_BY_PLACE, _BY_CHANCE, _LAST = 200, 300, 400


def _labels(header: Header, sample: Mapping[str, Column]) -> dict[str, int]:
    """Return the columns that may hold labels, the likeliest first, each with its rank."""
    types, ranks = header.types or {}, dict[str, int]()
    for place, name in enumerate(header.names):
        at_end = place in (0, len(header.names) - 1)
        rank = _name_rank(name, at_end)
        held = types.get(name)
        if rank is None and held == "truth value":
            rank = _BY_PLACE + 50
        if rank is None and place == len(header.names) - 1 and _why_left_out(name, header) is None:
            rank = _LAST
        if rank is None or header.names.count(name) > 1 or held in ("number", "time", "other"):
            continue
        # Of two that are as likely, the one of truth values; and what has two values before others.
        several = name in sample and len(_counts(sample[name])) != 2
        ranks[name] = 2 * (rank + 1000 * several) + (held != "truth value")
    ranked = sorted(ranks, key=ranks.__getitem__)
    return {
        name: ranks[name] // 2 for name in ranked if ranks[name] < 2 * _LAST or name == ranked[0]
    }


def _name_rank(name: str, at_end: bool) -> int | None:
    """Return how likely a name is that of a label, the likeliest 0; None if it is not."""
    words = _in_order(name)
    if _ends_in_time(name) or set(words) & _SCORES - {"risk"}:
        return None
    labels = [_LABELS.index(word) for word in words if word in _LABELS]
    if labels and not _DETAILS & set(words):
        return min(labels)
    if len(words) == 1 and words[0] in _WHOLE_LABELS:
        return 100 + _WHOLE_LABELS.index(words[0])
    perhaps = [_PERHAPS_LABELS.index(word) for word in words if word in _PERHAPS_LABELS]
    if labels or perhaps:
        return (_BY_PLACE if at_end and perhaps else _BY_CHANCE) + min(perhaps, default=0)
    return None


_A_TIME = "a time: the order of the rows is all that counts"


def _why_left_out(name: str, header: Header, held: str | None = None) -> str | None:
    """Return why a column is no cause; None if it may be one."""
    words = _words(name)
    if not name.strip():
        return "it has no name"
    if header.names.count(name) > 1:
        return "it is there twice"
    if _is_person(name):
        return "it names a person: a cause would publish the name"
    timed = words & _TIMES and words <= _TIMES | _OF_A_TIME
    if held == "time" or timed or "at" in words:
        return _A_TIME
    if held in (None, "whole number") and _ends_in_time(name):
        return (
            f"{_A_TIME}. If it is a duration, write "
            f"{_escaped(name)}@10/20/50, with edges that you know beforehand"
        )
    if words == {"month"} and any("year" in _words(other) for other in header.names):
        return _A_TIME
    if words == {"id"}:
        return f"it numbers the rows. If it names persons instead: --user {shlex.quote(name)}"
    if words & _IDENTIFIERS and words <= _IDENTIFIERS | _OF_A_ROW:
        return "it numbers the rows"
    if words & _HASHES:
        return "it differs in nearly every row"
    if held == "truth value":
        return "truth values: convert the column to text to use it"
    if held == "other":
        return "its type cannot be read as text"
    if held == "number" or (held != "text" and _is_number(name, held is not None)):
        return f"a number: write {_escaped(name)}@10/20/50, with edges that you know beforehand"
    return None


def _is_number(name: str, certain: bool) -> bool:
    """Return whether a column is called as numbers are; `certain` if it is known to hold some."""
    words = _in_order(name)
    numbers = _NUMBERS | _PERHAPS_NUMBERS if certain else _NUMBERS
    return bool(numbers & set(words)) and not _OF_WORDS & set(words[-1:])


def _ends_in_time(name: str) -> bool:
    return bool(_POINTS_IN_TIME & {*_in_order(name)[-1:]})


def _is_person(name: str) -> bool:
    """Return whether a column tells who somebody is."""
    words = _words(name)
    if "name" in words and words <= _NAMES_OF_PERSONS | {"name"}:
        return True
    persons = _PERSONS | _OF_PERSONS
    return _is_user(name) or (bool(words & persons) and words <= persons | _OF_A_PERSON)


def _is_user(name: str) -> bool:
    """Return whether a column may be the one of --user: several persons may share a name."""
    words = _words(name)
    thing = bool(words & _THINGS and words & _OF_A_PERSON)
    return bool(words & _PERSONS or thing) and words <= _PERSONS | _THINGS | _OF_A_PERSON


def _escaped(name: str) -> str:
    """Return a name as specifications of classes spell it."""
    return re.sub(r"([:,@\\])", r"\\\1", name)


def _explained(part: str, why: str) -> str:
    """Return a line for a part of the command, with the reason beside it."""
    head, indent = f"  {part:<19} ", " " * 22
    if len(head) > len(indent):
        return (
            f"{head.rstrip()}\n{textwrap.indent(textwrap.fill(why, _WIDTH - len(indent)), indent)}"
        )
    return textwrap.fill(why, _WIDTH, initial_indent=head, subsequent_indent=indent)


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
    return " \\\n".join(f"  {each}" for each in [*lines, line])
