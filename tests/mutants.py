"""Mutants: break a line that guards the guarantee, and see that a test goes red. `make mutants`.

Each mutation is a piece of text in a file and what is put in its place, with the test files that
must notice. Every one is made alone, in a copy of the tree, and its tests are run there. A text
that is not found exactly once in its file is an error of this script: then the code has moved on,
and the list has to follow it.

    PYTHONPATH=tests python -m mutants            all of them, some minutes each dozen
    PYTHONPATH=tests python -m mutants store cap  those with one of these words in name or file
    PYTHONPATH=tests python -m mutants --check    only whether every text is found

A mutant that survives is a line that no test guards: write the test. Those in `HARMLESS` survive
because the line is a second lock on the same door, or because nothing can tell the difference; each
says why. They must survive: one that is killed is listed in the wrong place.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
NOT_COPIED = ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "figures", "*.egg-info"


class Mutant(NamedTuple):
    """One mutation: in `file`, below src/littlestone, `old` becomes `new`; `tests` must go red."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    """Test files below tests/, in the order in which they are run."""


MUTANTS = [
    Mutant(
        "outcomes may be of a type that was guessed",
        "_data/schema.py",
        'given = column_of(y, None, "value") if',
        "given = column_of(y, None) if",
        "data/test_lemma_0.py",
    ),
    Mutant(
        "users may be of a type that was guessed",
        "_data/schema.py",
        'return column_from_array(column_of(users, None, "value"))',
        "return column_from_array(column_of(users, None))",
        "data/test_lemma_0.py",
    ),
    Mutant(
        "a row with a fault keeps its label",
        "_data/schema.py",
        "        labels[list(faults)] = NULL\n",
        "",
        "data/test_readers.py",
    ),
    Mutant(
        "a row that the class cannot read is learned",
        "_data/schema.py",
        "    labels[~readable] = NULL\n",
        "",
        "learners/test_total.py learners/test_learner_use.py",
    ),
    Mutant(
        "a round of nobody is learned",
        "_data/schema.py",
        "    labels[nobody] = NULL\n",
        "",
        "learners/test_learner_use.py test_river.py",
    ),
    Mutant(
        "Arrow from outside is not validated",
        "_data/arrow.py",
        "for batch in map(validated, file.batches(first)):",
        "for batch in file.batches(first):",
        "data/test_damaged_arrow.py",
    ),
    Mutant(
        "a value is hashed by its place in the batch",
        "_learners/epoch_rows.py",
        "    return np.fromiter(map(value_hash, values.tolist()), np.uint32, len(values))",
        "    return np.arange(len(values), dtype=np.uint32)",
        "learners/test_epoch_rows.py",
    ),
    Mutant(
        "equal numbers of several types are one value",
        "_hypotheses/columns.py",
        "    if all(type(cell) is str or cell is None for cell in numbers):",
        "    if numbers:",
        "learners/test_epoch_rows.py",
    ),
    # The five that survived in version 0.1.
    Mutant(
        "cap counts are not saved",
        "_learners/base.py",
        "yield Checkpoint(live, memory, self._unsaved_users(), self.releases, trace)",
        "yield Checkpoint(live, memory, {}, self.releases, trace)",
        "store/test_store.py",
    ),
    Mutant(
        "published before COMMIT",
        "_store/store.py",
        "            self._end_transaction()\n        # Only now:",
        "            self.published = public; self._end_transaction()\n        # Only now:",
        "store/test_store.py",
    ),
    Mutant(
        "the forest also gets the rounds of a comparison",
        "_learners/loop.py",
        """                self._counts[rule.key] += len(part.wrong(self.forest.cls, rule))
            return
""",
        """                self._counts[rule.key] += len(part.wrong(self.forest.cls, rule))
