"""Recognise a file by its rows, so that a store learns each row once.

A file is known by checksums of its rows, whatever its name and its format: the same rows under
another name are not learned again unasked. Where the file can be read from a place on, only the
last rows before that place are compared with what was learned.

A topic of Kafka is known by its cluster and its name. How far each of its partitions is learned is
kept with the source, so it is written in the transaction that learns the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from os.path import realpath
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._data.blocks import BadRow, Block, Checksums, RowSpan, Start, column_schema
from littlestone._data.locations import is_uri
from littlestone._data.readers import RowReader, UnreadableAdvice
from littlestone._data.topic import Position, TopicRows, position_from_json
from littlestone._learners.base import PrivateLearner
from littlestone._store.request import LearnRequest, RemoteBlock
from littlestone._store.serialization import BadStore

FIRST_BLOCK, LARGEST_BLOCK = 4096, 65536
MOST_BAD_ROWS = 20
STANDARD_INPUT = "-"
# Fewer rows that are equal are no sign that two sources are one, unless they are all.
LEAST_MARK = 32
# How many rows before the place that was reached are compared. Few rows are added to the rows that
# were compared before, so that a log that grows by a row at a time is checked by more than one.
LEAST_TAIL, MOST_TAIL = 4096, 1 << 18


class Source(NamedTuple):
    """Record how far a file has been learned, and what its rows are recognised by."""

    number: int
    original: int
    repeat: int
    begun: int
    name: str
    identity: str | None = None
    rows: int = 0
    sums: Checksums = Checksums()
    start: Start = Start(0)
    tail: Checksums = Checksums()
    marks: Mapping[int, Checksums] = MappingProxyType({})
    topic: Position | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data; `source_from_json` reads it back."""
        marks = {str(rows): str(sums) for rows, sums in self.marks.items()}
        return self._asdict() | {"sums": str(self.sums), "tail": str(self.tail), "marks": marks}


def source_from_json(data: Mapping[str, Any]) -> Source:
    """Read back what `Source.to_json` wrote."""
    sums = {name: Checksums.from_text(data[name]) for name in ("sums", "tail")}
    marks = {int(rows): Checksums.from_text(one) for rows, one in data["marks"].items()}
    found = Source(**{**data, **sums, "start": Start(*data["start"]), "marks": marks})
    topic = data.get("topic")
    return found if topic is None else found._replace(topic=position_from_json(topic))


def parts(block: Block | RemoteBlock, rounds: int) -> Iterator[Block | RemoteBlock]:
    """Yield a block in parts: short ones while the stream is young, so that there is progress."""
    if not isinstance(block, Block):
        yield from [block] if len(block) else []
        return
    start = 0
    while start < len(block):
        stop = start + min(max(FIRST_BLOCK, rounds + start), LARGEST_BLOCK)
        yield block.part(start, stop)
        start = stop


def recognised(
    sources: list[Source],
    rows: RowReader[Any],
    task: LearnRequest,
    *,
    rounds: int,
    notes: list[str],
) -> Source:
    """Return the source that a file is, if its rows were learned before; otherwise a new one."""
    # A pipe has no name that could be found again.
    name = task.source if is_uri(task.source) else realpath(task.source)
    if rows.identity(0) is None:
        name = STANDARD_INPUT
    number = max([0, *(source.number for source in sources)]) + 1
    new = Source(number, number, 1, rounds + 1, name)
    if task.new_rows:
        return _begun_before(sources, rows, name, notes) or new
    known = _known(sources, rows, name)
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


def _known(sources: list[Source], rows: RowReader[Any], name: str) -> Source | None:
    """Return the source that begins with the same rows, if there is one."""
    named = [source for source in sources if source.name == name != STANDARD_INPUT]
    firsts = [source for source in sources if source.repeat == 1 and source.rows]
    alike = [one for one in firsts if _agrees(one, rows, name)]
    # Several sources may begin with these rows: one of this name goes first, then the longest.
    if alike:
        found = max(alike, key=lambda source: (source.name == name, source.rows))
        if rows.is_whole and len(rows.beginning) < found.rows:
            _refuse_shorter(found, rows, name)
        return found
    if named:
        raise BadStore(
            f"{rows.name}: its first {named[-1].rows:,} rows are not those that were learned: the "
            f"file has changed. {_OTHERWISE}"
        )
    return None


