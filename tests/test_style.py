"""What STYLE asks of the code, as far as it can be counted: `python -m bench shape` prints it."""

from bench import shape


def test_every_public_function_of_three_or_more_parameters_documents_them() -> None:
    documented = shape.documented_methods()
    missing = [
        f"{name}: {node.name}"
        for name, _, tree in shape.parsed()
        # The options of a verb are documented where `--help` finds them.
        if not name.startswith("cli/")
        for node, said in shape.public_functions(tree)
        if len(shape.parameters(node)) >= 3
        if "Parameters\n" not in said and shape.signature(node) not in documented
    ]
    assert missing == []


def test_no_docstring_begins_with_a_question_word() -> None:
    asking = [
        f"{name}: {node.name}"
        for name, _, tree in shape.parsed()
        for node, said in shape.public_functions(tree)
        if said.lower().startswith(shape.QUESTIONS)
    ]
    assert asking == []


def test_a_public_name_has_one_meaning() -> None:
    """But for River's adapters, which are named like the learners they adapt."""
    colliding = {
        name: homes for name, homes in shape.public_names().items() if len(homes - {"river.py"}) > 1
    }
    assert colliding == {}
