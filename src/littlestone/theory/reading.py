"""Reading rules from JSON: exactly what `Hypothesis.to_json` wrote, and nothing else."""

import json
from collections.abc import Callable, Mapping

from littlestone.theory.errors import BadExample
from littlestone.theory.hypothesis import ALWAYS, NEVER, Constant, Hypothesis
from littlestone.theory.values import from_json
from littlestone.theory.vocabulary import (
    All,
    AtLeast,
    Not,
    OneOf,
    Steps,
    all_of,
    at_least,
    negation,
    one_of,
    steps,
)

Builder = Callable[..., Hypothesis]
"""A function that makes a rule from the fields of its JSON, given by name."""

_BUILDERS: dict[str, Builder] = {
    Constant.kind: lambda answer: ALWAYS if answer is True else NEVER,
    OneOf.kind: one_of,
    Steps.kind: steps,
    All.kind: all_of,
    AtLeast.kind: at_least,
    Not.kind: negation,
}


def _is_rule(part: object) -> bool:
    return isinstance(part, Mapping) and "kind" in part


def rule_from_json(data: object, also: Mapping[str, Builder] | None = None) -> Hypothesis:
    """Return the rule that `Hypothesis.to_json` wrote.

    Parameters
    ----------
    data : object
        JSON data.
    also : mapping of str to Builder, optional
        Builders of further kinds of rules, by `Hypothesis.kind`.

    Returns
    -------
    Hypothesis
        The rule.

    Raises
    ------
    BadExample
        If `to_json` of no rule gives this data.

    Examples
    --------
    >>> from littlestone.theory.vocabulary import one_of
    >>> rule_from_json(one_of([1.0, None]).to_json()) == one_of([None, 1.0])
    True
    >>> rule_from_json({"kind": "constant", "answer": 1})
    Traceback (most recent call last):
    littlestone.theory.errors.BadExample: {'kind': ...} is not a rule that littlestone wrote
    """
    wrong = BadExample(f"{data!r} is not a rule that littlestone wrote")
    if not isinstance(data, Mapping):
        raise wrong
    build = {**_BUILDERS, **(also or {})}.get(str(data.get("kind")))
    if build is None:
        raise wrong
    try:
        parts = {
            name: rule_from_json(part, also) if _is_rule(part) else from_json(part)
            for name, part in data.items()
            if name != "kind"
        }
        rule = build(**parts)
        # Written again and compared as text, so that a rule has one JSON: 1 is not true or 1.0.
        if json.dumps(rule.to_json(), sort_keys=True) == json.dumps(data, sort_keys=True):
            return rule
    except (TypeError, ValueError) as error:
        raise wrong from error
    raise wrong
