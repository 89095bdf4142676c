"""The shape of the code: what a reader has to open, and what the public surface documents.

`python -m bench shape` prints it; docs/architecture and the closing notes quote it. Modules that a
walk opens are those of littlestone whose code runs while one row is learned: with a store, over
HTTP, from a data frame, and on a Ray cluster (in the driver).
"""

import ast
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

import littlestone

ROOT = Path(__file__).parent.parent / "src" / "littlestone"
PREFIX = "littlestone"
QUESTIONS = ("what", "which", "where", "who", "whether", "why", "how", "when")


class Walk:
    """Counts modules, functions and depth of calls while code runs, in all threads."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.depth = 0

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(PREFIX) or frame.f_code.co_name in ("<module>", "<lambda>"):
            return
        self.functions.add((module, frame.f_code.co_qualname))
        depth, at = 0, frame.f_back
        while at is not None:
            depth += at.f_globals.get("__name__", "").startswith(PREFIX)
            at = at.f_back
        self.depth = max(self.depth, depth + 1)

    def __enter__(self) -> "Walk":
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *problem: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def modules(self) -> set[str]:
        """The modules whose functions ran."""
        return {module for module, _ in self.functions}


def events(folder: Path) -> Path:
    """Write a few rows to learn from."""
    path = folder / "events.csv"
    rows = (f"{'bad' if n % 9 == 0 else n},{int(n % 9 == 0)}" for n in range(400))
    path.write_text("version,failed\n" + "\n".join(rows) + "\n")
    return path


def learn(*arguments: object) -> None:
    """Run the command `learn` in this process."""
    from littlestone._cli.main import main

    options = ["--class", "rules:version", "--label", "failed", "--epsilon", "9", "--delta", "1e-6"]
    old, sys.argv = sys.argv, ["littlestone", "learn", *map(str, arguments), *options]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = old


def walk_store(folder: Path) -> Walk:
    """Follow the rows of `learn --db`."""
    path = events(folder)
    learn(path, "--db", folder / "first.db")  # imports what is imported late: no row runs that
    with Walk() as walk:
        learn(path, "--db", folder / "run.db")
    return walk


def walk_ray(folder: Path) -> Walk:
    """Follow the rows of `learn --engine ray`, in the driver."""
    path = events(folder)
    learn(path, "--engine", "ray", "--workers", "1")
    with Walk() as walk:
        learn(path, "--engine", "ray", "--workers", "1")
    return walk


def walk_post(folder: Path) -> Walk:
    """Follow the rows of `POST /rounds`, from the request to the commit."""
    from fastapi.testclient import TestClient

    from littlestone._service.app import make_app
    from littlestone._service.limits import Limits
    from littlestone._service.tokens import Tokens
    from littlestone._store.store import open_store

    learn(events(folder), "--db", folder / "run.db", "--horizon", "1000")
    tokens = Tokens(folder / "tokens")
    headers = {"Authorization": f"Bearer {json.loads(tokens.path.read_text())['feeder']}"}
    app = make_app(open_store(folder / "run.db"), tokens, Limits())
    rows = [{"version": "bad", "failed": 1}, {"version": "good", "failed": 0}]
    with Walk() as walk, TestClient(app, base_url="http://127.0.0.1") as client:
        walk.functions.clear()  # opening the store is not on a row's path
        said = client.post("/rounds", json=rows, headers=headers)
        assert said.status_code == 200, said.text
    return walk


def walk_frame(folder: Path) -> Walk:
    """Follow the rows of `learn_many` with a data frame."""
    import pandas as pd

    versions = ["bad" if n % 9 == 0 else str(n) for n in range(400)]
    frame = pd.DataFrame({"version": versions})
    for _ in range(2):
        learner = littlestone.DPSOA(littlestone.Rules(["version"]), 9, 1e-6, 400)
        with Walk() as walk:
            learner.learn_many(frame, [version == "bad" for version in versions])
    return walk


def parsed() -> Iterator[tuple[str, str, ast.Module]]:
    """Every module: its name, its text, its tree."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield str(path.relative_to(ROOT)), text, ast.parse(text)


def public_functions(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Public functions and methods, with the docstring that documents their parameters."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node, ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    own = (ast.get_docstring(node) or "") + (ast.get_docstring(item) or "")
                    yield item, own
                elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                    yield item, ast.get_docstring(item) or ""


def parameters(node: ast.FunctionDef) -> list[str]:
    """The parameters that a caller gives."""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [one.arg for one in given if one.arg not in ("self", "cls_", "memo")]


def signature(node: ast.FunctionDef) -> tuple[str, ...]:
    """Return the name of a function with its parameters."""
    return node.name, *parameters(node)


def documented_methods() -> set[tuple[str, ...]]:
    """Return the methods that some class documents: others with the same signature follow it."""
    return {
        signature(item)
        for _, _, tree in parsed()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef)
        if "Parameters\n" in (ast.get_docstring(item) or "")
    }