""",
        "learners/test_dpsoa.py",
    ),
    Mutant(
        "River's skip does nothing",
        "river.py",
        "        self.learner_.skip_one(*([] if self.user is None else [self._user(x)]))",
        "        return",
        "test_river.py",
    ),
    Mutant(
        "condition (3) of the acceptance curve is not asked",
        "_privacy/selection.py",
        "and g * odds_now <= odds_after <= g**2 * odds_now",
        "and odds_after <= g**2 * odds_now",
        "privacy/test_selection.py",
    ),
    Mutant(
        "the exponential mechanism's rate is doubled",
        "_privacy/exponential.py",
        "self.rate = self.cost.epsilon / (2 * self.sensitivity)",
        "self.rate = self.cost.epsilon / self.sensitivity",
        "privacy/test_exponential.py",
    ),
    Mutant(
        "the exponential mechanism draws at twice its rate",
        "_privacy/exponential.py",
        "drawn = draw_by_score(values, self.rate, noise, release)",
        "drawn = draw_by_score(values, 2 * self.rate, noise, release)",
        "privacy/test_exponential.py",
    ),
    # Topics of Kafka: which offset is which round, and how far the store is.
    Mutant(
        "partitions are read one after the other",
        "_data/topic.py",
        "order = np.lexsort((*merged[::-1], np.concatenate(keys)))[:count]",
        "order = np.arange(len(merged[0]))[:count]",
        "data/test_topic.py",
    ),
    Mutant(
        "a block is learned before all of its messages have come",
        "_data/topic.py",
        "while any(self._waiting[number].seen < stop for number, stop in stops.items()):",
        "while not any(self._waiting[number].messages for number in stops):",
        "data/test_topic.py",
    ),
    Mutant(
        "another topic of the same name is gone on with",
        "_data/topic.py",
        "if found and place.last >= 0 and place.last != _checksum(value):",
        "if False:",
        "data/test_topic.py",
    ),
    Mutant(
        "the position in a topic is that of the block before",
        "_store/sources.py",
        "source = source._replace(rows=source.rows + len(block), topic=position)",
        "source = source._replace(rows=source.rows + len(block))",
        "store/test_topics.py",
    ),
    Mutant(
        "a failed commit of a topic's block is passed over",
        "_service/feed.py",
        "writer.learn_source(block, reached).result()",
        "writer.learn_source(block, reached).exception()",
        "service/test_feed.py",
    ),
    # The service: what is learned twice, published too early, or not at all.
    Mutant(
        "an old copy learns on",
        "_service/writer.py",
        "            raise unavailable(self.closed)\n\n    def _mark_file",
        "            pass\n\n    def _mark_file",
        "service/test_service.py",
    ),
    Mutant(
        "a file that was moved away is opened again",
        "_service/writer.py",
        "if self._is_lost:",
        "if False:",
        "service/test_service.py",
    ),
    Mutant(
        "the learner of a failed commit goes on",
        "_service/writer.py",
        "            self._store.close()\n            self._store = None\n",
        "            pass\n",
        "service/test_service.py",
    ),
    Mutant(
        "the same bytes in another mode are a retry",
        "_service/bodies.py",
        'f"{self.form} {mode}\\n".encode()',
        'b""',
        "service/test_service.py",
    ),
    Mutant(
        "everybody sees which batches were refused",
        "_service/metrics.py",
        "if private or route not in GUARDED or status == 200:",
        "if True:",
        "service/test_operations.py",
    ),
    Mutant(
        "a followed line is a row before its line feed",
        "_data/follow.py",
        "self.form, growing=True, at=at.byte",
        "self.form, growing=False, at=at.byte",
        "data/test_follow.py",
    ),
    # Noise: how much, how often, from where.
    Mutant(
        "a scale is rounded to the nearest float",
        "_privacy/noise.py",
        "return Fraction(float_above(scale))",
        "return Fraction(float(scale))",
        "privacy/test_noise.py",
    ),
    Mutant(
        "a reported epsilon is rounded to the nearest float",
        "_privacy/parameters.py",
        "return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)",
        "return nearest",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "the geometric law has a hole",
        "_privacy/noise.py",
        "return two_sided if two_sided >= 0 else ~two_sided",
        "return abs(two_sided)",
        "privacy/test_noise.py",
    ),
    Mutant(
        "noise drawn ahead survives a fork",
        "_privacy/noise.py",
        """        if os.getpid() != self._process:
            self._discard()
        ahead =""",
        """        ahead =""",
        "privacy/test_noise.py",
    ),
    Mutant(
        "noise can be pickled",
        "_privacy/noise.py",
        "def __reduce_ex__(self, protocol: object) -> NoReturn:",
        "def _reduce_ex(self, protocol: object) -> NoReturn:",
        "privacy/test_noise.py",
    ),
    Mutant(
        "a tail is a step too thick",
        "_privacy/noise.py",
        "return _power(gap, scale, digits) if gap > 0 else (Fraction(1), Fraction(1))",
        "return _power(gap - 1, scale, digits) if gap > 0 else (Fraction(1), Fraction(1))",
        "privacy/test_tails.py",
    ),
    # The monitors.
    Mutant(
        "the mistakes monitor's scale forgets the cap",
        "_privacy/sparse_vector.py",
        "return self.cap / self.cost.epsilon, self.cap / self.cost.epsilon",
        "return 1 / self.cost.epsilon, 1 / self.cost.epsilon",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "the threshold noise is not drawn anew in an epoch",
        "_privacy/sparse_vector.py",
        "self._mistakes, self._threshold_draw = 0, None",
        "self._mistakes = 0",
        "privacy/test_mechanism.py paper/test_paper_gates.py",
    ),
    Mutant(
        "the count is not reset at a firing",
        "_privacy/sparse_vector.py",
        "self._mistakes, self._threshold_draw = 0, None",
        "self._threshold_draw = None",
        "privacy/test_sparse_vector.py privacy/test_tails.py",
    ),
    Mutant(
        "a run that fires goes on in its epoch",
        "_privacy/sparse_vector.py",
        """        if fired is not None:
            self._begin_epoch()
