"""What STYLE asks of the code, as far as it can be counted: `python -m bench shape` prints it."""

import ast

from bench import shape


def test_every_exported_function_of_three_or_more_parameters_documents_them() -> None:
    assert shape.undocumented() == []


def test_an_option_is_documented_by_its_help() -> None:
    def annotation(text: str) -> ast.expr:
        return ast.parse(text, mode="eval").body

    aliases = shape.option_aliases()
    assert {"Spec", "Epsilon", "Seed"} <= aliases
    assert shape.has_help(annotation("Spec"), aliases)
    assert shape.has_help(annotation("Annotated[int, typer.Option(help='Rounds.')]"), aliases)
    assert not shape.has_help(annotation("Annotated[int, typer.Option('--rounds')]"), aliases)
    assert not shape.has_help(annotation("int"), aliases)


def test_code_is_what_is_neither_blank_nor_comment_nor_docstring() -> None:
    text = '"""Two\nlines."""\n\n# why\nx = (\n    1,  # one\n)\n'
    assert shape.code_lines(text, ast.parse(text)) == 3


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
    assert colliding == {}