def _begun_before(
    sources: list[Source], rows: RowReader[Any], name: str, notes: list[str]
) -> Source | None:
    """Return the source of this name that begins with the same rows, if there is one."""
    alike = [
        source
        for source in sources
        if source.repeat == 1
        and source.name == name != STANDARD_INPUT
        and source.rows >= LEAST_MARK
        and not (rows.is_whole and len(rows.beginning) < source.rows)
        and _agrees(source, rows, name)
    ]
    if not alike:
        return None
    found = max(alike, key=lambda source: source.rows)
    notes.append(
        f"{rows.name}: its first {found.rows:,} rows were learned under this name before, so only "
        "what comes after them is new. To learn them once more, say --again; if they are other "
        "rows that happen to be equal, give the file another name"
    )
    return found


def _agrees(source: Source, rows: RowReader[Any], name: str) -> bool:
    """Return whether a file begins with the rows of a source."""
    first = rows.beginning
    count, sums = source.rows, source.sums
    # More was learned than the first block holds: compare up to the last mark inside of it.
    if count > len(first):
        count = max((mark for mark in source.marks if mark <= len(first)), default=0)
        sums = source.marks.get(count, Checksums())
    # The name is evidence too, but standard input has the same name for all that comes that way.
    if source.name == name != STANDARD_INPUT:
        is_enough = count > 0
    else:
        is_all = rows.is_whole and len(first) == source.rows and name != STANDARD_INPUT
        is_enough = count >= LEAST_MARK or is_all
    return is_enough and first.part(0, count).sums() == sums


def _refuse_shorter(source: Source, rows: RowReader[Any], name: str) -> None:
    count = len(rows.beginning)
    if source.name == name:
        raise BadStore(
            f"{rows.name} has {count:,} rows, and {source.rows:,} of it were learned before: the "
            f"file has changed. {_OTHERWISE}"
        )
    raise BadStore(
        f"{rows.name} begins as {_name_in_words(source.name)} does and has {count:,} rows, and "
        f"{source.rows:,} of that were learned before: it seems to be a part of it. If none of its "
        "rows was learned before, say --new-rows; to learn them once more, name the whole and say "
        "--again"
    )