""",
        "",
        "privacy/test_tails.py",
    ),
    Mutant(
        "the query noise forgets the releases",
        "paper/above_threshold.py",
        "return sensitivity / own, 2 * releases * sensitivity / (epsilon - own)",
        "return sensitivity / own, 2 * sensitivity / (epsilon - own)",
        "privacy/test_sparse_vector.py privacy/test_audited_plans.py",
    ),
    Mutant(
        "an exhausted sparse vector goes on",
        "paper/above_threshold.py",
        "return self.firings >= self.releases",
        "return self.firings > self.releases",
        "privacy/test_sparse_vector.py privacy/test_audited_plans.py",
    ),
    # The selectors.
    Mutant(
        "the histogram's scale is halved",
        "_privacy/selection.py",
        "self.scale = noise_scale(2 / self.cost.epsilon)",
        "self.scale = noise_scale(1 / self.cost.epsilon)",
        "privacy/test_histogram.py",
    ),
    Mutant(
        "tau is one too small",
        "_privacy/selection.py",
        "return below + 1",
        "return below",
        "privacy/test_histogram.py",
    ),
    Mutant(
        "an undecided tau is taken for enough",
        "_privacy/selection.py",
        "if left_high <= right_low:",
        "if left_low <= right_high:",
        "privacy/test_histogram.py",
    ),
    Mutant(
        "a key without votes stays in the ballot",
        "_privacy/selection.py",
        "if n > 0 and key != published}",
        "if key != published}",
        "privacy/test_histogram.py",
    ),
    Mutant(
        "the left-out key is not left out",
        "_privacy/selection.py",
        "if n > 0 and key != published}",
        "if n > 0}",
        "privacy/test_histogram.py privacy/test_selection.py",
    ),
    Mutant(
        "the published key is not left out",
        "_privacy/gates.py",
        "published = self.published if self.leave_out_published else None",
        "published = None",
        "privacy/test_gate.py",
    ),
    Mutant(
        "naming none weighs nothing",
        "_privacy/selection.py",
        "down ** (top - n) if n else down**top)",
        "down ** (top - n) if n else 1)",
        "privacy/test_selection.py",
    ),
    Mutant(
        "a drawn key is always kept",
        "_privacy/selection.py",
        "return keys[ticket // weights[n]] if accepted else None",
        "return keys[ticket // weights[n]]",
        "privacy/test_selection.py",
    ),
    Mutant(
        "the acceptance curve is not checked",
        "_privacy/selection.py",
        "if not is_valid_step(now, after, self.growth**2, low):",
        "if after < now:",
        "privacy/test_selection.py",
    ),
    Mutant(
        "an undecided group is guessed",
        "_privacy/exponential.py",
        "if start_high <= least and most <= end_low:",
        "if most <= end_low + (1 << width):",
        "privacy/test_exponential.py",
    ),
    # What adds up.
    Mutant(
        "delta is not split among the releases",
        "paper/gates.py",
        "delta=self.cost.delta / releases)",
        "delta=self.cost.delta)",
        "privacy/test_mechanism.py paper/test_paper_gates.py",
    ),
    Mutant(
        "a plan's delta is not split by the cap",
        "_learners/plan.py",
        "return self.delta / (self.cap or 1)",
        "return self.delta",
        "learners/test_plans.py learners/test_dpsoa.py learners/test_checkpoint.py",
    ),
    Mutant(
        "a plan's epsilon is not split by the cap",
        "_learners/plan.py",
        "return (self.epsilon - self.epsilon_monitor) / (self.cap or 1)",
        "return self.epsilon - self.epsilon_monitor",
        "learners/test_plans.py learners/test_dpsoa.py learners/test_checkpoint.py",
    ),
    Mutant(
        "selections beyond the first are free for a user",
        "_privacy/draw.py",
        "return monitor + self.cost.times(reads)",
        "return monitor + self.cost.times(min(reads, 1))",
        "privacy/test_gate.py",
    ),
    Mutant(
        "events without an epoch are counted once",
        "_privacy/accounting.py",
        "return sum(always, Cost(Fraction(epsilon), Fraction(delta)))",
        "return sum(always[:1], Cost(Fraction(epsilon), Fraction(delta)))",
        "privacy/test_accounting.py",
    ),
    Mutant(
        "the cheapest epochs are counted",
        "_privacy/accounting.py",
        "epsilon = sum(sorted(cost.epsilon for cost in epochs.values())[-max_epochs:])",
        "epsilon = sum(sorted(cost.epsilon for cost in epochs.values())[:max_epochs])",
        "privacy/test_accounting.py",
    ),
    Mutant(
        "composition forgets its slack",
        "paper/composition.py",
        "a, b = 2 * count * NEGLIGIBLE, Decimal(0)",
        "a, b = Decimal(0), Decimal(0)",
        "privacy/test_accounting.py paper/test_paper_gates.py",
    ),
    Mutant(
        "noise that is not secret has a guarantee",
        "_privacy/accounting.py",
        "if not noise.private:",
        "if False:",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "the guarantee is said per event, whatever the unit",
        "_privacy/gates.py",
        "return Guarantee.of(self.total, self._noise, self.unit, self._cap)",
        "return Guarantee.of(self.total, self._noise)",
        "learners/test_plans.py learners/test_dpsoa.py",
    ),
    # Forward only.
    Mutant(
        "a mechanism can be copied",
        "_privacy/mechanism.py",
        'raise TypeError("it cannot be copied: a step of the copy would be a second release")',
        "return self",
        "privacy/test_mechanism.py learners/test_learner_use.py",
    ),
    Mutant(
        "a mechanism can be pickled",
        "_privacy/mechanism.py",
        "def __reduce_ex__(self, protocol: object) -> NoReturn:",
        "def _reduce_ex(self, protocol: object) -> NoReturn:",
        "privacy/test_mechanism.py learners/test_learner_use.py",
    ),
    Mutant(
        "a mechanism works in a forked child",
        "_privacy/mechanism.py",
        "if os.getpid() != self._home:",
        "if False:",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "two threads step at once",
        "_privacy/mechanism.py",
        "if not self._lock.acquire(blocking=False):",
        "if self._lock.acquire(blocking=False) and False:",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "an exporter lives on",
        "_privacy/mechanism.py",
        """            self._moved = True
            return self._state()
