"""A language model with the rows and the people that it is asked about: what an audit asks, as prompts and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from evenhand.core.config import check_configuration
from evenhand.core.text import format_count, suggest_name
from evenhand.core.typing import Integers, Progress
from evenhand.datasets.identity.balance import check_name_list
from evenhand.datasets.identity.names import NameList, Person, load_name_list
from evenhand.errors import DataError, LimitError, ModelError, OptionError
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import CHOICE, CUT_OFF, FAILED, REFUSED, UNREADABLE, AnswerBatch, QuestionBatch
from evenhand.llm.result import AskedSide, NameListCard
from evenhand.models.language.answers import ChatOutcome
from evenhand.models.language.file import ScreeningFile, read_screening_file
from evenhand.models.language.model import ChatQuestion, LanguageModel
from evenhand.models.language.prompts import Prompt
from evenhand.schema.arrays import require_column
from evenhand.schema.table import is_missing

KINDS = {"choice": CHOICE, "refused": REFUSED, "unreadable": UNREADABLE, "cut off": CUT_OFF, "failed": FAILED}
"""Kinds of outcomes as numbers."""

CALLS = 6000
"""Questions at most, where neither the settings nor the file's plan says."""

Row = Mapping[str, Any]


class Spoken(NamedTuple):
    """What was asked about one person, and what came back."""

    prompt: Prompt
    outcome: ChatOutcome


class RowTemplates(NamedTuple):
    """Rows of the data as templates.

    Attributes:
        rows: of each template: one, or as many as a prompt ranks.
        positions: where the (first) row of each stands in the data.
        total: rows in the data.
        data_name: what they are called.
    """

    rows: Sequence[Sequence[Row]]
    positions: Sequence[int]
    total: int
    data_name: str


