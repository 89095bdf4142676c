"""Arrow and Parquet with flipped bits: rows or a sentence, and never a crash of the process."""

import random
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import littlestone as ls
from effort import scaled
from littlestone._data import tables
from littlestone._data.locations import locate
from littlestone._data.rounds import BadStream
from littlestone._data.schema import file_schema
from littlestone._ray.rows import Span, read_span

CAUSES = ls.Causes(["text", "large", "view", "coded", "whole", ls.Ranges("number", [3, 9])])


def table(rows: int = 60) -> pa.Table:
    texts = [None if row % 7 == 0 else f"value {row % 11} " * (1 + row % 3) for row in range(rows)]
    return pa.table(
        {
            "text": pa.array(texts),
            "large": pa.array(texts, pa.large_string()),
            "view": pa.array(texts, pa.string_view()),
            "coded": pa.array(texts).dictionary_encode(),
            "whole": pa.array(range(rows)),
            "number": pa.array([row / 3 for row in range(rows)]),
            "y": pa.array([row % 2 == 0 for row in range(rows)]),
        }
    )


def written(form: str) -> bytes:
    sink = BytesIO()
    if form == "parquet":
        pyarrow.parquet.write_table(table(), sink)
        return sink.getvalue()
    make: Any = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    with make(sink, table().schema) as writer:
        for batch in table().to_batches(20):
            writer.write(batch)
    return sink.getvalue()


NAMES = {"file": "rows.arrow", "stream": "rows.arrows", "parquet": "rows.parquet"}


def read(path: str) -> str:
    """Read a file as `learn` does: how many rows there are, or what is wrong."""
    try:
        with ls.open_rows(path, CAUSES, label="y") as rows:
            return str(sum(map(len, rows)))
    except (ls.BadStream, OSError) as error:
        return f"refused: {error}"


def main(form: str, folder: Path, seeds: range) -> None:
    """Read files with some flipped bits; a crash ends this process."""
    whole = written(form)
    for seed in seeds:
        draw, data = random.Random(seed), bytearray(whole)
        for _ in range(draw.choice([1, 1, 2, 5])):
            place = draw.randrange(len(data))
            data[place] ^= 1 << draw.randrange(8)
        (folder / "seed").write_text(str(seed))
        (folder / NAMES[form]).write_bytes(data)
        read(str(folder / NAMES[form]))


@pytest.mark.parametrize("form", ["file", "stream", "parquet"])
def test_flipped_bits_are_no_crash(form: str, tmp_path: Path) -> None:
    whole = tmp_path / NAMES[form]
    whole.write_bytes(written(form))
    assert read(str(whole)) == "60"
    done = subprocess.run(
        [sys.executable, __file__, form, tmp_path, str(scaled(600))],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    seed = (tmp_path / "seed").read_text()
    assert done.returncode == 0, f"{form}, seed {seed}: {done.returncode} {done.stderr[-2000:]}"


def test_row_groups_on_a_cluster_are_validated_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(batch: pa.RecordBatch) -> None:
        raise pa.ArrowInvalid("an offset leads out of its buffer")

    monkeypatch.setattr(tables, "validated", refuse)
    path = tmp_path / "rows.parquet"
    path.write_bytes(written("parquet"))
    assert "rows.parquet: the file is damaged" in read(str(path))
    span = Span(locate(str(path)), slice(0, 1), 0, 1)
    with pytest.raises(BadStream, match=r"rows\.parquet: the file is damaged"):
        read_span(file_schema(CAUSES, "y", None), span)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), range(int(sys.argv[3])))


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_of_its_dictionary_is_refused(index: int) -> None:
    indices = pa.array([0, 1, index], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        tables.validated(pa.record_batch({"a": column}))
