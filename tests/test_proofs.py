"""Has Coq check proofs/: all of it, its axioms, and the weakened theorems, which must fail."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROOFS = Path(__file__).parents[1] / "proofs"
SOURCES = sorted({*PROOFS.glob("*.v")} - {PROOFS / "Assumptions.v"})
CONTROLS = [
    control
    for path in sorted((PROOFS / "controls").glob("*.toml"))
    for control in tomllib.loads(path.read_text())["control"]
]
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}
STATEMENT = re.compile(
    r"^ *(?:Lemma|Theorem|Corollary|Definition|Fixpoint|Instance) (\w+)", re.MULTILINE
)
# What would let a file pass without a proof. `Hypothesis` and `Variable` are fine inside a section,
# which turns them into premises, and print as axioms where there is none.
UNPROVED = re.compile(
    r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|give_up|bypass_check|Unset Guard Checking"
    r"|Unset Positivity Checking|Unset Universe Checking)\b"
)

coq = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed"),
]


def without_comments(source: str) -> str:
    """Return Coq source without its comments, which may be nested."""
    kept, depth = [], 0
    for piece in re.split(r"(\(\*|\*\))", source):
        depth += (piece == "(*") - (piece == "*)")
        if depth == 0 and piece != "*)":
            kept.append(piece)
    return "".join(kept)


@pytest.fixture(scope="module")
def checked() -> str:
    """Have Coq check everything, and return what `make proofs` prints."""
    done = subprocess.run(
        ["make", "--no-print-directory"], cwd=PROOFS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nothing_is_assumed(path: Path) -> None:
    assert not UNPROVED.search(without_comments(path.read_text()))


def test_every_file_is_checked() -> None:
    listed = (PROOFS / "_CoqProject").read_text().split("\n")
    assert [path.name for path in SOURCES if path.name not in listed] == []


def test_documents_name_what_exists() -> None:
    """Every theorem that docs/guarantee.md calls machine-checked is in the file it names."""
    text = (PROOFS.parent / "docs" / "guarantee.md").read_text()
    cited = re.findall(r"`proofs/(\w+\.v)`:\s((?:`\w+`,?\s?)+)", text)
    assert len(cited) >= text.count("*Machine-checked*: ") > 0
    for file, names in cited:
        stated = STATEMENT.findall((PROOFS / file).read_text())
        assert set(re.findall(r"`(\w+)`", names)) <= set(stated), file


class TestChecked:
    pytestmark = coq

    def test_axioms_are_those_of_the_reals(self, checked: str) -> None:
        printed = (PROOFS / "Assumptions.printed").read_text()
        assert set(re.findall(r"^([A-Za-z_]+\.[\w.]+)", printed, re.MULTILINE)) == AXIOMS
        # An axiom of no module would be printed without a dot.
        assert re.findall(r"^(\w+)[ \n]*:", printed, re.MULTILINE) == ["Axioms"]

    def test_every_theorem_is_asked(self, checked: str) -> None:
        asked = re.findall(r"@Littlestone\.(\S+),", (PROOFS / "Assumptions.v").read_text())
        stated = {
            f"{path.stem}.{name}"
            for path in SOURCES
            for name in re.findall(r"^(?:Theorem|Corollary) (\w+)", path.read_text(), re.MULTILINE)
        }
        assert stated == set(asked)
        assert len(asked) > 40

    @pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control["why"])
    def test_weakened_theorem_fails(
        self, control: dict[str, str], checked: str, tmp_path: Path
    ) -> None:
        source = (PROOFS / control["file"]).read_text()
        assert control["text"] in source
        weakened = tmp_path / control["file"]
        weakened.write_text(source.replace(control["text"], control["weakened"]))
        command = ["coqc", "-q", "-Q", str(PROOFS), "Littlestone", "-w", "-ambiguous-paths"]
        done = subprocess.run([*command, weakened], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        found = re.search(r"line (\d+), characters [^\n]*\n(?!Warning)", done.stderr)
        assert found is not None, done.stderr
        before = weakened.read_text().split("\n")[: int(found[1])]
        assert STATEMENT.findall("\n".join(before))[-1] == control["fails_in"], done.stderr

    def test_the_tables_are_what_coq_computes(self, checked: str, tmp_path: Path) -> None:
        subprocess.run([sys.executable, PROOFS / "tables.py", tmp_path], check=True)
        for path in (PROOFS / "tables").glob("*.json"):
            assert path.read_text() == (tmp_path / path.name).read_text(), path.name


def test_without_coq_make_says_what_to_install() -> None:
    done = subprocess.run(
        ["make", "-C", PROOFS, "COQC=no-such-coqc"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "apt-get install coq libcoq-coquelicot" in done.stderr