""",
        """            return self._state()
""",
        "privacy/test_mechanism.py",
    ),
    Mutant(
        "a learner that was not kept lives on",
        "_privacy/mechanism.py",
        """            self._moved = True
            yield self._state()
            self._moved = False
""",
        """            yield self._state()
""",
        "learners/test_checkpoint.py",
    ),
    Mutant(
        "another promise's state is resumed",
        "_privacy/mechanism.py",
        "if self._identity != theirs:",
        "if False:",
        "privacy/test_mechanism.py learners/test_checkpoint.py",
    ),
    Mutant(
        "a learner goes on after a step that was interrupted",
        "_learners/base.py",
        "if not self._under_way.acquire(False):",
        "if self._under_way.acquire(False) and False:",
        "learners/test_learner_use.py",
    ),
    # The rounds, and what a round can move.
    Mutant(
        "a null round does not take its number",
        "_learners/rounds.py",
        "answers[kept], number[kept], route[kept])",
        "answers[kept], number[: len(kept)], route[kept])",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "a null round is routed by its place",
        "_learners/rounds.py",
        "answers[kept], number[kept], route[kept])",
        "answers[kept], number[kept], route[: len(kept)])",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "users are routed by round",
        "_learners/rounds.py",
        "route = number if users is None else users",
        "route = number",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "random bits of a round depend on its place in the batch",
        "_learners/forest.py",
        "return below(trees, random_bits(seed, Purpose.TREE, routes))",
        "return below(trees, random_bits(seed, Purpose.TREE, np.arange(np.size(routes))))",
        "learners/test_forest.py learners/test_dpsoa.py",
    ),
    Mutant(
        "a guess is the same in every generation of a tree",
        "_learners/forest.py",
        """        address = self.epoch, number, tree.generation, parent
