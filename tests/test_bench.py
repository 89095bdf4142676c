"""`python -m bench`: parts, the marks of documents, and which source tree the tables are of."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from bench import output, record
from bench.__main__ import PARTS, main
from rich.table import Table

ROOT = Path(__file__).parents[1]
PAGE = """# Results
<!-- bench: run -->
<!-- /bench -->
<!-- bench: run.parts -->
<!-- /bench -->
It is <!-- bench: good.size -->old<!-- /bench --> big.
<!-- bench: good -->
old
<!-- /bench -->
<!-- bench: bad -->
old
<!-- /bench -->
"""


def good() -> None:
    table = Table("a", "b | c")
    table.add_column("n", justify="right")
    table.add_row("x", "y", "1")
    output.publish("good", table)
    output.publish_text("good.size", "7")
    output.publish_figure(Path("docs/good.svg"), "<svg/>")


def bad() -> None:
    output.publish_text("bad", "half of it")
    raise ValueError("it broke")


def silent(options: Sequence[str] = ()) -> None:
    """Publish nothing."""


PLANTED = {name: f"test_bench:{name}" for name in ("bad", "good")}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "docs").mkdir()
    path = tmp_path / "docs" / "results.md"
    path.write_text(PAGE, "utf-8")
    (tmp_path / "other.md").write_text(PAGE, "utf-8")
    monkeypatch.chdir(tmp_path)
    yield path
    output.forget()


def test_only_what_stands_between_the_marks_of_a_published_name_is_replaced(page: Path) -> None:
    good()
    output.write_blocks()
    text = page.read_text("utf-8")
    table = "| a | b \\| c | n |\n| --- | --- | --: |\n| x | y | 1 |"
    new = PAGE.replace("good.size -->old", "good.size -->7")
    new = new.replace("good -->\nold\n", f"good -->\n\n{table}\n\n")
    assert text == new
    assert Path("other.md").read_text("utf-8") == PAGE
    assert Path("docs/good.svg").read_text("utf-8") == "<svg/>"
    output.write_blocks()
    assert page.read_text("utf-8") == new


def test_a_part_that_fails_is_reported_and_leaves_no_old_table(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--write"], PLANTED) == 1
    printed = capsys.readouterr().out
    assert "bad failed: it broke" in printed
    assert "these parts failed: bad" in printed
    text = page.read_text("utf-8")
    assert "(this part failed in the run of" in text
    assert "half of it" not in text
    assert "old" not in text
    assert [entry.minutes for entry in record.read_record().values()] == ["failed", "0.0"]
    assert "these failed: bad." in text


def test_a_part_that_does_not_publish_what_is_quoted_has_failed(page: Path) -> None:
    assert main(["--write", "bad"], {"bad": "test_bench:silent"}) == 1
    assert "bad -->\n\n(this part failed" in page.read_text("utf-8")
    assert main(["--write", "bad"], {"bad": "test_bench:missing"}) == 1


def test_options_that_leave_out_what_is_quoted_write_nothing(page: Path) -> None:
    assert main(["--write", "bad", "--few"], {"bad": "test_bench:silent"}) == 0
    assert page.read_text("utf-8") == PAGE


def test_without_write_no_document_changes(page: Path) -> None:
    assert main(["good"], PLANTED) == 0
    assert main(["good", "bad"], PLANTED) == 1
    assert main(["god"], PLANTED) == 2
    assert main(["good", "--fast"], PLANTED) == 1, "it takes no options"
    assert page.read_text("utf-8") == PAGE
    assert not Path("docs/good.svg").exists()


def test_a_later_run_replaces_the_lines_of_its_parts_only(page: Path) -> None:
    main(["--write"], PLANTED)
    text = page.read_text("utf-8")
    page.write_text(text.replace("| unknown |", "| 0123456789ab |"), "utf-8")
    main(["--write", "good"], PLANTED)
    trees = {part: entry.tree for part, entry in record.read_record().items()}
    assert trees == {"bad": "0123456789ab", "good": "unknown"}


def test_tables_of_another_tree_are_found_out(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree of the package, with its changes; a part that failed, or never ran, is none."""
    source = Path("src/littlestone")
    source.mkdir(parents=True)
    (source / "code.py").write_text("1\n", "utf-8")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")

    def commit() -> None:
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", "commit", "--quiet", "--message", "x"], check=True)

    subprocess.run(["git", "init", "--quiet"], check=True)
    commit()
    assert record.outdated() == {"bad": "never run", "good": "never run"}
    main(["--write"], PLANTED)
    assert record.outdated() == {"bad": "failed"}
    commit()
    assert record.outdated() == {"bad": "failed"}, "documents are no source"
    (source / "code.py").write_text("2\n", "utf-8")
    assert "+" in record.outdated()["good"]
    main(["--write", "good"], PLANTED)
    assert "good" in record.outdated(), "nobody can look at a tree that was never committed"
    commit()
    assert "good" in record.outdated()
    main(["--write", "good"], PLANTED)
    assert record.outdated() == {"bad": "failed"}


QUOTED = sorted(output.marks(ROOT) - {"run", "run.parts"})


@pytest.mark.parametrize("name", QUOTED)
def test_every_mark_is_published_by_its_part(name: str) -> None:
    module, _, function = PARTS[output.part_of(name)].partition(":")
    text = (ROOT / module.replace(".", "/")).with_suffix(".py").read_text("utf-8")
    assert f"def {function}(" in text
    assert f'"{name}"' in text


@pytest.mark.parametrize("path", output.documents(ROOT), ids=lambda path: path.name)
def test_a_mark_in_a_line_does_not_begin_it(path: Path) -> None:
    """A comment at the beginning of a line makes HTML of the line: Markdown in it is not read."""
    text = path.read_text("utf-8")
    assert text.count("<!-- bench: ") == text.count("<!-- /bench -->")
    for match in output.MARKED.finditer(text):
        before = text[: match.start()].rpartition("\n")[2]
        begins = not before.strip(" -*")
        assert begins == match[3].startswith("\n") == match[3].endswith("\n"), match[2]
        assert not (begins and before), "blocks are not indented"


def test_tables_of_the_results_stand_between_marks() -> None:
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert not re.search(r"^\|", output.MARKED.sub("", text), re.M)
