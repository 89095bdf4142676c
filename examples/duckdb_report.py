"""From DuckDB to a report: a query writes Parquet, `littlestone learn` reads it, SQL reads back.

Run `python examples/duckdb_report.py [FOLDER]`.
"""

import subprocess
import sys
from pathlib import Path

import duckdb

from story import COLOURS, folder, new_axes, save

EVENTS = """
    SELECT 'v' || (i % 7) AS version, 'region ' || (hash(i) % 12) AS region,
           random() < CASE WHEN i % 7 = 3 AND hash(i) % 12 = 5 THEN 0.4 ELSE 0.01 END AS failed
    FROM range(200000) AS events(i)
"""
"""Here rows are made up; the query would be yours, in the order of the events."""

EVIDENCE = """
    SELECT cause.cause, cause.events, cause.rate, cause.low, cause.high
    FROM (SELECT unnest(evidence) AS cause FROM read_json('{releases}') WHERE kind = 'evidence'
          ORDER BY round DESC LIMIT 1)
"""
"""The last window of evidence, from the public file of releases."""


def main() -> None:
    place = folder()
    events, releases, report = (
        place / "events.parquet",
        place / "releases.jsonl",
        place / "report.html",
    )
    duckdb.execute("SELECT setseed(0.5)")
    duckdb.execute(f"COPY ({EVENTS}) TO '{events}' (FORMAT parquet)")

    command = ["littlestone", "learn", str(events), "--class", "causes:version,region:2"]
    command += ["--label", "failed", "--epsilon", "1", "--delta", "1e-8", "--force"]
    command += ["--out", str(releases), "--report", str(report)]
    script = Path(sys.executable).with_name("littlestone")
    done = subprocess.run([script, *command[1:]], check=True, capture_output=True, text=True)
    print(done.stdout)  # public; what is private went to standard error, and to the report

    ax = new_axes("Public: the rate of each cause, from the file of releases", height=1.9)
    for cause, count, rate, low, high in duckdb.execute(
        EVIDENCE.format(releases=releases)
    ).fetchall():
        print(f"  {cause}: {count:,} events, {rate:.0%} fail ({low:.0%} to {high:.0%})")
        ax.barh(cause.replace(" and ", "\nand "), rate, color=COLOURS[0])
        ax.errorbar(rate, cause.replace(" and ", "\nand "), xerr=[[rate - low], [high - rate]],
                    color="black", capsize=4)  # fmt: skip
    ax.set_xlabel("rate of failures, with an interval of 95 %")
    save(ax, place / "duckdb_report.svg")


if __name__ == "__main__":
    main()
