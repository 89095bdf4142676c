"""Recognise a file that was learned before, so that a store learns each row once.

A file is known by its real path and a digest of its first rows, whatever its format: another
spelling, a link, a packed or a moved file is the same source. How far it is learned is a position:
the rows, and where the last of them begin in a file that is still the same.

A topic of Kafka is known by its cluster and its name. How far each of its partitions is learned is
kept with the source, so it is written in the transaction that learns the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import realpath
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

from littlestone._classes.base import HypothesisClass
from littlestone._data.kafka import Position, TopicRows, position_from_json
from littlestone._data.locations import is_uri
from littlestone._data.readers import RowReader
from littlestone._data.rounds import BadRow, Checksums, Rounds, RowSpan, Start
from littlestone._store.files import BadStore
from littlestone._store.request import LearnRequest

MOST_BAD_ROWS = 20
STANDARD_INPUT = "-"
# Fewer rows that are equal are no sign that two sources are one, unless they are all.
LEAST_MARK = 32
# The most rows of which a digest is kept.
MOST_MARK = 4096
OTHERWISE = (
    "Put it back as it was; or, if none of its rows was learned before (a log that was begun anew),"
    " say --new-rows"
)


class Source(NamedTuple):
    """Record how far a file has been learned, and what it is recognised by."""

    number: int
    original: int
    repeat: int
    begun: int
    name: str
    identity: str | None = None
    rows: int = 0
    # Where the last part that was learned begins, and a digest of its last rows.
    start: Start = Start()
    tail: str = ""
    # Digests of the first 32, 64, ... rows.
    marks: Mapping[int, str] = MappingProxyType({})
    topic: Position | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `source_from_json` reads it back."""
        return self._asdict() | {"marks": dict(self.marks)}


def source_from_json(data: Mapping[str, Any]) -> Source:
    """Read back what `Source.to_json` wrote."""
    marks = {int(rows): digest for rows, digest in data["marks"].items()}
    source = Source(**{**data, "start": Start(*data["start"]), "marks": marks})
    topic = data["topic"]
    return source if topic is None else source._replace(topic=position_from_json(topic))


def recognised(
    sources: list[Source],
    rows: RowReader[Any],
    task: LearnRequest,
    *,
    rounds: int,
    notes: list[str],
) -> Source:
    """Return the source that a file is, if its rows were learned before; otherwise a new one."""
    name = task.source if is_uri(task.source) else realpath(task.source)
    # A pipe has no name that could be found again.
    if rows.identity(0) is None:
        name = STANDARD_INPUT
    number = max([0, *(source.number for source in sources)]) + 1
    new = Source(number, number, 1, rounds + 1, name)
    alike = [source for source in sources if _begins_alike(source, rows, name)]
    # Several sources may begin with these rows: one of this name goes first, then the longest.
    known = max(alike, key=lambda source: (source.name == name, source.rows), default=None)
    if task.new_rows:
        return _begun_before(known, rows, name, notes) or new
    if known is None and name in [source.name for source in sources if name != STANDARD_INPUT]:
        raise BadStore(
            f"{rows.name}: its first rows are not those that were learned: the file has changed. "
            f"{OTHERWISE}"
        )
    if known is not None and _is_shorter(
        rows, known, counted=rows.identity(known.rows) != known.identity
    ):
        _refuse_shorter(known, rows, name)
    if task.again:
        return _again(sources, known, new, rows.name)
    if known is None:
        return new
    if known.name != name:
        notes.append(
            f"{rows.name} begins with the rows of {_name_in_words(known.name)}, of which "
            f"{known.rows:,} were learned: it is taken for the same source, and only what comes "
            "after them is learned. If none of its rows was learned before, say --new-rows; to "
            "learn them once more, --again"
        )
    return known if name == STANDARD_INPUT else known._replace(name=name)


def _begins_alike(source: Source, rows: RowReader[Any], name: str) -> bool:
    """Return whether a file begins with the rows of a source."""
    if source.repeat > 1 or not source.rows:
        return False
    first = rows.beginning
    count = max((mark for mark in source.marks if mark <= len(first)), default=0)
    # The name is evidence too, but standard input has the same name for all that comes that way.
    if source.name == name != STANDARD_INPUT:
        is_enough = count > 0
    else:
        is_all = rows.is_whole and count == len(first) == source.rows and name != STANDARD_INPUT
        is_enough = count >= LEAST_MARK or is_all
    return is_enough and _digest(first.part(0, count)) == source.marks[count]


