"""What STYLE asks of the code, as far as it can be counted: `python -m bench shape` prints it."""

import ast
from pathlib import Path
from typing import Any

from bench import shape
from typer.main import get_command

import mutants
from conftest import SLOW
from littlestone._cli.verbs import app


def test_every_exported_function_of_three_or_more_parameters_documents_them() -> None:
    assert shape.undocumented() == []


def test_an_option_is_documented_by_its_help() -> None:
    group: Any = get_command(app)
    verbs = dict(group.commands)
    verbs |= verbs.pop("budget").commands
    silent = [
        f"{verb} {option.name}"
        for verb, command in verbs.items()
        for option in command.params
        if option.name != "help" and not option.help
    ]
    assert silent == []
    assert len(verbs) > 10


def test_code_is_what_is_neither_blank_nor_comment_nor_docstring() -> None:
    text = '"""Two\nlines."""\n\n# why\nx = (\n    1,  # one\n)\n'
    assert shape.code_lines(text, ast.parse(text)) == {5, 6, 7}


def test_no_docstring_begins_with_a_question_word() -> None:
    asking = [
        f"{name}: {node.name}"
        for name, _, tree in shape.parsed()
        for node, said in shape.public_functions(tree)
        if said.lower().startswith(shape.QUESTIONS)
    ]
    assert asking == []


def test_a_public_name_has_one_meaning() -> None:
    colliding = {name: homes for name, homes in shape.public_names().items() if len(homes) > 1}
    # The same model for two libraries, with the same parameters.
    assert colliding == {"PrivateClassifier": {"river.py", "sklearn.py"}}


def test_the_tests_that_stand_for_a_slow_file_exist() -> None:
    for file, names in SLOW.items():
        text = (Path(__file__).parent / file).read_text("utf-8")
        assert [name for name in names if f"def {name}(" not in text] == [], file


def test_every_mutant_is_a_line_of_the_code_and_has_its_tests() -> None:
    assert mutants.errors() == [], "mend tests/mutants.txt"
    assert len(mutants.MUTANTS) > 100
