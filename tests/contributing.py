"""The examples of CONTRIBUTING.md, as they stand there."""

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def example(thing: str) -> dict[str, Any]:
    """Run the example of the section "Add ...", and return its names."""
    _, _, section = GUIDE.read_text("utf-8").partition(f"\n## Add {thing}\n")
    (code,) = re.findall(
        r"^```python\n(.*?)^```", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE
    )
    names = {"__name__": "contributed"}
    exec(code, names)
    return names
