"""The demo: a short tour of the theory, in the terminal."""

from rich.console import Console
from rich.table import Table

from littlestone.lab.games import Round, TreeAdversary, play
from littlestone.learning.plain import SOA
from littlestone.theory.dimension import witness
from littlestone.theory.rules import Rules
from littlestone.theory.trees import MistakeTree, describe, draw

COLUMNS = ["version", "country", "device"]


def run(console: Console) -> None:
    """Print the tour."""
    cls = Rules(COLUMNS)
    tree = witness(cls)
    console.rule("1. A class of rules")
    console.print(
        f"\nFailures have one cause: some value of {', '.join(COLUMNS)}. Each vocabulary is without"
        "\nbounds, so there is no end of rules such as version = '4.2.1'. Yet the class is small:\n"
    )
    console.print(f"    {cls!r}\n    Littlestone dimension {cls.dimension}\n")
    console.rule("2. Its proof: a shattered mistake tree")
    console.print(
        "\nWhatever the labels on a path, some rule takes it. So an adversary can walk down"
    )
    console.print(f"and be wrong {cls.dimension} times for any learner.\n\n{draw(tree)}\n")
    console.rule("3. A game: the best learner against that adversary")
    _game(console, cls, tree)
    console.print(
        "\nSOA publishes what single examples tell it, so it is not private. The private learner,"
        "\nwhich publishes rules like these under a guarantee, is what this project builds next."
    )


def _game(console: Console, cls: Rules, tree: MistakeTree) -> None:
    adversary = TreeAdversary(tree)
    game = play(SOA(cls), adversary, rounds=100)
    console.print()
    console.print(_transcript(game))
    mistakes = sum(turn.mistake for turn in game)
    console.print(f"\n{mistakes} mistakes, no fewer than the dimension and no more.")
    console.print(f"A rule that fits all the examples: {adversary.truth}")


def _transcript(game: list[Round]) -> Table:
    table = Table("round", "published rule", "example", "label", "", box=None, padding=(0, 2, 0, 0))
    for number, turn in enumerate(game, start=1):
        table.add_row(
            str(number),
            str(turn.rule),
            describe(turn.x),
            str(int(turn.y)),
            "mistake" if turn.mistake else "",
        )
    return table