_OTHERWISE = (
    "Put it back as it was; or, if none of its rows was learned before (a log that was begun anew),"
    " say --new-rows"
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


def all_rows(
    rows: RowReader[Any], learner: PrivateLearner, bad: list[BadRow]
) -> Iterator[tuple[Block | RemoteBlock, None]]:
    """Yield all rows of a file, in parts, with no place to go on from: nothing is stored."""
    for block in rows:
        for part in parts(block, learner.rounds):
            yield part, None
        note_bad_rows(bad, block)


def note_bad_rows(bad: list[BadRow], block: RowSpan, first_line: int = 0) -> None:
    """Keep the first few rows that could not be read, for the data owner."""
    new = [row for row in block.bad if row.line >= first_line]
    bad += new[: MOST_BAD_ROWS - len(bad)]


class NewRows:
    """Iterate over the rows of a file that were not learned yet, after checking those that were."""

    def __init__(
        self,
        rows: RowReader[Any],
        source: Source,
        learner: PrivateLearner,
        *,
        verify: bool,
        bad: list[BadRow],
        tell: Callable[[str], None],
    ) -> None:
        self._rows, self._source, self._learner = rows, source, learner
        self._bad, self._tell = bad, tell
        known = rows.identity(source.rows)
        same_file = known is not None and known == source.identity
        self._seeks = same_file and not verify
        self._marks = _marks_of(rows.beginning)
        self._row, self._start, self._tail = 0, Start(0), Checksums()

    def __iter__(self) -> Iterator[tuple[Block | RemoteBlock | None, Source]]:
        rows, source, found = self._rows, self._source, Checksums()
        expected = source.tail if self._seeks else source.sums
        for whole in self._blocks():
            old = max(0, min(len(whole), source.rows - self._row))
            # A block may hold known rows and new ones: the known are compared, the new are learned.
            if old:
                found += self._pass(whole.part(0, old))
                self._tell(f"{self._row:,} of {source.rows:,} rows checked")
                if self._row == source.rows:
                    self._tell("")
                    if found != expected:
                        raise BadStore(
                            f"{rows.name}: its first {source.rows:,} rows are not those that were "
                            f"learned: the file has changed. {_OTHERWISE}"
                        )
                    # A pipe has no place to go back to.
                    if rows.identity(0) is not None:
                        yield None, self._reached(source.sums)
            new = whole.part(old, len(whole))
            note_bad_rows(self._bad, whole, new.start(self._row).line if old and len(new) else 0)
            sums = source.sums
            for part in parts(new, self._learner.rounds):
                self._mark(part, sums)
                sums += self._pass(part)
                yield part, self._reached(sums)
            source = self._source = self._source._replace(sums=sums)
        if self._row < source.rows:
            raise BadStore(
                f"{rows.name} has {self._row:,} rows, and {source.rows:,} of it were learned "
                f"before: the file has changed. {_OTHERWISE}"
            )

    def _blocks(self) -> Iterator[Any]:
        start = self._source.start
        # Where the file is not the same one, only reading all of it shows whether its rows are.
        if not self._seeks:
            return iter(self._rows)
        self._row = start.row
        return self._rows.after(start, lambda done, of: self._tell(f"{done / of:.0%} unpacked"))

    def _pass(self, part: RowSpan) -> Checksums:
        """Go past some rows, and return their checksums."""
        sums = part.sums()
        # A tail is begun anew at long parts only: many short ones are compared together.
        is_long = len(part) >= LEAST_TAIL or self._row - self._start.row > MOST_TAIL
        if is_long or not self._tail:
            self._start, self._tail = part.start(self._row), Checksums()
        self._tail += sums
        self._row += len(part)
        return sums

    def _mark(self, part: RowSpan, sums: Checksums) -> None:
        """Keep the checksums of the first 32, 64, ... rows also where a file has grown since."""
        mark = LEAST_MARK
        while mark <= min(self._row + len(part), LARGEST_BLOCK):
            if mark > self._row:
                self._marks[mark] = sums + part.part(0, mark - self._row).sums()
            mark *= 2

    def _reached(self, sums: Checksums) -> Source:
        return self._source._replace(
            identity=self._rows.identity(self._row),
            rows=self._row,
            sums=sums,
            start=self._start,
            tail=self._tail,
            marks=dict(self._marks),
        )


def _marks_of(beginning: RowSpan) -> dict[int, Checksums]:
    """Return the checksums of the first 32, 64, 128, ... rows."""
    marks, count = dict[int, Checksums](), LEAST_MARK
    while count <= len(beginning):
        marks[count] = beginning.part(0, count).sums()
        count *= 2
    return marks


def open_topic(task: LearnRequest, cls: HypothesisClass, stop: Event | None = None) -> TopicRows:
    """Open the topic that a request is about."""
    schema = column_schema(cls, task.label, task.user, task.positive)
    label = None if schema.named_labels else task.label
    return TopicRows(
        task.source,
        schema,
        settings=task.kafka,
        until_end=task.until_end,
        stop=stop,
        strict=task.strict,
        advice=UnreadableAdvice(label, isinstance(cls, Causes)),
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
    found = [source for source in topics if source.name == rows.key]
    # Both have the same messages, which would be learned twice.
    for source in () if found else topics:
        if rows.key.startswith(f"{source.name}/") or source.name.startswith(f"{rows.key}/"):
            raise BadStore(
                f"{rows.name}: the store has learned messages of it as {source.name}: a topic and "
                "one of its partitions are not both learned. Go on with that one, or begin another "
                "store"
            )
    return found[-1] if found else None


def new_messages(
    rows: TopicRows, source: Source, *, size: int, most: int | None, bad: list[BadRow]
) -> Iterator[tuple[Block | None, Source]]:
    """Yield the rows of a topic that were not learned yet, each block with how far it is then."""
    assert source.topic is not None, "a source of a topic has a position"
    for block, position in rows.blocks(source.topic, size, most):
        if block is not None:
            note_bad_rows(bad, block)
            source = source._replace(rows=source.rows + len(block), topic=position)
        yield block, source
