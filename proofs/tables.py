"""Evaluate the mechanisms of Executable.v in exact rationals, and write the tables.

Usage: python proofs/tables.py [FOLDER], from anywhere; `make -C proofs tables` calls it. It needs
coqc, and Executable.vo, Effect.vo and Users.vo. A table is a list of instances: what a mechanism
reads, and its law as Coq computed it. tests/privacy/test_proof_tables.py computes the same laws from
the code.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Instance = dict[str, Any]

# Bases that stand for exp(-1/scale). No sum of their powers that occurs below is a power of two:
# the code's draw by bits would never decide at a boundary that is a dyadic number.
BASES = ("1/3", "2/5", "6/7")

PRELUDE = """
Require Import ZArith List QArith.
From Littlestone Require Import Executable.
From Littlestone Require Sums Effect Users.
Existing Instance Sums.EqDec_Z.
Import ListNotations.
Set Printing Width 1000000.
Set Printing Depth 1000000.
Open Scope Z_scope.
Definition ratio (x : Q) : Z * Z := let y := Qred x in (Qnum y, Zpos (Qden y)).
Definition ratios (l : list Q) := map ratio l.
Definition outcomes {A} (l : law rational A) := map (fun xp => (fst xp, ratio (snd xp))) l.
Definition bools (s t : list bool) : bool := if list_eq_dec Bool.bool_dec s t then true else false.
Definition same_key (s t : option Z) : bool :=
  match s, t with None, None => true | Some x, Some y => x =? y | _, _ => false end.
Fixpoint same_run (s t : list (bool * option Z)) : bool :=
  match s, t with
  | [], [] => true
  | (b, x) :: s, (c, y) :: t => (eqb b c && same_key x y && same_run s t)%bool
  | _, _ => false
  end.
Fixpoint place (b : Z * Z) (causes : list (Z * Z)) : Z :=
  match causes with
  | [] => -1
  | c :: rest => if (fst b =? fst c) && (snd b =? snd c) then 0 else 1 + place b rest
  end.
Definition effect positive negative missed alarm causes (row : Effect.row Z Z) : list Z :=
  let e := Effect.effect_of positive negative missed alarm causes row in
  [Effect.loss e; Effect.for_keys e; Effect.for_drop e] ++
  match Effect.cell e with
  | None => []
  | Some (b, y) =>
      [match b with None => -1 | Some k => place k causes end;
       match y with None => 0 | Some z => z end]
  end.