class Interview:
    """A language model, the rows that are templates, and the people of each group.

    Attributes:
        model: who is asked.
        rows, positions, total, data_name: of ``RowTemplates``.
        groups: their names.
        people: of each group.
        comparisons: pairs of groups, group 1 and group 0.
        card: where the people come from.
        config: the settings, with nothing left to the file's plan.
        batch: where questions are written that have no answer yet, in place of asking them; None: they are asked.
    """

    def __init__(
        self,
        model: LanguageModel,
        config: LanguageModelConfig,
        templates: RowTemplates,
        people: Mapping[str, Sequence[Person]],
        comparisons: Sequence[tuple[str, str]],
        card: NameListCard,
    ) -> None:
        self.config = config
        self.model, self.card = model, card
        self.rows, self.positions, self.total, self.data_name = templates
        self.groups, self.people = tuple(people), tuple(people.values())
        self.comparisons = [(self.groups.index(one), self.groups.index(other)) for one, other in comparisons]
        self.progress: Progress = lambda what, share: None
        self.batch: Path | None = None
        self._spoken: dict[tuple[int, int, int, int], Spoken] = {}
        self._draws: dict[Prompt, dict[tuple[object, ...], int]] = {}

    @property
    def templates(self) -> int:
        """How many templates there are."""
        return len(self.rows)

    @property
    def names(self) -> tuple[int, ...]:
        """How many names, or wordings, each group has."""
        return tuple(map(len, self.people))

    @property
    def ranks(self) -> bool:
        """Whether a question ranks one candidate of every group."""
        return self.model.file.outcome == "rank"

    @property
    def unit(self) -> float:
        """What a difference of outcomes of 1 is in the unit of the answers: the width of a number's range."""
        answers = self.model.file.answers
        if answers.range is None:
            return 1.0
        low, high = answers.range
        return low - high if answers.favourable == "low" else high - low

    def questions(self, batch: QuestionBatch) -> Iterator[ChatQuestion]:
        """Yield the questions of a batch; of a ranking one per place, all with the same prompt.

        Without seeds, the draw tells prompts apart that are the same in several templates or for several people.
        """
        paired = self.model.file.plan.seeds == "paired"
        for template, group, name, record, draw, seed in zip(*(part.tolist() for part in batch), strict=True):
            rows = self.rows[template]
            asked = [(rows[r], self.people[g][n]) for g, n, r in zip(group, name, record, strict=True)]
            prompt = self.model.render(*asked[0], others=asked[1:])
            if not paired:
                known = self._draws.setdefault(prompt, {})
                draw = known.setdefault((template, *group, *name, *record, draw), len(known))
            for place in range(1, len(asked) + 1):
                yield ChatQuestion(prompt, draw, seed, place)

    def ask(self, batch: QuestionBatch) -> AnswerBatch:
        """Return the answers, in the order of the questions: outcomes from 0, the worst, to 1, the best.

        Raises:
            LimitError: questions were written to the file ``batch``.
        """
        questions = list(self.questions(batch))
        if self.batch is not None and (written := self.model.write_batch(questions, self.batch)):
            raise LimitError(
                f"{format_count(written, 'question waits', 'questions wait')} in {self.batch} for an answer",
                hint="have the file answered, then go on with `batch_in=RESULTS`",
            )
        outcomes = self.model.ask(questions, lambda share: self.progress("asking", share))
        shape = batch.group.shape
        values = np.array([one.value for one in outcomes], dtype=np.float64).reshape(shape)
        if not self._spoken and all(one.kind in ("unreadable", "cut off") for one in outcomes):
            raise ModelError(
                f"none of the first {len(outcomes):,} answers can be read, such as {outcomes[0].text[:200]!r}",
                location=self.model.file.name,
                hint="have the prompt ask for one of the answers alone, allow more tokens, or read them otherwise",
            )
        worst = self.model.file.answers.worst
        kinds = np.array([KINDS[one.kind] for one in outcomes]).reshape(shape).max(axis=1)
        for at, (question, outcome) in enumerate(zip(questions, outcomes, strict=True)):
            i, place = divmod(at, shape[1])
            key = (int(batch.template[i]), int(batch.group[i, place]), int(batch.name[i, place]), int(batch.seed[i]))
            self._spoken[key] = Spoken(question.prompt, outcome)
        return AnswerBatch((values - worst) / self.unit, kinds)

    def side(self, template: int, group: int, name: int, seed: int) -> AskedSide:
        """Return what was asked about a person in a trial, and what came back."""
        person, spoken = self.people[group][name], self._spoken[template, group, name, seed]
        outcome = spoken.outcome
        return AskedSide(
            group=self.groups[group],
            name=person.label,
            prompt=spoken.prompt.text,
            answer=outcome.text,
            label=outcome.label if outcome.kind == "choice" else outcome.kind,
        )

    def check_exchange(self) -> None:
        """Refuse prompts that are the same for two groups that are compared, unless the file is blind.

        Raises:
            OptionError: no template shows who is asked about.
        """
        for pair in () if self.model.file.blind else self.comparisons:
            if all(self._prompts(rows, pair[0]) == self._prompts(rows, pair[1]) for rows in self.rows):
                one, other = (self.groups[group] for group in pair)
                raise OptionError(
                    f"every prompt is the same for {one} and {other}, so that no gap can be found",
                    location=f"{self.model.file.name}, prompt",
                    hint="show the person, as in {{ person.name }}; or say blind: true, if the model shall not see it",
                )

    def _prompts(self, rows: Sequence[Row], group: int) -> set[Prompt]:
        """Return what a template says about the people of a group."""
        return {
            self.model.render(rows[0], person, others=[(row, person) for row in rows[1:]])
            for person in self.people[group]
        }

    def column(self, name: str, setting: str = "scenario") -> list[str]:
        """Return the value of a column in each template, as text; ``setting`` is what names it.

        Raises:
            DataError: there is no such column.
        """
        require_column(name, list(self.rows[0][0]), setting)
        return ["unknown" if is_missing(rows[0][name]) else str(rows[0][name]) for rows in self.rows]

    def codes(self, setting: Literal["scenario", "cluster"]) -> Integers | None:
        """Return the values of the column that a setting names, numbered in the order of the data; None without one."""
        name = getattr(self.config, setting)
        if name is None:
            return None
        values = self.column(name, setting)
        known = list(dict.fromkeys(values))
        if setting == "cluster" and len(known) < 2:
            raise OptionError(
                f"expected at least two clusters, and {name!r} has the one value {known[0]!r} in all templates",
                location=f"`{setting}=`",
                hint="leave it out",
            )
        return np.array([known.index(value) for value in values])


def _resolve_plan(file: ScreeningFile, config: LanguageModelConfig) -> LanguageModelConfig:
    """Return the settings with what they leave to the file's plan."""
    plan = file.plan
    planned = {
        "half_width": plan.half_width,
        "calls": plan.calls or CALLS,
        "money": plan.money,
        "at_once": plan.at_once,
        "seed": plan.seed,
    }
    missing = {name: value for name, value in planned.items() if getattr(config, name) is None}
    return LanguageModelConfig.of(config, missing)


