"""The ```console blocks of a document: commands, and what they should print."""

import re
from collections.abc import Iterator
from typing import NamedTuple


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