"""


def rational(text: str) -> str:
    """Return a rational as Coq writes it."""
    value = Fraction(text)
    return f"(({value.numerator}) # {value.denominator})"


def integers(values: list[int]) -> str:
    """Return a list of integers of Z."""
    return "[" + "; ".join(f"({n})" for n in values) + "]"


def pairs(values: list[list[int]]) -> str:
    """Return a list of pairs of integers of Z."""
    return "[" + "; ".join(f"(({x}), ({y}))" for x, y in values) + "]"


def votes(values: list[list[int]]) -> str:
    """Return a list of keys with their votes."""
    return "[" + "; ".join(f"({key}, {n}%nat)" for key, n in values) + "]"


def exponential() -> Iterator[Instance]:
    """Yield scores: a unit below the best costs a factor `base`."""
    for base in BASES:
        for scores in [*product((0, 1, 3), repeat=3), (5, -5, 0, 0, 2), (-7, -7), (40, 0, 1)]:
            yield {"base": base, "scores": list(scores)}


def exponential_term(x: Instance) -> str:
    """Return the law of Theorem 6, all weights 1."""
    candidates = "; ".join(f"(1%Q, ({n}))" for n in x["scores"])
    return f"ratios (exponential rational {rational(x['base'])} [{candidates}])"


# Rows that speak on moves, as negatives and positives: those of published causes alone, those that
# list an active key (its width, and its number among the known ones or -1), and, for each cause,
# those of its own that list a narrower key.
BALLOTS: list[tuple[list[list[int]], list[list[int]], list[list[list[int]]]]] = [
    ([], [], []),
    ([], [[0, -1, 0, 1], [1, -1, 2, 1]], []),
    ([[1, 0]], [[0, -1, 0, 2], [0, 1, 0, 1]], [[[1, 0], [0, 0]]]),
    ([[0, 1], [2, 0]], [[0, -1, 1, 3], [1, 0, 3, 0], [1, -1, 0, 5]], []),
    ([[0, 0], [4, 1]], [[0, 0, 0, 2], [0, 1, 2, 0], [1, -1, 0, 2]], [[], [[3, 0], [1, 1]]]),
    ([[3, 2]], [], [[[3, 2], [0, 2], [2, 0]]]),
]


def causes() -> Iterator[Instance]:
    """Yield draws of the causes learner: known, unknown and frequent keys, drops and replaces."""
    for base, (units, weights, margin, gaps), (drops, adds, replaces) in product(
        ("2/5", "6/7"),
        (
            (1, [1, 1], 0, None),
            (4, [4, 1], 1, None),
            (9, [5, 7], 0, [0, 6]),
            (4, [2, 3], 1, [3, 0]),
        ),
        BALLOTS,
    ):
        for delta, may_add in (("1/10", True), ("1/1000", True), ("1/10", False)):
            yield {"base": base, "delta": delta, "units": units, "weights": weights, "margin": margin,
                   "penalty": 1, "prior": ["1/2", "1/6"], "frequent": gaps and ["1/7", "1/5"],
                   "gaps": gaps, "known": [[3, "1/11"], [1, "1/13"]], "replace": ["1/3", 2],
                   "may_add": may_add, "drops": drops, "adds": adds, "replaces": replaces}  # fmt: skip


def unknown_key(
    x: Instance, weight: Fraction, width: int, most: int, gain: str, support: str
) -> str:
    """Return an unknown key: less what one row, or user, gives it, or frequent."""
    gap, bar = 0, most + x.get("margin", 0) * x["units"]
    high = bar
    if x["gaps"] is not None:
        gap, bar = x["gaps"][width], bar - most
        weight, high = max(weight, Fraction(x["frequent"][width])), high + gap
    return f"unknown_key rational {rational(str(weight))} ({gain}) {bar} ({support}) {high}"


def causes_term(x: Instance) -> str:
    """Return the law of the draw of Theorem 15: nothing, drops, adds, idle known keys, replaces."""
    (positive, negative), units = x["weights"], x["units"]
    (replace_weight, replace_penalty), margin = x["replace"], x["margin"] * units

    def gain(rows: list[int], negative: int = negative) -> str:
        return f"counted {positive} {negative} ({rows[0]}, {rows[1]})"

    moves = [
        f"plain_move rational 1%Q (- {gain(rows)}) {x['penalty'] * units}" for rows in x["drops"]
    ]
    for width, number, *rows in x["adds"] if x["may_add"] else []:
        known = rational(x["known"][width][1])
        weight = Fraction(x["delta"]) * Fraction(x["prior"][width])
        moves.append(
            f"known_key rational {known} ({gain(rows)}) {margin}"
            if number >= 0
            else unknown_key(x, weight, width, positive, gain(rows), gain(rows, 0))
        )
    for width, (keys, weight) in enumerate(x["known"] if x["may_add"] else []):
        idle = keys - sum(add[0] == width and add[1] >= 0 for add in x["adds"])
        moves.append(f"known_key rational {rational(str(idle * Fraction(weight)))} 0 {margin}")
    for rows, listed in zip(x["drops"], x["replaces"], strict=False):
        for narrower in listed:
            each = rational(str(Fraction(replace_weight) / len(listed)))
            moves.append(
                f"plain_move rational {each} (- {gain(rows)} + {gain(narrower)}) "
                f"{replace_penalty * units}"
            )
    return f"ratios (causes_draw rational {rational(x['base'])} [{'; '.join(moves)}])"


def users() -> Iterator[Instance]:
    """Yield pairs of a user and a cause, or a key: its place, and how many negatives and positives."""
    ballots = [
        ([], [[0, 0, 1]]),
        ([], [[0, 0, 3], [0, 2, 1], [1, 5, 0], [1, 0, 2]]),
        ([[0, 1, 0], [0, 0, 4]], [[0, 1, 1], [0, 3, 0]]),
        ([[0, 9, 0], [1, 0, 2], [0, 1, 2]], [[1, 0, 1], [0, 0, 1], [0, 0, 5], [1, 4, 1]]),
    ]
    for base, rounds, (units, negative, lowest, gaps), (drops, adds) in product(
        ("2/5", "6/7"), (1, 3), ((4, 4, 4, None), (4, 1, 1, [0, 3]), (9, 2, 3, None)), ballots
    ):
        yield {"base": base, "delta": "1/10", "rounds": rounds, "units": units, "lowest": lowest,
               "weights": [units - 1, negative], "penalty": 1, "prior": ["1/2", "1/6"],
               "frequent": gaps and ["1/7", "1/5"], "gaps": gaps, "drops": drops,
               "adds": adds}  # fmt: skip


def users_term(x: Instance) -> str:
    """Return the scores of all drops and adds, by user, and the law of the draw of Theorem 19."""
    positive, negative = x["weights"]

    def score(pairs: list[list[int]], place: int, negative: int = negative) -> str:
        counts = "; ".join(f"({place}, ({n}, {p}))" for place, n, p in pairs)
        return (
            f"Users.pairs_score {positive} {negative} (- {x['lowest']}) {x['units']} "
            f"[{counts}] {place}"
        )

    drops = [f"- {score(x['drops'], place)}" for place in sorted({pair[0] for pair in x["drops"]})]
    places = sorted({pair[0] for pair in x["adds"]})
    adds = [score(x["adds"], place) for place in places]
    moves = [f"plain_move rational 1%Q ({drop}) {x['penalty'] * x['units']}" for drop in drops]
    for place, gain in zip(places, adds, strict=True):
        weight = Fraction(x["delta"]) / x["rounds"] * Fraction(x["prior"][place])
        support = score(x["adds"], place, 0)
        moves.append(unknown_key(x, weight, place, x["units"], gain, support))
    return (
        f"([{'; '.join(drops)}], [{'; '.join(adds)}], "
        f"ratios (causes_draw rational {rational(x['base'])} [{'; '.join(moves)}]))"
    )


# Epsilon, delta, and the bits of the grids of q and of the probabilities. The last two are the
# curves of the code; the others are on coarser grids, which keeps the numbers short.
CURVES = (
    ("1/2", "1/20", 4, 32),
    ("1", "1/10", 4, 32),
    ("2", "1/100", 4, 40),
    ("1", "1/10", 24, 144),
    ("3/5", "1/1000000", 24, 188),
)


def curves() -> Iterator[Instance]:
    """Yield the acceptance curves of unknown-domain selection."""
    for number, (epsilon, delta, growth_bits, bits) in enumerate(CURVES):
        yield {"curve": number, "epsilon": epsilon, "delta": delta,
               "growth_bits": growth_bits, "bits": bits}  # fmt: skip


def curves_term(x: Instance) -> str:
    """Return growth and acceptance probabilities, and whether they satisfy Theorem 5."""
    return (
        f"let (q, c) := curve_{x['curve']} in "
        f"(ratios [q], ratios c, valid_curve {rational(x['delta'])} q c)"
    )


def selection() -> Iterator[Instance]:
    """Yield votes of up to three keys."""
    small = list(combinations_with_replacement((0, 1, 2, 5), 3))
    for curve, ballots in (
        *((curve, [*small, (14, 13, 1), (), (30,)]) for curve in range(3)),
        (3, [(1,), (2, 1), (5,), (3, 3, 1)]),
    ):
        for counts in ballots:
            yield {"curve": curve, "votes": [[key, n] for key, n in enumerate(counts)]}


def selection_term(x: Instance) -> str:
    """Return the law of Theorem 5."""
    return (
        f"let (q, c) := curve_{x['curve']} in "
        f"outcomes (selection rational q (curve_at rational c) {votes(x['votes'])})"
    )


def histogram() -> Iterator[Instance]:
    """Yield votes of up to three keys, and thresholds."""
    for base, tau in product(BASES, (1, 2, 4)):
        for counts in [(1,), (3,), (0, 1), (1, 1), (2, 1), (1, 2), (3, 3), (1, 0, 2), (2, 2, 1)]:
            width = 4 if len(counts) < 3 else 2
            yield {"base": base, "tau": tau, "width": width,
                   "votes": [[key, n] for key, n in enumerate(counts)]}  # fmt: skip


def histogram_term(x: Instance) -> str:
    """Return the law of Theorem 4, noise beyond the width left out."""
    return (
        f"outcomes (collected rational same_key (histogram rational {rational(x['base'])} "
        f"{x['width']} {x['tau']} {votes(x['votes'])}))"
    )


def counts() -> Iterator[Instance]:
    """Yield the counts of a window."""
    for base, numbers in product(BASES, ((), (0,), (3,), (0, 2), (1, 0, 4))):
        yield {"base": base, "width": 2, "counts": list(numbers)}


def counts_term(x: Instance) -> str:
    """Return the law of the released counts of Theorem 16, noise beyond the width left out."""
    base, numbers = rational(x["base"]), integers(x["counts"])
    return f"outcomes (released_counts rational {base} {x['width']} {numbers})"


def values() -> Iterator[Instance]:
    """Yield the votes for values of a first window, and thresholds."""
    for base, threshold, votes in product(BASES, (1, 2, 4), ((), (1,), (2, 5), (1, 3, 1))):
        yield {"base": base, "threshold": threshold, "votes": list(votes)}


def values_term(x: Instance) -> str:
    """Return the law of which values of Theorem 16 are released."""
    base, votes = rational(x["base"]), integers(x["votes"])
    return f"outcomes (released_values rational {base} {x['threshold']} {votes})"


def monitor() -> Iterator[Instance]:
    """Yield mistakes and thresholds of three checks."""
    for base, counts, thresholds in product(
        BASES, product((0, 1), repeat=3), ((1, 1, 1), (2, 0, 1), (3, 2, -1))
    ):
        checks = [list(pair) for pair in zip(counts, thresholds, strict=True)]
        yield {"base": base, "width": 3, "checks": checks}


def monitor_term(x: Instance) -> str:
    """Return the law of the answers of Theorem 3."""
    return (
        f"outcomes (collected rational bools (monitor rational {rational(x['base'])} "
        f"{x['width']} None 0 {pairs(x['checks'])}))"
    )


def sparse_vector() -> Iterator[Instance]:
    """Yield queries and thresholds of three checks, for one and two firings."""
    for (base, query_base), releases, queries in product(
        (("1/3", "2/5"), ("2/5", "6/7")), (1, 2), product((0, 1, 2), repeat=3)
    ):
        checks = [[n, threshold] for n, threshold in zip(queries, (1, 0, 2), strict=True)]
        yield {"base": base, "query_base": query_base, "width": 4, "releases": releases,
               "checks": checks}  # fmt: skip


def sparse_vector_term(x: Instance) -> str:
    """Return the law of the answers of Theorem 2."""
    return (
        f"outcomes (collected rational bools (sparse_vector rational {rational(x['base'])} "
        f"{rational(x['query_base'])} {x['width']} {x['releases']} None {pairs(x['checks'])}))"
    )


def gate() -> Iterator[Instance]:
    """Yield streams of three rows: evidence for key 1 or 2, or for none; key 0 is published."""
    for base, rows in product(("1/3", "6/7"), product((None, 1, 2), repeat=3)):
        yield {"base": base, "curve": 1, "width": 1, "window": None, "epoch": None,
               "rows": list(rows)}  # fmt: skip
    for (window, epoch), rows in product(
        ((1, None), (2, None), (None, 2), (2, 3)), product((1,), (None, 1), (1, 2))
    ):
        yield {"base": "1/3", "curve": 1, "width": 1, "window": window, "epoch": epoch,
               "rows": list(rows)}  # fmt: skip


def gate_term(x: Instance) -> str:
    """Return the law of the transcript of Theorem 7; the threshold falls with a window's age."""
    rows = "; ".join("None" if key is None else f"Some {key}" for key in x["rows"])
    window, epoch = ("None" if n is None else f"(Some {n}%nat)" for n in (x["window"], x["epoch"]))
    return (
        f"let (q, c) := curve_{x['curve']} in outcomes (collected rational same_run "
        f"(votes_gate rational {rational(x['base'])} q (curve_at rational c) {x['width']} "
        f"{window} {epoch} [{rows}]))"
    )


