"""The command line as its user meets it: in a process of its own.

The process is a fork of one that has imported the package; the commands in the documents are run by
the installed script (tests/test_docs.py).
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from littlestone._cli.main import main

MAIN = "from littlestone._cli.main import main; main()"
Command = Callable[..., subprocess.CompletedProcess[str]]

# A server that has imported what commands import, and forks itself for each of them.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["littlestone._cli.main", "littlestone._cli.learn", "opendp.mod"])


def littlestone(
    *arguments: object, text: str | None = None, folder: Path | None = None, width: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run `littlestone ...`; `text` is its standard input."""
    environment = {"PYTHONUTF8": "1", "COLUMNS": str(width)}
    return _forked(list(map(str, arguments)), text or "", folder, environment)


def _forked(
    words: Sequence[str], text: str, folder: Path | None, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command in a fork: it is a process of its own, without the second of imports."""
    with TemporaryDirectory() as scratch:
        streams = [Path(scratch, name) for name in ("in", "out", "err")]
        streams[0].write_text(text, encoding="utf-8")
        process = FORKS.Process(
            target=_run, args=(words, streams, folder or Path.cwd(), environment)
        )
        process.start()
        process.join()
        out, err = (path.read_text(encoding="utf-8") for path in streams[1:])
    assert process.exitcode is not None
    return subprocess.CompletedProcess(words, process.exitcode, out, err)


def _run(
    words: Sequence[str], streams: Sequence[Path], folder: Path, environment: dict[str, str]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, (path, mode) in enumerate(zip(streams, "rww", strict=True)):
        # Both the descriptor, which a library may write to, and the stream of Python.
        os.dup2(os.open(path, os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT), number)
        name = ("stdin", "stdout", "stderr")[number]
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    sys.argv = ["-c", *words]
    main()