def _begun_before(
    known: Source | None, rows: RowReader[Any], name: str, notes: list[str]
) -> Source | None:
    """Return a source whose rows were new in a call before this one, which was interrupted."""
    if known is None or known.name != name or name == STANDARD_INPUT:
        return None
    if known.rows < LEAST_MARK or _is_shorter(rows, known, counted=True):
        return None
    notes.append(
        f"{rows.name}: its first {known.rows:,} rows were learned under this name before, so only "
        "what comes after them is new. To learn them once more, say --again; if they are other "
        "rows that happen to be equal, give the file another name"
    )
    return known


def _is_shorter(rows: RowReader[Any], source: Source, counted: bool) -> bool:
    """Return whether a file has fewer rows than were learned; not all are counted if it goes on."""
    length = rows.length if counted else None
    if length is None:
        return rows.is_whole and len(rows.beginning) < source.rows
    return length < source.rows


def _refuse_shorter(source: Source, rows: RowReader[Any], name: str) -> None:
    count = len(rows.beginning) if rows.is_whole else rows.length or 0
    if source.name == name:
        raise _changed(rows, source, count)
    raise BadStore(
        f"{rows.name} begins as {_name_in_words(source.name)} does and has {count:,} rows, and "
        f"{source.rows:,} of that were learned before: it seems to be a part of it. If none of its "
        "rows was learned before, say --new-rows; to learn them once more, name the whole and say "
        "--again"
    )


def _changed(rows: RowReader[Any], source: Source, count: int) -> BadStore:
    return BadStore(
        f"{rows.name} has {count:,} rows, and {source.rows:,} of it were learned before: the file "
        f"has changed. {OTHERWISE}"
    )


def _again(sources: list[Source], known: Source | None, new: Source, name: str) -> Source:
    """Return the source to go on with when rows are to be learned once more."""
    if known is None:
        raise BadStore(f"{name} was not learned before: leave out --again")
    # Repetitions are in the order in which they were begun.
    *_, last = (source for source in sources if source.original == known.original)
    if last.repeat > 1 and last.rows < known.rows:
        return last
    return new._replace(original=known.original, repeat=last.repeat + 1)


