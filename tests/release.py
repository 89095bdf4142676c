"""Build the package, and try it as somebody does who has nothing else: `make release-check`.

It needs Python and a package index, no other package. The version must be the same everywhere;
wheel and source archive are built and checked by twine; the wheel is installed in a clean
environment, in which the commands of the README print what it says. Every table of the documents must
have been measured on this source tree. With --sbom what was installed there is written to
build/sbom.cdx.json; with --tag the tag must be that of the version.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
from bench.record import outdated

from console import Step, prints, steps

DIST, SBOM = ROOT / "dist", ROOT / "build" / "sbom.cdx.json"
TOOLS = ["build==1.6.1", "twine==7.0.0", "cyclonedx-bom==7.5.0"]
# Files that are no modules, without which a service answers with errors.
DATA = [
    "py.typed",
    "_service/page.html",
    "_service/page.js",
    "_service/page.css",
    "_report/templates/report.html.j2",
]
SERVED = """
from littlestone._service.app import make_app
from littlestone._service.routes import load_page
assert make_app and load_page()
"""


def version(tag: str | None = None) -> str:
    """Return the version, if it is the same wherever it is said."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = {"pyproject.toml": project["version"]}
    for name, pattern in (("CITATION.cff", r"^version: (\S+)"), ("CHANGELOG.md", r"^## (\S+)")):
        text = (ROOT / name).read_text("utf-8")
        found[name] = re.findall(pattern, text, re.M)[0]
    if tag is not None:
        found["the tag"] = tag.removeprefix("v")
    if len({*found.values()}) > 1:
        sys.exit(f"these versions differ: {found}")
    return str(project["version"])


def environment(folder: Path, *packages: str) -> Path:
    """Make a virtual environment; the folder of its commands."""
    venv.create(folder, with_pip=True, clear=True)
    commands = folder / "bin"
    install(commands, *packages)
    return commands


def install(commands: Path, *packages: str) -> None:
    """Install packages in an environment."""
    pip = [str(commands / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--quiet", *packages], check=True)


def built(tools: Path) -> tuple[Path, Path]:
    """Build wheel and source archive, and have twine look at them."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([tools / "python", "-m", "build", "--outdir", DIST, ROOT], check=True)
    (wheel,), (archive,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    subprocess.run([tools / "twine", "check", "--strict", wheel, archive], check=True)
    return wheel, archive


def check_contents(wheel: Path, archive: Path) -> None:
    """Look for what must be in the package, and for what must not."""
    inside = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in DATA if f"littlestone/{name}" not in inside]
    with tarfile.open(archive) as found:
        inside += found.getnames()
    private = [name for name in inside if re.search(r"\.(db|db-wal|tokens)$|\.venv/", name)]
    if missing or private:
        sys.exit(f"not in the wheel: {missing}; should not be there: {private}")


def check_links(wheel: Path, tag: str | None) -> None:
    """Look for links of the README that lead nowhere on a package index."""
    inside = zipfile.ZipFile(wheel)
    (name,) = [name for name in inside.namelist() if name.endswith("/METADATA")]
    readme = inside.read(name).decode()
    relative = re.findall(r"\]\((?!https:|#)[^)]*\)", readme)
    if relative or (tag is not None and "repository.invalid" in readme):
        sys.exit(f"links that lead nowhere: {relative or 'https://repository.invalid'}")


def run(step: Step, folder: Path, commands: Path) -> None:
    """Run a command of the README with what is installed in an environment and nothing else."""
    path = f"{commands}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": path, "HOME": str(folder), "COLUMNS": "120", "LANG": "C.UTF-8"},
    )
    if done.returncode:
        sys.exit(f"$ {step.command}\n{done.stdout}{done.stderr}")
    if step.output.strip() and not prints(step, done.stdout):
        sys.exit(f"$ {step.command}\n{done.stdout}")
    print(f"ok: {step.command[:90]}")


def main() -> None:
    """Build and check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag")
    parser.add_argument("--sbom", action="store_true")
    given = parser.parse_args()
    said = version(given.tag)
    with tempfile.TemporaryDirectory() as scratch:
        tools = environment(Path(scratch, "tools"), *TOOLS[: 3 if given.sbom else 2])
        wheel, archive = built(tools)
        check_contents(wheel, archive)
        check_links(wheel, given.tag)
        commands = environment(Path(scratch, "clean"), str(wheel))
        printed = subprocess.check_output([commands / "littlestone", "--version"], text=True)
        if printed.strip() != f"littlestone {said}":
            sys.exit(f"the wheel says it is {printed}")
        work = Path(scratch, "work")
        work.mkdir()
        for step in steps((ROOT / "README.md").read_text("utf-8")):
            run(step, work, commands)
        install(commands, f"{wheel}[serve]")
        subprocess.run([commands / "python", "-c", SERVED], check=True, cwd=work)
        if given.sbom:
            SBOM.parent.mkdir(exist_ok=True)
            bom = [str(tools / "cyclonedx-py"), "environment", str(commands / "python")]
            subprocess.run([*bom, "--output-file", str(SBOM), "--of", "JSON"], check=True)
    print(f"littlestone {said}: {wheel.name} and {archive.name} are sound")
    if stale := outdated(ROOT):
        sys.exit("\n".join(["measured on another tree:", *map(": ".join, stale.items())]))


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