def effect() -> Iterator[Instance]:
    """Yield rows of up to two of three patterns, of each label, for several published causes."""
    published: tuple[list[list[int]], ...] = (
        [],
        [[0, 1]],
        [[0, 2]],
        [[0, 1], [1, 1]],
        [[0, 1], [1, 2]],
        [[1, 2], [0, 1], [2, 1]],
    )
    numbers = (([1, 1], [1, 1]), ([9, 4], [9, 4]), ([2, 7], [5, 3]), ([3, 1], [1, 8]))
    for causes, listed, label, (costs, weights) in product(
        published, ([], [0], [2], [0, 1], [1, 2]), (-1, 0, 1, 2), numbers
    ):
        yield {"causes": causes, "listed": listed, "label": label, "costs": costs,
               "weights": weights}  # fmt: skip


def effect_term(x: Instance) -> str:
    """Return what the row does: loss, score of its keys and of the drop, and its cell."""
    label = "None" if x["label"] == 0 else f"(Some {x['label']})"
    row = "Effect.null" if x["label"] < 0 else f"(Effect.example {integers(x['listed'])} {label})"
    (positive, negative), (missed, alarm) = x["weights"], x["costs"]
    return f"effect {positive} {negative} {missed} {alarm} {pairs(x['causes'])} {row}"