""",
        """        address = self.epoch, number, parent
""",
        "learners/test_forest.py",
    ),
    Mutant(
        "a cap lets one round more through",
        "_learners/base.py",
        "return self._rounds_of[route] <= self.plan.cap",
        "return self._rounds_of[route] <= self.plan.cap + 1",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "a null round is not counted against the cap",
        "_learners/base.py",
        "if self.plan.cap is not None and not self._within_cap(route):",
        "if y is not None and self.plan.cap is not None and not self._within_cap(route):",
        "learners/test_dpsoa.py",
    ),
    Mutant(
        "cap counts are not loaded",
        "_learners/base.py",
        "self._rounds_of = dict(users)",
        "self._rounds_of = {}",
        "store/test_store.py",
    ),
    Mutant(
        "cap counts are not written",
        "_store/serialization.py",
        'db.executemany("INSERT OR REPLACE INTO users VALUES (?, ?)", users)',
        "list(users)",
        "store/test_store.py",
    ),
    Mutant(
        "a resumed learner forgets the rules published before the last",
        "_learners/dpsoa.py",
        "self._forest.publish(release.rule)",
        "pass",
        "learners/test_checkpoint.py",
    ),
    Mutant(
        "the forest is not replanted at a firing",
        "_learners/loop.py",
        """        \"\"\"Start the next epoch from the published rule.\"\"\"
        self.forest.restart(self.rule)
""",
        """        \"\"\"Start the next epoch from the published rule.\"\"\"
""",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "a draw reads rounds after its check",
        "_learners/loop.py",
        "self._add(judged.before((first + place + 1) * every))",
        "self._add(judged)",
        "learners/test_gate_inputs.py learners/test_causes_inputs.py",
    ),
    Mutant(
        "in a batch a row of a wrong outcome speaks against its cause",
        "_learners/causes_loop.py",
        "alone &= self.right == self.part.answers",
        "pass",
        "learners/test_effect.py",
    ),
    Mutant(
        "rows that wait are not read by a draw",
        "_learners/causes_loop.py",
        """        self._gather()
        units, alarm = self._costs
""",
        """        units, alarm = self._costs
