"""The ```console blocks of a document: commands, and what they should print."""

import doctest
import re
from collections.abc import Iterator
from typing import NamedTuple

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LEARNS = re.compile(r"littlestone (?:demo|learn|show) ")
NUMBER = re.compile(r"(?<![\w'.,-])\d+(?:[.,]\d+)*|#+")
# Which of several sentences is printed may depend on the noise, too.
BY_NOISE = re.compile(r"(?<=since: )[^\n]+|(?<=has to beat a rate of )[^\n]+")


class Step(NamedTuple):
    """A command and what it should print; nothing said, anything printed."""

    command: str
    output: str


def steps(text: str) -> Iterator[Step]:
    for block in re.findall(r"^```console\n(.*?)^```", text, re.S | re.M):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            # A command goes on after a backslash; what it prints may hold backslashes too.
            command = re.match(r"(?:.*\\\n)*.*\n", part)
            assert command is not None
            yield Step(command[0].strip().replace("\\\n", " "), part[command.end() :])


def prints(step: Step, found: str) -> bool:
    """Whether a command printed what its document says, but for the numbers of what is learned."""
    said = step.output
    if LEARNS.match(step.command):
        said, found = (NUMBER.sub("0", BY_NOISE.sub("0", text)) for text in (said, found))
    return doctest.OutputChecker().check_output(said, found, FLAGS)
