"""Lemma 6.2, measured: the least share of the votes that the most voted rule ever had."""

from rich.console import Console
from rich.table import Table

from littlestone.edge.specs import parse_spec
from littlestone.lab.adversaries import ADVERSARIES
from littlestone.lab.agreement import least_share, supported
from littlestone.lab.streams import Stream

TREES, ROUNDS, SEEDS = 400, 100_000, range(1, 4)


def run() -> None:
    """Trees of 2^(d+1) leaves, as the lemma asks (without its minimum of 20)."""
    table = Table("class", "stream", "leaves k1", "least share", "eta of the proof")
    table.title = f"The most voted rule, {TREES} trees, {ROUNDS:,} rounds, worst of {len(SEEDS)}"
    for spec in ("points:x", "sets:x:2", "thresholds:x:1:3", "thresholds:x:1:7"):
        cls = parse_spec(spec)
        leaves = 2 ** (cls.dimension + 1)
        for name in ("iid", "burst", "halving"):
            least = 1.0
            for seed in SEEDS:
                stream = ADVERSARIES[name](cls, ROUNDS, seed, 0.0)
                if isinstance(stream, Stream):
                    least = min(least, least_share(cls, stream, leaves, TREES, seed))
            table.add_row(spec, name, str(leaves), f"{least:.4f}", f"2^{supported(leaves):.0f}")
    Console(highlight=False, emoji=False, width=100).print(table)