""",
        "learners/test_single_rows.py learners/test_causes_inputs.py",
    ),
    Mutant(
        "evidence is left out of what a round may cost",
        "_privacy/causes.py",
        "total = gate.total + self.evidence.cost",
        "total = gate.total",
        "privacy/test_gate.py",
    ),
    Mutant(
        "a second first window",
        "_privacy/causes.py",
        "if self._given is not None or self._first.windows:",
        "if self._given is not None:",
        "privacy/test_gate.py",
    ),
    Mutant(
        "a negative margin makes keys of one row heavier",
        "_privacy/causes.py",
        'whole(self._margin(), "margin", least=0)',
        "self._margin()",
        "privacy/test_gate.py",
    ),
    Mutant(
        "the joint cost forgets what a moved row adds to the draw",
        "_privacy/causes.py",
        "monitor.epsilon + (1 + self.alarm) * self.rate",
        "monitor.epsilon + self.rate",
        "privacy/test_gate_laws.py",
    ),
    Mutant(
        "a row of several causes speaks for the first",
        "_learners/effect.py",
        "first, alone = matching[0], len(matching) == 1",
        "first, alone = matching[0], True",
        "privacy/test_gate_laws.py",
    ),
    Mutant(
        "a selection does not read the rounds that are buffered for remote trees",
        "_learners/loop.py",
        """        self.learn_buffered()
        # Which keys are left out""",
        """        # Which keys are left out""",
        "ray/test_shards.py",
    ),
    Mutant(
        "a watched learner leaves rounds buffered at the end of a batch",
        "_learners/loop.py",
        "if self._buffer and self._watched:",
        "if False:",
        "ray/test_shards.py",
    ),
    Mutant(
        "mistakes pending at a firing are counted again",
        "_learners/loop.py",
        "self._pending, self._step = 0, self.first_step",
        "self._step = self.first_step",
        "learners/test_dpsoa.py learners/test_gate_inputs.py",
    ),
    Mutant(
        "experts keep their scores after a firing",
        "_learners/experts.py",
        """        # The next draw must not read these rounds again: Theorem 10 has each read once.
        super()._begin_epoch(number)
""",
        "",
        "learners/test_gate_inputs.py learners/test_experts.py",
    ),
    Mutant(
        "learning goes on past the horizon",
        "_learners/base.py",
        "stop = max(self.rounds, min(end, self._horizon))",
        "stop = end",
        "learners/test_learner_use.py",
    ),
    # The store.
    Mutant(
        "what was committed to a file that was moved away is acknowledged",
        "_store/store.py",
        "self._refuse_if_displaced()  # what was committed elsewhere is not acknowledged",
        "pass",
        "store/test_store_files.py",
    ),
    Mutant(
        "the log of another file is read into a new one",
        "_store/files.py",
        "if leftovers and not path.exists():",
        "if False:",
        "store/test_store_files.py",
    ),
    Mutant(
        "rows that were changed are not noticed",
        "_store/files.py",
        "if not seal.holds():",
        "if False:",
        "store/test_store_files.py",
    ),
    Mutant(
        "an old copy is forgotten when it is opened again",
        "_store/store.py",
        "            refuse_marked(path, marks_of(db))",
        "            pass",
        "store/test_store_files.py",
    ),
    Mutant(
        "a copy that is behind its original is taken over",
        "_store/copies.py",
        'if seal.digest(leave_out="about") != mark.digest:',
        "if False:",
        "store/test_copies.py",
    ),
    Mutant(
        "an original goes on after it was handed over",
        "_store/copies.py",
        '_set(db, "handed_over", json.dumps((to[0], name)))',
        "pass",
        "store/test_copies.py",
    ),
    Mutant(
        "a copy of a copy goes on in its place",
        "_store/copies.py",
        "name = secrets.token_hex(8)",
        "name = mark.name",
        "store/test_copies.py",
    ),
    Mutant(
        "a run draws more than is left",
        "_privacy/budget_file.py",
        """            state.refuse_overdraft(cost, "the run")
            self""",
        "            self",
        "privacy/test_budget_file.py",
    ),
    Mutant(
        "a repetition draws more than is left",
        "_privacy/budget_file.py",
        'state.refuse_overdraft(charged, "learning rows once more")',
        "pass",
        "privacy/test_budget_file.py",
    ),
    Mutant(
        "only epsilon is compared with what is left",
        "_privacy/budget_file.py",
        "after.epsilon <= most.epsilon and after.delta <= most.delta",
        "after.epsilon <= most.epsilon",
        "privacy/test_budget_file.py",
    ),
    Mutant(
        "entries of a budget's log that were changed are read",
        "_privacy/budget_file.py",
        "if (number, written) != (expected, seal):",
        "if False:",
        "privacy/test_budget_file.py",
    ),
    Mutant(
        "a run with a delta learns rows again",
        "_privacy/budget_file.py",
        "if missing and first.cost.delta:",
        "if False:",
        "store/test_charges.py",
    ),
    Mutant(
        "how deep a line may be nested is left to the decoder",
        "_data/formats.py",
        "if len(line) > MOST_NESTED and _is_deep(line)",
        "if False",
        "data/test_readers.py",
    ),
    Mutant(
        "a topic is learned beside its partition",
        "_store/sources.py",
        "for source in () if found else topics:",
        "for source in ():",
        "store/test_topics.py",
    ),
    Mutant(
        "the log of another learner is read into the file",
        "_store/files.py",
        "return alone.key == seal.key and alone.commits <= seal.commits",
        "return True",
        "store/test_store_files.py",
    ),
    Mutant(
        "a run draws before it knows that its releases can be written",
        "_cli/learn_run.py",
        "            file.refuse_other(store.published.releases, store.published.windows)\n",
        "",
        "store/test_charges.py",
    ),
    Mutant(
        "a log that was cut short is read up to there",
        "_store/files.py",
        "commits.isdecimal() and seal.commits >= int(commits)",
        "commits.isdecimal()",
        "store/test_lost_log.py",
    ),
    Mutant(
        "a file that was not closed needs no mark",
        "_store/files.py",
        "seal.is_open and not _has_all(seal, mark)",
        "mark and not _has_all(seal, mark)",
        "store/test_lost_log.py",
    ),
    Mutant(
        "only the log knows that the file is open",
        "_store/store.py",
        "        if not was_open:\n            fold_in(self.path, self._db)\n",
        "",
        "store/test_lost_log.py",
    ),
    Mutant(
        "a commit is published before it is marked",
        "_store/store.py",
        "        write_mark(self.path, self._seal)\n",
        "",
        "store/test_lost_log.py",
    ),
    Mutant(
        "who held the file before may commit",
        "_store/store.py",
        "if generation_of(self._db) != self.generation:",
        "if False:",
        "store/test_store.py",
    ),
    Mutant(
        "opening is no move",
        "_store/files.py",
        "UPDATE about SET value = value + 1 WHERE",
        "UPDATE about SET value = value + 0 WHERE",
        "store/test_store.py",
    ),
    Mutant(
        "a batch that was cut short is committed with the next",
        "_store/store.py",
        "if self.learner.rounds != rounds:",
        "if False:",
        "store/test_store.py",
    ),
    Mutant(
        "a key's rows are not compared",
        "_store/store.py",
        "if row[0] != digest:",
        "if False:",
        "store/test_store.py",
    ),
    Mutant(
        "a known key is learned again",
        "_store/store.py",
        "receipt = self._known(key, digest)",
        "receipt = None",
        "store/test_store.py",
    ),
    Mutant(
        "a commit need not be on disk",
        "_store/files.py",
        'db.execute("PRAGMA synchronous = FULL")',
        'db.execute("PRAGMA synchronous = OFF")',
        "store/test_store.py",
    ),
    Mutant(
        "the store's file is for everybody",
        "_store/files.py",
        "os.chmod(path, 0o600)",
        "os.chmod(path, 0o644)",
        "store/test_store.py",
    ),
    Mutant(
        "an older copy is not found out by its releases",
        "_store/releases_file.py",
        "        if self._has_other_lines(written, [line for _, line in lines]):",
        "        if False:",
        "store/test_store.py",
    ),
    # The budget of estimators.
    Mutant(
        "a deep copy of an estimator has a budget of its own",
        "_privacy/accounting.py",
        """    def __deepcopy__(self, memo: object) -> Self:
        return self
""",
        """    def __deepcopy__(self, memo: object) -> "Budget":
        return Budget(self.split_by)
""",
        "test_sklearn.py test_river.py",
    ),
    Mutant(
        "a pickle is a budget of its own",
        "_privacy/accounting.py",
        "if token in _PICKLED:",
        "if False:",
        "test_sklearn.py",
    ),
    Mutant(
        "a pickle can be fitted in another process",
        "_privacy/accounting.py",
        "foreign._token, foreign._home = token, None",
        "foreign._token = token",
        "test_sklearn.py",
    ),
    Mutant(
        "an estimator can be fitted in a forked child",
        "_privacy/accounting.py",
        "if os.getpid() != self._home:",
        "if self._home is None:",
        "test_sklearn.py",
    ),
    Mutant(
        "parameters that are set raise the budget",
        "_privacy/accounting.py",
        """        total = total if self.total is None else self.total
        after = self.spent + cost
""",
        """        after = self.spent + cost
""",
        "test_sklearn.py",
    ),
    Mutant(
        "delta is not counted",
        "_privacy/accounting.py",
        "if after.epsilon > total.epsilon or after.delta > total.delta:",
        "if after.epsilon > total.epsilon:",
        "test_sklearn.py",
    ),
    Mutant(
        "a clone for River has a budget of its own",
        "river.py",
        """        twin._budget = self._shared_budget()
""",
        "",
        "test_river.py",
    ),
    Mutant(
        "a learner of an estimator has the whole budget",
        "_learners/estimators.py",
        "epsilon=total.epsilon * self._share,\n            delta",
        "epsilon=total.epsilon,\n            delta",
        "test_sklearn.py",
    ),
]

