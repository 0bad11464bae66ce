"""Prompts and answers of an audit: a language model with its templates and people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np

from evenhand.core.config import check_configuration
from evenhand.core.text import suggest_name
from evenhand.core.typing import Integers
from evenhand.datasets.identity.balance import check_name_list
from evenhand.datasets.identity.names import NameList, Person, load_name_list
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.llm.answers import ChatOutcome
from evenhand.llm.config import LanguageModelConfig
from evenhand.llm.design import CHOICE, CUT_OFF, FAILED, REFUSED, UNREADABLE, Outcomes, QuestionBatch
from evenhand.llm.file import ScreeningFile, read_screening_file
from evenhand.llm.model import ChatQuestion, LanguageModel
from evenhand.llm.prompts import UNKNOWN, Prompt
from evenhand.llm.result import AskedSide, NameListCard
from evenhand.schema.table import is_missing, refuse_totals, require_column

KINDS = {"choice": CHOICE, "refused": REFUSED, "unreadable": UNREADABLE, "cut off": CUT_OFF, "failed": FAILED}
"""Codes of the kinds of answers."""

CALLS = 6000
"""Default maximum number of calls."""

Row = Mapping[str, Any]


@dataclass(eq=False)
class Interview:
    """A language model with its templates and the people of each group.

    Attributes:
        model: Language model.
        config: Settings, completed from the plan of the model file.
        rows: Rows of each template: one, or the number of ranked candidates.
        positions: Position of the first row of each template in the data.
        total: Number of rows in the data.
        data_name: Name of the data.
        groups: Names of the groups.
        people: People of each group.
        comparisons: Pairs of groups (group 1, group 0).
        card: Source of the names.
    """

    model: LanguageModel
    config: LanguageModelConfig
    rows: Sequence[Sequence[Row]]
    positions: Sequence[int]
    total: int
    data_name: str
    groups: tuple[str, ...]
    people: tuple[Sequence[Person], ...]
    comparisons: Sequence[tuple[int, int]]
    card: NameListCard
    _asked: dict[tuple[int, int, int, int], tuple[Prompt, ChatOutcome]] = field(default_factory=dict)
    _draws: dict[Prompt, dict[tuple[object, ...], int]] = field(default_factory=dict)

    @property
    def templates(self) -> int:
        """Number of templates."""
        return len(self.rows)

    @property
    def names(self) -> tuple[int, ...]:
        """Number of names, or wordings, of each group."""
        return tuple(map(len, self.people))

    @property
    def ranks(self) -> bool:
        """Whether a question ranks one candidate of every group."""
        return self.model.file.outcome == "rank"

    @property
    def unit(self) -> float:
        """Width of the range of numeric answers, negative if low numbers are favourable. 1 for other answers."""
        answers = self.model.file.answers
        if answers.range is None:
            return 1.0
        low, high = answers.range
        return low - high if answers.favourable == "low" else high - low

    def questions(self, batch: QuestionBatch) -> Iterator[ChatQuestion]:
        """Yield the questions of a batch; a ranking has one per position, all with the same prompt.

        Without seeds, the draw distinguishes equal prompts of different templates or people.
        """
        paired = self.model.file.plan.seeds == "paired"
        for template, group, name, record, draw, seed in zip(*(column.tolist() for column in batch), strict=True):
            rows = self.rows[template]
            candidates = [(rows[r], self.people[g][n]) for g, n, r in zip(group, name, record, strict=True)]
            prompt = self.model.render(*candidates[0], others=candidates[1:])
            if not paired:
                draws = self._draws.setdefault(prompt, {})
                draw = draws.setdefault((template, *group, *name, *record, draw), len(draws))
            for position in range(1, len(candidates) + 1):
                yield ChatQuestion(prompt, draw, seed, position)

    def ask(self, batch: QuestionBatch) -> Outcomes:
        """Ask a batch of questions. Outcomes are scaled from 0 (worst) to 1 (best).

        Raises:
            ModelError: No answer could be read.
        """
        questions = list(self.questions(batch))
        outcomes = self.model.ask(questions)
        shape = batch.group.shape
        values = np.array([outcome.value for outcome in outcomes], dtype=np.float64).reshape(shape)
        if not self._asked and all(outcome.kind in ("unreadable", "cut off") for outcome in outcomes):
            raise ModelError(
                f"none of the first {len(outcomes):,} answers can be read, such as {outcomes[0].text[:200]!r}",
                location=self.model.file.name,
                hint="ask for only one of the answers, allow more tokens, or change how answers are read",
            )
        worst = self.model.file.answers.worst
        kinds = np.array([KINDS[outcome.kind] for outcome in outcomes]).reshape(shape).max(axis=1)
        for index, (question, outcome) in enumerate(zip(questions, outcomes, strict=True)):
            i, j = divmod(index, shape[1])
            key = (int(batch.template[i]), int(batch.group[i, j]), int(batch.name[i, j]), int(batch.seed[i]))
            self._asked[key] = question.prompt, outcome
        return Outcomes((values - worst) / self.unit, kinds)

    def side(self, template: int, group: int, name: int, seed: int) -> AskedSide:
        """Return the prompt and the answer about a person in a trial."""
        prompt, outcome = self._asked[template, group, name, seed]
        return AskedSide(
            group=self.groups[group],
            name=self.people[group][name].label,
            prompt=prompt.text,
            answer=outcome.text,
            label=outcome.label if outcome.kind == "choice" else outcome.kind,
        )

    def check_exchange(self) -> None:
        """Check that prompts differ between compared groups, unless the file is blind.

        Raises:
            OptionError: All prompts are equal for two groups.
        """
        for pair in () if self.model.file.blind else self.comparisons:
            if all(self._prompts(rows, pair[0]) == self._prompts(rows, pair[1]) for rows in self.rows):
                a, b = (self.groups[group] for group in pair)
                raise OptionError(
                    f"every prompt is the same for {a} and {b}, so no gap can be found",
                    location=f"{self.model.file.name}, prompt",
                    hint="include the person, as in {{ person.name }}, or set blind: true to hide the person",
                )

    def _prompts(self, rows: Sequence[Row], group: int) -> set[Prompt]:
        """Render the prompts of a template for all people of a group."""
        return {
            self.model.render(rows[0], person, others=[(row, person) for row in rows[1:]])
            for person in self.people[group]
        }

    def labels(self, setting: Literal["scenario", "cluster"]) -> list[str] | None:
        """Return the value of a column for each template, as text; None if no column is set.

        Args:
            setting: Setting that names the column.

        Raises:
            DataError: There is no such column.
        """
        name = getattr(self.config, setting)
        if name is None:
            return None
        require_column(name, list(self.rows[0][0]), setting)
        return [UNKNOWN if is_missing(rows[0][name]) else str(rows[0][name]) for rows in self.rows]

    def clusters(self) -> Integers | None:
        """Number the cluster of each template; None if no column of clusters is set.

        Raises:
            OptionError: There is only one cluster.
        """
        labels = self.labels("cluster")
        if labels is None:
            return None
        unique = list(dict.fromkeys(labels))
        if len(unique) < 2:
            raise OptionError(
                f"expected at least two clusters, but {self.config.cluster!r} is {unique[0]!r} in all templates",
                location="`cluster=`",
                hint="remove the setting",
            )
        return np.array([unique.index(label) for label in labels])


def open_interview(
    model: Any,
    people: Any,
    config: LanguageModelConfig,
    *,
    answers: Path | str | None = None,
    data_name: str = "data",
) -> Interview:
    """Prepare an audit without asking any question.

    Args:
        model: Model file, its path, or its entries as a mapping.
        people: Data frame whose rows are templates, or a list of texts, available as ``text`` in the prompt.
        config: Settings. Unset fields are taken from the plan of the model file.
        answers: File that stores all answers.
        data_name: Name of the data.

    Raises:
        OptionError: The file has no name list, or its groups are unknown, or there are too few rows.
        DataError: The data cannot be read.
    """
    if isinstance(model, Mapping):
        file = check_configuration(lambda: ScreeningFile.model_validate(dict(model)), ScreeningFile, location="model")
    else:
        file = model if isinstance(model, ScreeningFile) else read_screening_file(model)
    plan = file.plan.model_dump(include={"half_width", "calls", "money", "at_once", "seed"})
    planned = plan | {"calls": file.plan.calls or CALLS}
    config = LanguageModelConfig.of(config, {name: planned[name] for name in planned if getattr(config, name) is None})
    entries = dict(file.people or {})
    source, compare = entries.pop("names", None), entries.pop("compare", None)
    if source is None or entries:
        raise OptionError(
            "`names` is missing" if source is None else f"there is no entry {next(iter(entries))!r}",
            location=f"{file.name}, people",
            hint="people: {names: bertrand-mullainathan, compare: [[white man, black man]]}",
        )
    path = (file.path.parent if file.path else Path()) / str(source)
    names = load_name_list(path if path.is_file() else str(source))
    pairs = _read_pairs(compare, names, file)
    groups = {group: names.by_group()[group] for group in dict.fromkeys(group for pair in pairs for group in pair)}
    candidates = file.answers.candidates or 1
    if candidates not in (1, len(groups)):
        raise OptionError(
            f"expected as many candidates in the prompt as compared groups, got {candidates} and {len(groups)}",
            location=f"{file.name}, answers.candidates",
            hint="rank one candidate of each group",
        )
    rows = _list_rows(people)
    total = len(rows) // candidates
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
    chat = LanguageModel(file, answers=kept, calls=config.calls, money=config.money, at_once=config.at_once)
    interview = Interview(
        chat,
        config,
        rows=[rows[candidates * k : candidates * (k + 1)] for k in chosen],
        positions=[candidates * k for k in chosen],
        total=len(rows),
        data_name=data_name,
        groups=tuple(groups),
        people=tuple(groups.values()),
        comparisons=[(list(groups).index(a), list(groups).index(b)) for a, b in pairs],
        card=card,
    )
    interview.check_exchange()
    return interview


def _read_pairs(compare: object, names: NameList, file: ScreeningFile) -> list[tuple[str, str]]:
    """Read the pairs of compared groups. Default: the first group of the list with each other group."""
    location = f"{file.name}, people.compare"
    if compare is None:
        return [(names.groups[0], group) for group in names.groups[1:]]
    example = "compare: [[white man, black man]]"
    pairs: list[Any] = compare if isinstance(compare, list) else [compare]
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and pair[0] != pair[1]):
            raise OptionError(f"expected pairs of two groups, got {pair!r}", location=location, hint=example)
        for group in map(str, pair):
            if group not in names.groups:
                hint = suggest_name(group, names.groups) + f"the list has: {', '.join(names.groups)}"
                raise OptionError(f"there is no group {group!r} in {names.name}", location=location, hint=hint)
    if not pairs:
        raise OptionError("expected at least one pair of groups, got an empty list", location=location, hint=example)
    return list(dict.fromkeys((str(a), str(b)) for a, b in pairs))


def _list_rows(people: Any) -> list[dict[str, Any]]:
    """List the rows of a data frame, or texts as rows."""
    if isinstance(people, Sequence) and all(isinstance(text, str) for text in people):
        return [{"text": text} for text in people]
    if isinstance(people, Sequence):
        return [dict(row) for row in people]
    try:
        frame: nw.DataFrame[Any] = nw.from_native(people, eager_only=True)
    except (TypeError, nw.exceptions.DuplicateError) as error:
        raise DataError(
            f"expected a data frame with unique column names, or a list of texts: {error}", location="people"
        ) from None
    refuse_totals(frame)
    return [dict(row) for row in frame.iter_rows(named=True)]
