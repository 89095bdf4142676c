"""Mutants: break a line that guards the guarantee, and see that a test goes red. `make mutants`.

Each mutation in tests/mutants.txt is a piece of text in a file and what is put in its place, with
the test files that must notice. Every one is made alone, in a copy of the tree, and its tests are
run there. A text that is not found exactly once in its file is an error of that list: then the code
has moved on, and the list has to follow it.

    PYTHONPATH=tests python -m mutants            all of them, some minutes each dozen
    PYTHONPATH=tests python -m mutants store cap  those with one of these words in name or file
    PYTHONPATH=tests python -m mutants --check    only whether every text is found

A mutant that survives is a line that no test guards: write the test. Those in `HARMLESS` survive
because the line is a second lock on the same door, or because nothing can tell the difference; each
says why. They must survive: one that is killed is listed in the wrong place.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NOT_COPIED = ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "figures", "*.egg-info"


class Mutant(NamedTuple):
    """One mutation: in `file`, below src/littlestone, `old` becomes `new`; `tests` must go red."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    """Test files below tests/, in the order in which they are run."""


def mutants() -> list[Mutant]:
    """Read tests/mutants.txt."""
    text = Path(__file__).with_suffix(".txt").read_text("utf-8")
    blocks = [block.split("\n") for block in text.strip("\n").split("\n\n")]
    return [parsed(*block) for block in blocks if not block[0].startswith("#")]


def parsed(name: str, where: str, *lines: str) -> Mutant:
    """Read a block: its name, `FILE: TESTS`, and the lines with a sign."""
    file, _, tests = where.partition(": ")
    old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(name, file, old, new, tests)


MUTANTS = mutants()

HARMLESS = {
    "composition forgets its slack": "`SLACK`, 1e-40, is taken off as well, and is larger",
}
"""Mutants that survive and should, each with why."""


def errors() -> list[str]:
    """Return what is wrong with the list: a text that is not found exactly once, a lost test."""
    counts = {
        mutant.name: (ROOT / "src/littlestone" / mutant.file).read_text().count(mutant.old)
        for mutant in MUTANTS
    }
    lost = [f"{name!r}: its text is there {n} times" for name, n in counts.items() if n != 1]
    lost += [f"{name!r} is not the name of a mutant" for name in HARMLESS if name not in counts]
    lost += [
        f"{mutant.name!r}: there is no {test}"
        for mutant in MUTANTS
        for test in mutant.tests.split()
        if not (ROOT / "tests" / test).exists()
    ]
    return lost + ["two mutants have the same name"] * (len(counts) != len(MUTANTS))


def copied(into: Path) -> Path:
    """Copy the tree, without what it does not need to be tested, and give it an interpreter.

    One of its own, that finds the copy before what is installed: tests start processes whose
    environment they choose.
    """
    shutil.copytree(ROOT, into, ignore=shutil.ignore_patterns(*NOT_COPIED))
    venv.create(into / ".venv", symlinks=True)
    (packages,) = (into / ".venv").glob("lib/python*/site-packages")
    installed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    (packages / "copy.pth").write_text(f"{into / 'src'}\n{installed}\n")
    asked = [python_of(into), "-c", "import littlestone; print(littlestone.__file__)"]
    found = subprocess.run(asked, env={}, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(into), f"{found} is not of the copy"
    return into


def python_of(tree: Path) -> str:
    """The interpreter of a copy."""
    return str(tree / ".venv/bin/python")


def red(tree: Path, test: str) -> bool:
    """Whether a file of tests fails in a tree: in one process, up to the first failure."""
    command = [python_of(tree), "-m", "pytest", "-p", "no:cacheprovider", "-x", "-n", "0", "-q"]
    done = subprocess.run(
        [*command, f"tests/{test}"],
        cwd=tree,
        # No compiled files: one of a mutant could be taken for that of the next.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"the tests did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 1


@cache
def green_before(tree: Path, test: str) -> None:
    """Stop if a test is red without any mutation: it would seem to kill everything."""
    if red(tree, test):
        sys.exit(f"{test}: red before anything was changed")


def killed(mutant: Mutant, tree: Path) -> bool:
    """Whether the tests of a mutant notice it. The tree is left as it was."""
    path, tests = tree / "src/littlestone" / mutant.file, mutant.tests.split()
    whole = path.read_text()
    for test in tests:
        green_before(tree, test)
    path.write_text(whole.replace(mutant.old, mutant.new))
    try:
        return any(red(tree, test) for test in tests)
    finally:
        path.write_text(whole)


def main(words: list[str]) -> None:
    """Run the mutants that are asked for; exit 1 if any does not end as it should."""
    if lost := errors():
        sys.exit("\n".join([*lost, "The code has moved on: mend tests/mutants.txt."]))
    if words == ["--check"]:
        return
    chosen = [m for m in MUTANTS if not words or any(w in f"{m.name} {m.file}" for w in words)]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder).resolve() / "tree")
        for mutant in chosen:
            began = time.monotonic()
            dead, harmless = killed(mutant, tree), mutant.name in HARMLESS
            word = "killed  " if dead else "harmless" if harmless else "SURVIVED"
            print(
                f"{word} {time.monotonic() - began:5.0f} s  {mutant.file}: {mutant.name}",
                flush=True,
            )
            if dead == harmless:
                wrong.append(mutant.name)
    print(
        f"{len(chosen)} mutants, {len(wrong)} that did not end as they should", *wrong, sep="\n  "
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