HARMLESS = {
    "composition forgets its slack": "`SLACK`, 1e-40, is taken off as well, and is larger",
}
"""Mutants that survive and should, each with why."""


def check() -> None:
    """Say which texts are not found exactly once, and stop if any are."""
    counts = {
        mutant.name: (ROOT / "src/littlestone" / mutant.file).read_text().count(mutant.old)
        for mutant in MUTANTS
    }
    lost = [f"{name!r}: its text is there {n} times" for name, n in counts.items() if n != 1]
    lost += [f"{name!r} is not the name of a mutant" for name in HARMLESS if name not in counts]
    if len(counts) != len(MUTANTS):
        lost.append("two mutants have the same name")
    if lost:
        sys.exit("\n".join([*lost, "The code has moved on: mend the list in tests/mutants.py."]))


def copied(into: Path) -> Path:
    """Copy the tree, without what it does not need to be tested, and give it an interpreter.

    One of its own, that finds the copy before what is installed: tests start processes whose
    environment they choose.
    """
    shutil.copytree(ROOT, into, ignore=shutil.ignore_patterns(*NOT_COPIED))
    venv.create(into / ".venv", symlinks=True)
    (packages,) = (into / ".venv").glob("lib/python*/site-packages")
    installed = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    (packages / "copy.pth").write_text(f"{into / 'src'}\n{installed}\n")
    asked = [python_of(into), "-c", "import littlestone; print(littlestone.__file__)"]
    found = subprocess.run(asked, env={}, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(into), f"{found} is not of the copy"
    return into


def python_of(tree: Path) -> str:
    """The interpreter of a copy."""
    return str(tree / ".venv/bin/python")


def red(tree: Path, test: str) -> bool:
    """Whether a file of tests fails in a tree: in one process, up to the first failure."""
    command = [python_of(tree), "-m", "pytest", "-p", "no:cacheprovider", "-x", "-n", "0", "-q"]
    done = subprocess.run(
        [*command, f"tests/{test}"],
        cwd=tree,
        # No compiled files: one of a mutant could be taken for that of the next.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"the tests did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.returncode == 1


@cache
def green_before(tree: Path, test: str) -> None:
    """Stop if a test is red without any mutation: it would seem to kill everything."""
    if red(tree, test):
        sys.exit(f"{test}: red before anything was changed")


def killed(mutant: Mutant, tree: Path) -> bool:
    """Whether the tests of a mutant notice it. The tree is left as it was."""
    path, tests = tree / "src/littlestone" / mutant.file, mutant.tests.split()
    whole = path.read_text()
    for test in tests:
        green_before(tree, test)
    path.write_text(whole.replace(mutant.old, mutant.new))
    try:
        return any(red(tree, test) for test in tests)
    finally:
        path.write_text(whole)


def main(words: list[str]) -> None:
    """Run the mutants that are asked for; exit 1 if any does not end as it should."""
    check()
    if words == ["--check"]:
        return
    chosen = [m for m in MUTANTS if not words or any(w in f"{m.name} {m.file}" for w in words)]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder).resolve() / "tree")
        for mutant in chosen:
            began = time.monotonic()
            dead, harmless = killed(mutant, tree), mutant.name in HARMLESS
            word = "killed  " if dead else "harmless" if harmless else "SURVIVED"
            print(
                f"{word} {time.monotonic() - began:5.0f} s  {mutant.file}: {mutant.name}",
                flush=True,
            )
            if dead == harmless:
                wrong.append(mutant.name)
    print(
        f"{len(chosen)} mutants, {len(wrong)} that did not end as they should", *wrong, sep="\n  "
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
