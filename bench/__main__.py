"""Run every part of the bench, or those named, one after the other.

    python -m bench [--write] [PART ...]
    python -m bench [--write] PART [options of this part]

With --write what the parts publish is put into the documents, after each part (`bench.output`), and
docs/results.md says when each part ran and on which source tree (`bench.record`). A part that fails
does not stop the others: its tables are replaced by a note, and the exit code is 1.
"""

import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import date
from inspect import signature
from pkgutil import resolve_name
from time import perf_counter

from bench.output import forget, keep, marks, part_of, published, write_blocks
from bench.record import FAILED, Entry, describe_run, read_record, record_table, source_tree

# Each part and what runs it, in the order of docs/results.md; a module is imported when its turn
# comes, so that one that cannot be imported fails alone.
PARTS = {
    name: f"bench.{name}:run"
    for name in (
        "causes",
        "causes_fixed",
        "evidence",
        "tables",
        "users",
        "causes_speed",
        "memory",
        "speed",
        "single_rows",
        "long",
        "starting",
        "service",
        "scale",
        "results",
        "adaptive",
        "auto",
        "agnostic",
        "noise",
        "peers",
        "causes_peers",
        "auditors",
        "agreement",
        "paper_plan",
        "monitors",
        "selectors",
        "shape",
    )
} | {
    "causes_fixed": "bench.causes:run_fixed",
    "single_rows": "bench.speed:run_single_rows",
}


def main(arguments: Sequence[str], parts: dict[str, str] = PARTS) -> int:
    """Run what is asked for; return 1 if a part failed."""
    words = [word for word in arguments if word != "--write"]
    if words[:1] in (["--help"], ["-h"]):
        print(f"{__doc__}\nThe parts are: {', '.join(parts)}.")
        return 0
    names = [word for word in words if word in parts]
    options = words[1:] if names[:1] == words[:1] and words[1:2] and words[1][0] == "-" else []
    unknown = [] if options else [word for word in words if word not in parts]
    if unknown:
        print(f"no part of the bench is called {', '.join(unknown)}: {', '.join(parts)}")
        return 2
    names = names[:1] if options else names or list(parts)
    return _run_all({name: parts[name] for name in names}, options, "--write" in arguments, parts)


def _run_all(
    asked: dict[str, str], options: Sequence[str], write: bool, order: dict[str, str]
) -> int:
    begun, seconds, failed = perf_counter(), dict[str, float](), list[str]()
    for name, where in asked.items():
        print(f"\n{name}", flush=True)
        start, tree = perf_counter(), source_tree()
        problem = _problem(where, options)
        seconds[name] = perf_counter() - start
        missing = {mark for mark in marks() if part_of(mark) == name} - published()
        if missing and not problem and not options:
            problem = f"it published nothing called {', '.join(sorted(missing))}"
        if problem:
            failed.append(name)
            print(f"{name} failed: {problem}")
            _replace_by_note(name)
        if write and missing and options and not problem:
            print(
                f"nothing is written: with these options there is no {', '.join(sorted(missing))}"
            )
        elif write:
            minutes = FAILED if problem else f"{seconds[name] / 60:.1f}"
            day = f"{date.today():%Y-%m-%d}"
            entry = Entry(" ".join([name, *options]), day, minutes, tree)
            keep("run.parts", record_table(read_record() | {name: entry}, order))
            keep("run", describe_run(tree, len(seconds), perf_counter() - begun, failed))
            write_blocks()
        forget()
    print("\n" + "\n".join(f"{taken:8.1f} s  {name}" for name, taken in seconds.items()))
    print(f"{perf_counter() - begun:8.1f} s  altogether")
    if failed:
        print(f"these parts failed: {', '.join(failed)}")
    return 1 if failed else 0


def _problem(where: str, options: Sequence[str]) -> str:
    """Run a part; return why it failed, if it did."""
    try:
        work: Callable[..., object] = resolve_name(where)
        if options and not signature(work).parameters:
            raise TypeError(f"this part takes no options: {' '.join(options)}")
        work(options) if options else work()
    except (Exception, SystemExit) as error:
        if not isinstance(error, SystemExit) or error.code:
            traceback.print_exc()
            return str(error) or type(error).__name__
    return ""


def _replace_by_note(name: str) -> None:
    """Say in place of all tables of a part that it failed: old ones would look fresh."""
    forget()
    for mark in marks():
        if part_of(mark) == name:
            keep(mark, f"(this part failed in the run of {date.today():%-d %B %Y})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