def open_interview(
    model: Any,
    people: Any,
    config: LanguageModelConfig,
    *,
    answers: Path | str | None = None,
    data_name: str = "data",
) -> Interview:
    """Return what an audit asks; nothing is asked yet.

    Args:
        model: the file of a language model, its path, or its entries as a mapping.
        people: a data frame whose rows are templates, or texts, which templates call ``text``.
        config: the settings; what they leave open is as the file's plan says.
        answers: a file that keeps every answer.
        data_name: what the rows are called.

    Raises:
        OptionError: the file names no people, or groups that its list does not have.
        DataError: there are no rows.
    """
    file = _read_model(model)
    config = _resolve_plan(file, config)
    given = dict(file.people or {})
    source, compare = given.pop("names", None), given.pop("compare", None)
    if source is None or given:
        raise OptionError(
            "`names` is missing" if source is None else f"there is no entry {next(iter(given))!r} here",
            location=f"{file.name}, people",
            hint="people: {names: bertrand-mullainathan, compare: [[white man, black man]]}",
        )
    names = _load_names(str(source), file)
    pairs = _read_pairs(compare, names, file)
    groups = {group: names.by_group()[group] for group in dict.fromkeys(group for pair in pairs for group in pair)}
    places = file.answers.candidates or 1
    if places not in (1, len(groups)):
        raise OptionError(
            f"the prompt ranks {places} candidates, and {len(groups)} groups are compared",
            location=f"{file.name}, answers.candidates",
            hint="rank one candidate of each group",
        )
    rows = _list_rows(people)
    total = len(rows) // places
    if total < 2:
        raise OptionError(f"expected rows for at least two templates, got {len(rows)}", location="people")
    assert config.seed is not None
    rng = np.random.default_rng([config.seed, 3])
    chosen = np.sort(rng.permutation(total)[: config.templates]).tolist()
    card = NameListCard(
        name=names.name,
        source=names.source,
        licence=names.licence,
        language=names.language,
        groups={group: len(members) for group, members in groups.items()},
        warnings=check_name_list(names, pairs),
    )
    kept = None if answers is None else Path(answers)
    asked = LanguageModel(file, answers=kept, calls=config.calls, money=config.money, at_once=config.at_once)
    parts = [rows[places * k : places * (k + 1)] for k in chosen]
    templates = RowTemplates(parts, [places * k for k in chosen], len(rows), data_name)
    interview = Interview(asked, config, templates, groups, pairs, card)
    interview.check_exchange()
    return interview


def _read_model(model: Any) -> ScreeningFile:
    if isinstance(model, Mapping):
        return check_configuration(lambda: ScreeningFile.model_validate(dict(model)), ScreeningFile, location="model")
    return model if isinstance(model, ScreeningFile) else read_screening_file(model)


def _load_names(source: str, file: ScreeningFile) -> NameList:
    """Return the list that a file names: one that comes with the package, or a file beside it."""
    beside = (file.path.parent if file.path else Path()) / source
    return load_name_list(beside if beside.is_file() else source)


def _read_pairs(given: object, names: NameList, file: ScreeningFile) -> list[tuple[str, str]]:
    """Return the pairs of groups that a file compares: by default the first of the list with every other."""
    location = f"{file.name}, people.compare"
    if given is None:
        return [(names.groups[0], other) for other in names.groups[1:]]
    example = "compare: [[white man, black man]]"
    pairs: list[Any] = given if isinstance(given, list) else [given]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] != pair[1]):
            raise OptionError(f"expected pairs of two groups, got {pair!r}", location=location, hint=example)
        for group in map(str, pair):
            if group not in names.groups:
                known = f"the list has: {', '.join(names.groups)}"
                hint = suggest_name(group, names.groups) + known
                raise OptionError(f"there is no group {group!r} in {names.name}", location=location, hint=hint)
    if not pairs:
        raise OptionError("there is nothing in it", location=location, hint=example)
    return list(dict.fromkeys((str(one), str(other)) for one, other in pairs))


def _list_rows(people: Any) -> list[dict[str, Any]]:
    """Return the rows of a data frame, or texts as rows."""
    if isinstance(people, Sequence) and all(isinstance(text, str) for text in people):
        return [{"text": text} for text in people]
    if isinstance(people, Sequence):
        return [dict(row) for row in people]
    try:
        frame: nw.DataFrame[Any] = nw.from_native(people, eager_only=True)
    except (TypeError, nw.exceptions.DuplicateError) as error:
        raise DataError(
            f"expected a data frame whose columns have different names, or a list of texts: {error}", location="people"
        ) from None
    return [dict(row) for row in frame.iter_rows(named=True)]