def exported(name: str, tree: ast.Module) -> ast.Module:
    """Return the part of a module that users see: what `littlestone` and its adapters export."""
    if name in ("river.py", "sklearn.py"):
        return tree
    names = set(littlestone.__all__)
    body = [node for node in tree.body if getattr(node, "name", None) in names]
    return ast.Module(body, type_ignores=[])


def undocumented() -> list[str]:
    """Return the exported functions of three or more parameters that document none of them."""
    methods = documented_methods()
    return [
        f"{name}: {node.name}"
        for name, _, tree in parsed()
        for node, said in public_functions(exported(name, tree))
        if len(parameters(node)) >= 3 and "Parameters\n" not in said
        # A method of a documented base or protocol does not document its parameters again.
        if signature(node) not in methods
    ]


NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """Return the lines that are neither blank, nor comment, nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


# What a row is on its way from a file to a rule, counted by hand: who adds one adds it here.
SHAPES_OF_A_ROW = (
    "Chunk: bytes of a file",
    "Split: cells of its lines",
    "Rounds: columns, labels, users; null rounds keep their place",
    "Matched: rounds with the causes that match them",
    "losses, and the cells of the evidence",
    "key",
    "rule",
)

# Of the package privacy these decide nothing: noise for tests, which is not secret, and exports.
NO_DECISION = ("_privacy/testing.py", "_privacy/__init__.py")


def public_names() -> dict[str, set[str]]:
    """Return the modules that define each public top-level class or function."""
    names: dict[str, set[str]] = defaultdict(set)
    for name, _, tree in parsed():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                names[node.name].add(name)
    return names


def docstring_lines(tree: ast.Module) -> int:
    """Count the lines of all docstrings of a module."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in first
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def longest_function() -> tuple[int, str]:
    """Return the longest function, in lines of code without its docstring, and where it is."""
    return max(
        (len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1))), f"{name}: {node.name}")
        for name, text, tree in parsed()
        for lines in [code_lines(text, tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def figures() -> Iterator[tuple[str, str]]:
    """What can be counted in the files."""
    modules = list(parsed())
    lines = sum(text.count("\n") for _, text, _ in modules)
    code = {name: len(code_lines(text, tree)) for name, text, tree in modules}
    deciding = [n for n in code if n.startswith("_privacy/") and n not in NO_DECISION]
    classes = [node for _, _, tree in modules for node in ast.walk(tree)
               if isinstance(node, ast.ClassDef)]  # fmt: skip
    protocols = [c for c in classes if any("Protocol" in ast.unparse(base) for base in c.bases)]
    comments = sum(line.strip().startswith("#") for _, text, _ in modules
                   for line in text.splitlines())  # fmt: skip
    functions = [node for name, _, tree in modules
                 for node, _ in public_functions(exported(name, tree))
                 if len(parameters(node)) >= 3]  # fmt: skip
    names = public_names()
    colliding = [name for name, homes in names.items() if len(homes) > 1]
    tests = sum(p.read_text("utf-8").count("\n") for p in (ROOT.parents[1] / "tests").rglob("*.py"))
    documented = len(functions) - len(undocumented())
    yield "modules", f"{len(modules)}"
    yield "lines", f"{lines:,}"
    yield "lines of code, without blanks, comments and docstrings", f"{sum(code.values()):,}"
    yield "lines of code that decide privacy", f"{sum(code[name] for name in deciding):,}"
    yield "lines of docstrings", f"{sum(docstring_lines(tree) for _, _, tree in modules):,}"
    yield "classes, of which protocols", f"{len(classes)}, {len(protocols)}"
    yield "longest function, lines of code", "{} ({})".format(*longest_function())
    yield "comment lines", f"{comments / lines:.1%}"
    yield "lines of tests", f"{tests:,}"
    yield "shapes of a row, by hand", f"{len(SHAPES_OF_A_ROW)}"
    yield (
        "exported functions of 3 or more parameters, documented",
        f"{documented} of {len(functions)}",
    )
    yield "public top-level names with several meanings", f"{len(colliding)} of {len(names)}"


WALKS: dict[str, Callable[[Path], Walk]] = {
    "learn --db": walk_store,
    "POST /rounds": walk_post,
    "learn_many of a frame": walk_frame,
    "learn on Ray": walk_ray,
}


def run() -> None:
    """Print the table."""
    table = Table("measure", "value", title="Shape of the code")
    for what, value in figures():
        table.add_row(what, value)
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = walk(Path(folder))
        said = f"{len(found.modules)} modules, {len(found.functions)} functions, {found.depth} deep"
        table.add_row(f"one row of {name}", said)
    Console(highlight=False, width=100).print(table)


if __name__ == "__main__":
    run()