def _name_in_words(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


def all_rows(rows: RowReader[Any], bad: list[BadRow]) -> Iterator[tuple[RowSpan, None]]:
    """Yield all rows of a file, with no place to go on from: nothing is stored."""
    for block in rows:
        if len(block):
            yield block, None
        note_bad_rows(bad, block)


def note_bad_rows(bad: list[BadRow], block: RowSpan, known: int = 0) -> None:
    """Keep the first few rows that could not be read, for the data owner; not the first `known`."""
    # The reasons are those of the first null rounds, in their order.
    new = block.bad[block.part(0, known).null_rounds() :] if known else block.bad
    bad += new[: MOST_BAD_ROWS - len(bad)]


def new_rows(
    rows: RowReader[Any], source: Source, *, bad: list[BadRow], tell: Callable[[str], None]
) -> Iterator[tuple[RowSpan | None, Source]]:
    """Yield the rows of a file that were not learned yet, each block with how far it is then."""
    is_same = source.identity is not None and rows.identity(source.rows) == source.identity
    # Of a file that is not the same one, the rows are counted from its beginning.
    start = source.start if is_same else Start()
    first = _FirstRows(rows.beginning, dict(source.marks))
    source = source._replace(start=start, marks=first.marks)
    for block, after in rows.blocks(start if is_same else None, until=source.rows):
        old = max(0, min(len(block), source.rows - start.row))
        passed = start.row + old
        if is_same and start == source.start and passed == source.rows:
            _refuse_other_tail(rows, source, block.part(0, old))
        elif old:
            source = source._replace(start=start, tail=_tail(block.part(0, old)))
        if old and passed == source.rows:
            tell("")
            # A pipe has no place to go back to.
            if rows.identity(0) is not None:
                yield None, source._replace(identity=rows.identity(passed))
        elif old:
            tell(f"{passed:,} of {source.rows:,} rows passed")
        note_bad_rows(bad, block, old)
        if old < len(block):
            new = block.part(old, len(block))
            first.add(new, passed)
            source = source._replace(
                identity=rows.identity(after.row), rows=after.row, start=start, tail=_tail(block)
            )
            yield new, source
        start = after
    if start.row < source.rows:
        raise _changed(rows, source, start.row)


def _refuse_other_tail(rows: RowReader[Any], source: Source, tail: RowSpan) -> None:
    """Refuse a file in which the rows before the position are others than those learned."""
    if source.tail and isinstance(tail, Rounds) and _tail(tail) != source.tail:
        raise BadStore(
            f"{rows.name}: the rows before row {source.rows + 1:,} are not those that were learned:"
            f" the file has changed. {OTHERWISE}"
        )


class _FirstRows:
    """Keep digests of the first 32, 64, 128, ... rows, also of a file that grows while it is read."""

    def __init__(self, beginning: RowSpan, marks: dict[int, str]) -> None:
        assert isinstance(beginning, Rounds), "the first rows are read locally"
        self.marks, self._count = marks, min(len(beginning), MOST_MARK)
        self._sums = beginning.part(0, self._count).sums()
        mark = LEAST_MARK
        while mark < self._count:
            self.marks[mark] = _digest(beginning.part(0, mark))
            mark *= 2
        if self._count:
            self.marks[self._count] = _text(self._sums)

    def add(self, part: RowSpan, row: int) -> None:
        """Add rows before which there are `row` others."""
        if row != self._count or row >= MOST_MARK or not isinstance(part, Rounds):
            return
        more = part.part(0, MOST_MARK - row)
        self._sums, self._count = more.sums(self._sums), row + len(more)
        if self._count >= 2 * max(self.marks, default=0):
            self.marks[self._count] = _text(self._sums)


def _digest(rows: RowSpan) -> str:
    """Return a digest of some rows; of rows on a cluster there is none."""
    return _text(rows.sums()) if isinstance(rows, Rounds) else ""


def _tail(rows: RowSpan) -> str:
    """Return a digest of the last of some rows: one of all would cost as much as learning them."""
    return _digest(rows.part(max(0, len(rows) - MOST_MARK), len(rows)))


def _text(sums: Checksums) -> str:
    return " ".join(f"{crc:08x}:{length:x}" for crc, length in sums)


def open_topic(task: LearnRequest, cls: HypothesisClass, stop: Event | None = None) -> TopicRows:
    """Open the topic that a request is about."""
    schema = task.schema(cls)
    return TopicRows(
        task.source,
        schema,
        settings=task.kafka,
        until_end=task.until_end,
        stop=stop,
        strict=task.strict,
    )


def topic_source(
    sources: list[Source], rows: TopicRows, task: LearnRequest, *, rounds: int
) -> Source:
    """Return the source that a topic is, with the position to go on from."""
    known = known_topic(sources, rows)
    position, is_continued = rows.begin(None if known is None else known.topic, task.new_rows)
    if known is not None and is_continued:
        return known._replace(topic=position)
    number = max([0, *(source.number for source in sources)]) + 1
    return Source(number, number, 1, rounds + 1, rows.key, topic=position)


def known_topic(sources: Iterable[Source], rows: TopicRows) -> Source | None:
    """Return the source that a topic is, if some of it was learned; the last one of its name."""
    topics = [source for source in sources if source.topic is not None]
    same = [source for source in topics if source.name == rows.key]
    # Both have the same messages, which would be learned twice.
    for source in () if same else topics:
        if rows.key.startswith(f"{source.name}/") or source.name.startswith(f"{rows.key}/"):
            raise BadStore(
                f"{rows.name}: the store has learned messages of it as {source.name}: a topic and "
                "one of its partitions are not both learned. Go on with that one, or begin another "
                "store"
            )
    return same[-1] if same else None


def new_messages(
    rows: TopicRows, source: Source, *, size: int, most: int | None, bad: list[BadRow]
) -> Iterator[tuple[Rounds | None, Source]]:
    """Yield the rows of a topic that were not learned yet, each block with how far it is then."""
    assert source.topic is not None, "a source of a topic has a position"
    for block, position in rows.blocks(source.topic, size, most):
        if block is not None:
            note_bad_rows(bad, block)
            source = source._replace(rows=source.rows + len(block), topic=position)
        yield block, source