TABLES: dict[str, tuple[Callable[[], Iterator[Instance]], Callable[[Instance], str]]] = {
    "exponential": (exponential, exponential_term),
    "causes": (causes, causes_term),
    "curves": (curves, curves_term),
    "selection": (selection, selection_term),
    "histogram": (histogram, histogram_term),
    "monitor": (monitor, monitor_term),
    "sparse_vector": (sparse_vector, sparse_vector_term),
    "gate": (gate, gate_term),
    "effect": (effect, effect_term),
    "users": (users, users_term),
    "counts": (counts, counts_term),
    "values": (values, values_term),
}


def parsed(text: str) -> Any:
    """Return a value that Coq printed, as Python's: pairs of integers are strings "n/d"."""
    text = text.replace(";", ",").replace("true", "True").replace("false", "False")
    text = re.sub(r"%\w+", "", text).replace("Some ", "")
    return ast.literal_eval(re.sub(r"\((-?\d+), (\d+)\)", r"'\1/\2'", text))


def evaluate(terms: list[str]) -> list[Any]:
    """Return the values of terms, as Coq computes them."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "evaluate.v"
        lines = [
            f"Definition curve_{x['curve']} := Eval vm_compute in acceptance_curve "
            f"{rational(x['epsilon'])} {rational(x['delta'])} "
            f"{x['growth_bits']} {x['bits']} 4000."
            for x in curves()
        ]
        lines += [f"Eval vm_compute in ({term})." for term in terms]
        program.write_text(PRELUDE + "\n".join(lines) + "\n")
        command = ["coqc", "-Q", str(HERE), "Littlestone", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"coqc failed: {done.stderr}")
    printed = re.findall(r"^ {5}= (.*)$", done.stdout, flags=re.MULTILINE)
    return [parsed(text) for text in printed]


def write(folder: Path) -> None:
    """Write all tables into a folder, one instance a line."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {name: list(instances()) for name, (instances, _) in TABLES.items()}
    terms = [TABLES[name][1](instance) for name in TABLES for instance in made[name]]
    values = iter(evaluate(terms))
    for name, instances in made.items():
        lines = [json.dumps(instance | {"law": next(values)}) for instance in instances]
        (folder / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if sys.argv[1:] else HERE / "tables")
