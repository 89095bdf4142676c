"""Where files are: on this machine, or behind a URI that pyarrow's file systems know.

`s3://bucket/path`, `gs://bucket/path`, `hdfs://`, `abfs://` and `file://` go through
`pyarrow.fs.FileSystem.from_uri`; any other name is a path on this machine. Credentials are found as
pyarrow finds them, and never stand in a URI: a command line can be read by others, and the names of
sources are kept in stores.

The files of a folder are those below it with the ending of the format, in the order of their paths:
part by part, by code point, so `day=10` comes before `day=2`. A part that begins with `_` or `.` is
left out. A folder on the way that is named `column=value` is a *partition*: each row of the files
below it has that column, with the value as text.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from littlestone._data.rounds import BadStream

NEEDS_PYARROW = "needs pyarrow: pip install 'littlestone[parquet]'"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# What Hive, and what writes as it does, names the folder of rows without a value.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# The most of another library's error that is repeated.
_MOST_WORDS = 300
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile in ~/.aws, or the machine's role",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or the machine's account",
    "gcs": "GOOGLE_APPLICATION_CREDENTIALS, or the machine's account",
}

# The columns that the folders of a file name, each with its text; None for a missing value.
Partition = tuple[tuple[str, str | None], ...]


class Location(NamedTuple):
    """Hold where a file is."""

    name: str
    path: str
    filesystem: Any = None
    partition: Partition = ()

    @property
    def is_folder(self) -> bool:
        """Tell whether it is a folder."""
        if self.filesystem is None:
            return Path(self.path).is_dir()
        return bool(self._info().type == _file_type().Directory)

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return os.stat(self.path).st_size if self.filesystem is None else int(self._info().size)

    def open(self) -> Any:
        """Open the file for reading bytes, at any place."""
        if self.filesystem is None:
            return FileIO(self.path)
        with file_system_errors(self.name):
            return self.filesystem.open_input_file(self.path)

    def identity(self) -> str:
        """Return what changes when the file is written again."""
        if self.filesystem is None:
            status = os.stat(self.path)
            return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        info = self._info()
        return f"{self.path} {info.size} {info.mtime_ns}"

    def files(self, endings: Sequence[str]) -> "list[Location]":
        """Return the file itself, or the files below a folder, in the order of their paths."""
        if not self.is_folder:
            return [self]
        files = []
        for path in self._below():
            parts = Path(path).relative_to(self.path).parts
            hidden = any(part.startswith(("_", ".")) for part in parts)
            if not hidden and parts[-1].lower().endswith(tuple(endings)):
                files.append((parts, path))
        return [self._child(parts, path) for parts, path in sorted(files)]

    def _below(self) -> Iterator[str]:
        if self.filesystem is None:
            yield from (str(file) for file in Path(self.path).rglob("*") if file.is_file())
            return
        from pyarrow.fs import FileSelector

        with file_system_errors(self.name):
            for info in self.filesystem.get_file_info(FileSelector(self.path, recursive=True)):
                if info.type == _file_type().File:
                    yield info.path

    def _child(self, parts: Sequence[str], path: str) -> "Location":
        name = path
        if self.filesystem is not None:
            base, _, options = self.name.partition("?")
            options = f"?{options}" if options else ""
            name = f"{base.rstrip('/')}/{'/'.join(parts)}{options}"
        return Location(name, path, self.filesystem, partition_of(name, parts[:-1]))

    def _info(self) -> Any:
        with file_system_errors(self.name):
            info = self.filesystem.get_file_info(self.path)
        if info.type == _file_type().NotFound:
            raise BadStream(f"{self.name}: there is no such file or folder; check its name")
        return info


def is_uri(path: str) -> bool:
    """Return whether a name is a URI and not a path on this machine."""
    return _URI.match(path) is not None


def locate(path: str) -> Location:
    """Return where a file or a folder is."""
    return _resolved(path) if is_uri(path) else Location(path, path)


# Resolving a URI may ask the network, and one run asks for the same one several times.
@lru_cache(maxsize=16)
def _resolved(uri: str) -> Location:
    try:
        from pyarrow.fs import FileSystem
    except ModuleNotFoundError:
        raise BadStream(f"{uri}: reading a URI {NEEDS_PYARROW}") from None
    parts = urlsplit(uri)
    if parts.password is not None:
        scheme = parts.scheme.lower()
        raise BadStream(
            f"{scheme}://...@{parts.hostname}{parts.path}: a secret does not belong in a URI, which"
            f" other users of the machine can read and a store keeps.{_where_credentials(scheme)}"
        )
    with file_system_errors(uri):
        filesystem, path = FileSystem.from_uri(uri)
    return Location(uri, path, filesystem)


@contextmanager
def file_system_errors(name: str) -> Iterator[None]:
    """Raise what a file system raises as `BadStream`, with what to do about it."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError:
        raise BadStream(f"{name}: there is no such file or folder; check its name") from None
    except (ArrowException, OSError) as error:
        scheme = name.partition(":")[0].lower()
        raise BadStream(
            f"{name}: cannot be read: {in_one_line(error)}.{_where_credentials(scheme)}"
        ) from None


def _where_credentials(scheme: str) -> str:
    where = _CREDENTIALS.get(scheme, "")
    return f" Credentials are taken from {where}" if where else ""


def in_one_line(error: Exception) -> str:
    """Return what another library says is wrong, on one line, shortened."""
    words = " ".join(str(error).split()).rstrip(".")
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}..."


def partition_of(name: str, folders: Sequence[str]) -> Partition:
    """Return the columns that folders name."""
    columns: dict[str, str | None] = {}
    for folder in folders:
        column, equals, text = folder.partition("=")
        if not equals:
            continue
        column = unquote(column)
        if column in columns:
            raise BadStream(
                f"{name}: two folders on its path name the column {column!r}: rename one of them"
            )
        columns[column] = None if text == _NO_VALUE else unquote(text)
    return tuple(columns.items())


def _file_type() -> Any:
    from pyarrow.fs import FileType

    return FileType
