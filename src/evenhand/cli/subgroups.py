"""``evenhand subgroups MODEL DATA``: search for subgroups that a model treats differently."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import (
    DataArgument,
    DataOptions,
    FindingsOptions,
    ModelArgument,
    OutputOptions,
    PeopleOptions,
    TextOptions,
    approve_queries,
    refuse_options,
)

if TYPE_CHECKING:
    from evenhand.core.document import SubjectCard
    from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig, TextSubgroupConfig
    from evenhand.subgroups.result import SubgroupResult, TextSubgroupResult

ROWS: ConfigOptions[SubgroupConfig] = ConfigOptions(
    "evenhand.subgroups:SubgroupConfig",
    ("measure", "method", "depth", "judged", "per", "time_limit", "budget"),
    renamed={"judged": "judge"},
)
NUMBERS: ConfigOptions[NumberSubgroupConfig] = ConfigOptions(
    "evenhand.subgroups:NumberSubgroupConfig",
    ("measure", "depth", "judged", "per", "time_limit", "budget"),
    about="a predicted number",
    renamed={"judged": "judge"},
)
TEXTS: ConfigOptions[TextSubgroupConfig] = ConfigOptions(
    "evenhand.subgroups:TextSubgroupConfig",
    ("measure", "depth", "judged", "time_limit"),
    about="texts",
    hint="leave it out, or leave --text-column out",
    renamed={"judged": "judge"},
    parsed={"judge": lambda options: tuple(map(_parse_rules, options))},
)


def subgroups(
    settings: Settings,
    model: ModelArgument,
    data: DataArgument,
    people: DataOptions,
    output: FindingsOptions,
    rows: PeopleOptions,
    texts: TextOptions,
) -> None:
    """Search for subgroups that a model treats differently."""
    from evenhand import subgroups
    from evenhand.subgroups.analysis import forecast_queries

    result: SubgroupResult
    if texts.text_column is not None:
        refuse_options("does not apply to texts", location="--schema", schema=people.schema)
        result, card = _search_texts(settings, model, data, texts, people, output)
    else:
        fields = {"attributes": people.protected or None, "seed": people.seed}
        if not settings.keys() <= ROWS.options().keys() | NUMBERS.options().keys():
            ROWS.read(settings, **fields)  # refuses options of texts before any data are read
        with output.progress() as progress:
            # Attributes are only compared, not varied: numbers become ranges.
            subject = people.read_subject(model, data, progress, varied=False)
        if subject.people.schema.target.is_number:
            numbers = NUMBERS.read(settings, **fields)
            subject.ledger.budget = approve_queries(model, numbers.budget, len(subject.people))
            with output.progress() as progress:
                result = subgroups.find_number_subgroups(subject.regressor, subject.people, numbers, progress=progress)
        else:
            config = ROWS.read(settings, **fields)
            forecast = forecast_queries(subject.people, config)
            subject.ledger.budget = approve_queries(model, config.budget, forecast)
            with output.progress() as progress:
                result = subgroups.find_subgroups(subject.scorer, subject.people, config, progress=progress)
        card = subject.card
    result = rows.hide(result)
    interrupted = result.interrupted and not result.time_limited
    output.finish(result, partial(result.document, card), interrupted=interrupted)


def _search_texts(
    settings: Settings, model: str, data: str, texts: TextOptions, people: DataOptions, output: OutputOptions
) -> tuple[TextSubgroupResult, SubjectCard]:
    """Search a column of texts. Return the result and its subject."""
    from evenhand.core.document import SubjectCard
    from evenhand.subgroups.text.analysis import find_text_subgroups

    config = TEXTS.read(settings, seed=people.seed, favourable=people.favourable)
    target = people.target
    frame, source, reading = texts.read_texts(people, data, *([] if target is None else [target]))
    approve_queries(model, None, None)
    with output.progress() as progress:
        result = find_text_subgroups(
            model,
            frame[texts.text_column].astype(str).tolist(),
            protected=texts.categories(people),
            truth=None if target is None else frame[target].tolist(),
            config=config,
            trust=people.trust,
            progress=progress,
        )
    subject = SubjectCard(model, source.name, result.people, target or "label", result.favourable, False)
    return result.model_copy(update={"table_reading": reading}), subject


def _parse_rules(condition: str) -> dict[str, str]:
    """Parse ``gender == women and religion == Muslims`` to the group of each category."""
    from evenhand.core.expressions import Comparison, Logic, parse_expression

    parsed = parse_expression(condition, location="--judge")
    tree, groups = parsed.tree, {}
    for rule in tree.operands if isinstance(tree, Logic) and tree.word == "and" else (tree,):
        if not isinstance(rule, Comparison) or [sign.text for sign in rule.signs] != ["=="]:
            hint = "write for example 'gender == women and religion == Muslims'"
            raise parsed.fault("expected CATEGORY == GROUP", rule, hint)
        category, group = map(parsed.word, rule.operands)
        if category in groups:
            raise parsed.fault(f"the category {category!r} is repeated", rule, "name each category once")
        groups[category] = group
    return groups
