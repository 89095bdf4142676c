"""Mutants: break a line that guards the guarantee, and see that a test goes red. `make mutants`.

Each mutation in tests/mutants.txt is a piece of text in a file and what is put in its place, with
the test files that must notice. Every one is made alone, in a copy of the tree, and its tests are
run there: first the cases that `make test` runs, and all of them only if none of these goes red. As
many copies as there are cores work at once. A text that is not found exactly once in its file is an
error of that list: then the code has moved on, and the list has to follow it.

    PYTHONPATH=tests python -m mutants            all of them
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
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
# The cases that `make test` runs, which notice most mutants, and all cases: effort and marks.
EFFORTS = ("0.2", "not slow"), ("1", "")
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


def red(tree: Path, test: str, effort: tuple[str, str]) -> bool:
    """Whether a file of tests fails in a tree: in one process, up to the first failure."""
    factor, marks = effort
    # Schemathesis takes a third of the time that it takes to start, and nothing here uses it.
    command = [python_of(tree), "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    done = subprocess.run(
        [*command, "-x", "-n", "0", "-q", "-m", marks, f"tests/{test}"],
        cwd=tree,
        # No compiled files: one of a mutant could be taken for that of the next.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "LITTLESTONE_EFFORT": factor},
        capture_output=True,
        text=True,
        check=False,
    )
    # 5: all tests of the file are slow.
    if done.returncode not in (0, 1, 5) or (done.returncode == 5 and not marks):
        sys.exit(f"the tests did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 1


class Trees:
    """Copies of the tree, one for each mutant at work, and what is known to be green in them."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            self._free.put(copied(folder / f"tree{number}"))
        self._green: set[tuple[str, tuple[str, str]]] = set()
        self._checking: defaultdict[tuple[str, tuple[str, str]], Lock] = defaultdict(Lock)

    def _check_green(self, tree: Path, test: str, effort: tuple[str, str]) -> None:
        """Stop if a test is red without any mutation: it would seem to kill everything."""
        with self._checking[test, effort]:
            if (test, effort) not in self._green and red(tree, test, effort):
                sys.exit(f"{test}: red before anything was changed")
            self._green.add((test, effort))

    def killed(self, mutant: Mutant) -> tuple[bool, float]:
        """Whether the tests of a mutant notice it, and the seconds that took."""
        tree, tests = self._free.get(), mutant.tests.split()
        began = time.monotonic()
        path = tree / "src/littlestone" / mutant.file
        whole = path.read_text()
        try:
            for effort in EFFORTS:
                for test in tests:
                    self._check_green(tree, test, effort)
                path.write_text(whole.replace(mutant.old, mutant.new))
                dead = any(red(tree, test, effort) for test in tests)
                path.write_text(whole)
                if dead:
                    break
        finally:
            path.write_text(whole)
            self._free.put(tree)
        return dead, time.monotonic() - began


def main(words: list[str]) -> None:
    """Run the mutants that are asked for; exit 1 if any does not end as it should."""
    if lost := errors():
        sys.exit("\n".join([*lost, "The code has moved on: mend tests/mutants.txt."]))
    if words == ["--check"]:
        return
    chosen = [m for m in MUTANTS if not words or any(w in f"{m.name} {m.file}" for w in words)]
    wrong = []
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        trees = Trees(Path(folder).resolve(), jobs)
        # By name, since neighbours in the list share tests and would wait for one another.
        by_name = sorted(chosen, key=lambda mutant: mutant.name)
        running = {pool.submit(trees.killed, mutant): mutant for mutant in by_name}
        try:
            for done in as_completed(running):
                mutant, (dead, seconds) = running[done], done.result()
                harmless = mutant.name in HARMLESS
                word = "killed  " if dead else "harmless" if harmless else "SURVIVED"
                print(f"{word} {seconds:5.0f} s  {mutant.file}: {mutant.name}", flush=True)
                if dead == harmless:
                    wrong.append(mutant.name)
        finally:
            pool.shutdown(cancel_futures=True)
    print(
        f"{len(chosen)} mutants, {len(wrong)} that did not end as they should", *wrong, sep="\n  "
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
