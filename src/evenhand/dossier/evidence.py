"""Results of audits, searches, proofs and mitigations as evidence: every number with its kind and its interval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from evenhand.core import SCHEMA_VERSION, Result, ResultPart
from evenhand.errors import DataError
from evenhand.mitigation import AlternativesResult, RefutationResult
from evenhand.stats import Observed, Proved, Quantity, Unknown, quantity_value
from evenhand.text import format_count, join_names, list_some

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult
    from evenhand.certification import Certificate
    from evenhand.groups import Breakdown, GroupMetrics
    from evenhand.individual import FlipRate
    from evenhand.mitigation import CandidateResult, ComparisonLine, MitigationResult
    from evenhand.subgroups import SubgroupResult

EvidencePart: TypeAlias = Literal["performance", "gap", "flip", "proof", "subgroup"]
"""What a number of a result is about."""

COMPARED = {
    "favourable": "share given the favourable label",
    "false-negative": "false negative rate",
    "false-positive": "false positive rate",
    "score": "mean score",
}
"""What subgroups are compared by."""

KINDS = ("audit", "subgroups", "mitigation", "alternatives", "refutation", "certificate")
"""The kinds of results that are read."""


class EvidenceNumber(ResultPart):
    """A number of a result.

    Attributes:
        part: what it is about.
        name: by which it is measured, such as ``accuracy`` or ``demographic_parity_difference``; words: for a reader.
        of: the people, or the attributes, in words; group: attribute -> value of a single group, else empty.
        quantity: the number with its kind and interval, or why there is none.
    """

    part: EvidencePart
    name: str
    words: str
    of: str
    group: dict[str, str] = Field(default_factory=dict)
    quantity: Quantity


class AlternativeLine(ResultPart):
    """A number under the incumbent and under a candidate, and its change on the same people.

    Attributes:
        part, name, of, words: what it is, as a mitigation says it; better_if: which way is better.
        before, after: under the incumbent and under the candidate.
        change: after minus before, with the interval of the same people; None of proofs, and where a side is unknown.
        verdict: what can be said of the change; note: what else a reader must know.
    """

    part: str
    name: str
    of: str
    words: str
    better_if: Literal["up", "down"]
    before: Quantity
    after: Quantity
    change: Quantity | None
    verdict: str
    note: str = ""


class SearchTrial(ResultPart):
    """A model that was tried on the validation people on the way to a candidate."""

    setting: str
    value: float
    accuracy: float
    harms: tuple[float, ...]
    chosen: bool


class Alternative(ResultPart):
    """A candidate beside the incumbent.

    Attributes:
        method, recipe: its name, and what was done.
        control: whether it is only there to compare with; rejected: why the incumbent is kept in its place.
        on_frontier: whether no other model of the comparison, the incumbent included, is as good in accuracy and in
            everything that was to be reduced and better in one of them; None where one of these numbers is unknown.
        lines: all numbers; trials: the search; interrupted, notes: what else a reader must know.
    """

    method: str
    recipe: str
    control: bool
    rejected: str
    on_frontier: bool | None
    lines: tuple[AlternativeLine, ...]
    trials: tuple[SearchTrial, ...]
    interrupted: bool
    notes: tuple[str, ...]


class Alternatives(ResultPart):
    """A search for less discriminatory alternatives, as a mitigation recorded it.

    Attributes:
        incumbent, data: the given model, and the people; holdout: the test set, in words.
        train, validation, test: how many people there are in each part.
        favourable: the label that people want; harms: what was to be reduced; sources: where it was found.
        confidence: with which all intervals of a candidate hold together.
        accuracy_loss: the floor: accuracy that was allowed to be lost on the validation people.
        queries: individuals that the incumbent was asked about.
        incumbent_on_frontier: as for ``Alternative``.
        candidates: every one, in the order declared; chosen: its method, None if the incumbent is kept.
        interrupted, notes: what else a reader must know.
    """

    incumbent: str
    data: str
    holdout: str
    train: int
    validation: int
    test: int
    favourable: str
    harms: tuple[str, ...]
    sources: tuple[str, ...]
    confidence: float
    accuracy_loss: float
    queries: int
    incumbent_on_frontier: bool | None
    candidates: tuple[Alternative, ...]
    chosen: str | None
    interrupted: bool
    notes: tuple[str, ...]


class ResultFile(ResultPart):
    """A result that a dossier rests on.

    Attributes:
        name, sha256: the file; of a result in memory the SHA-256 of its JSON.
        result_kind, schema_version, evenhand, seed: what it is, and what made it.
        about: the model and the people, in words; where the result names them.
        numbers: what was measured; alternatives: only of a mitigation; record: only of a search for alternatives;
            refutation: only of a refutation, which a record of a search may hold too.
        not_run: what could not be run and why; notes: what else a reader must know.
    """

    name: str
    sha256: str
    result_kind: Literal["audit", "subgroups", "mitigation", "alternatives", "refutation", "certificate"]
    schema_version: int
    evenhand: str
    seed: int
    about: str
    numbers: tuple[EvidenceNumber, ...] = ()
    alternatives: Alternatives | None = None
    record: AlternativesResult | None = None
    refutation: RefutationResult | None = None
    not_run: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_evidence(results: Sequence[Result | Path | str]) -> tuple[ResultFile, ...]:
    """Read results of audits, searches for subgroups, mitigations and proofs, by their kind and schema version.

    Args:
        results: JSON files that ``--json`` or a report's folder holds, or such results themselves.

    Raises:
        DataError: a file cannot be read, is of another kind, or of a schema version that is not known here.
    """
    return tuple(_read_result(one) for one in results)


def _read_result(source: Result | Path | str) -> ResultFile:
    if isinstance(source, Result):
        text, location = source.to_json(), f"a result of {source.kind}"
    else:
        location = Path(source).name
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise DataError(f"the result cannot be read: {reason}", location=str(source)) from None
    result = _parse_result(text, location)
    shown = ResultFile(
        name=location,
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        result_kind=result.kind,
        schema_version=result.schema_version,
        evenhand=result.evenhand,
        seed=result.seed,
        about="",
    )
    found: Any = result
    if result.kind == "audit":
        return shown.model_copy(update=_describe_audit(found))
    if result.kind == "subgroups":
        about = format_count(found.people, "person", "people")
        return shown.model_copy(
            update={"about": about, "numbers": tuple(_subgroup_numbers(found)), "notes": found.notes}
        )
    if result.kind == "certificate":
        about = f"everybody whom {found.population} describes"
        return shown.model_copy(update={"about": about, "numbers": tuple(_proof_numbers(found))})
    if result.kind == "alternatives":
        about = f"{found.model} on {found.data}, {found.test:,} people kept aside"
        return shown.model_copy(update={"about": about, "record": found, "notes": found.notes})
    if result.kind == "refutation":
        about = f"{found.family} rules on {len(found.features)} features, {found.people:,} people of {found.data}"
        return shown.model_copy(update={"about": about, "refutation": found, "notes": found.notes})
    alternatives = _list_alternatives(found)
    about = f"{alternatives.incumbent} on {alternatives.data}, {alternatives.holdout}"
    return shown.model_copy(update={"about": about, "alternatives": alternatives, "notes": found.notes})


def _parse_result(text: str, location: str) -> Result:
    """Return the result that a text holds; its kind and schema version are looked at before anything else."""
    from evenhand.auditing import AuditResult
    from evenhand.certification import Certificate
    from evenhand.mitigation import MitigationResult
    from evenhand.subgroups import SubgroupResult

    expected = "expected a result of audit, subgroups, mitigate or certify"
    try:
        plain = json.loads(text)
    except ValueError:
        raise DataError(f"{expected}, got a file that is not JSON", location=location) from None
    if not isinstance(plain, dict) or plain.get("kind") not in KINDS:
        kind = plain.get("kind") if isinstance(plain, dict) else None
        given = f"JSON of kind {kind!r}" if isinstance(kind, str) else "other JSON"
        hint = "give report.json of an audit, or the JSON that one of these wrote"
        raise DataError(f"{expected}, got {given}", location=location, hint=hint)
    version = plain.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise DataError(
            f"expected a result of schema_version {SCHEMA_VERSION}, got {version!r}",
            location=location,
            hint="make the result with this version of evenhand, or read it with the version that wrote it",
        )
    classes: dict[str, type[Result]] = {
        "audit": AuditResult,
        "subgroups": SubgroupResult,
        "mitigation": MitigationResult,
        "alternatives": AlternativesResult,
        "refutation": RefutationResult,
        "certificate": Certificate,
    }
    try:
        return classes[plain["kind"]].from_json(text)
    except DataError as error:
        raise DataError(error.message, location=location, hint=error.hint) from None


def _describe_audit(audit: AuditResult) -> dict[str, Any]:
    """Return what an audit says, as fields of ``ResultFile``."""
    numbers = list(_group_numbers(audit.groups))
    if audit.individual is not None:
        for rate in audit.individual.rates:
            numbers += _flip_numbers(rate)
    if audit.changes is not None:
        numbers += [
            EvidenceNumber(
                part="flip",
                name="flip_rate",
                words=f"share whose number changes by more than {audit.changes.tolerance:g}, over the {one.over}",
                of=join_names(one.protected),
                quantity=one.rate,
            )
            for one in audit.changes.changes
        ]
    for certificate in audit.certificates:
        numbers += _proof_numbers(certificate)
    if audit.subgroups is not None:
        numbers += _subgroup_numbers(audit.subgroups)
    notes = [audit.model.caution] if audit.model.caution else []
    if audit.groups.weights is not None:
        notes.append(f"People are weighted: {audit.groups.weights}.")
    if audit.interrupted:
        notes.append("The audit was interrupted: what is here was found before.")
    people = format_count(audit.data.people, "person", "people")
    read = people if audit.table_reading is None else audit.table_reading.describe()
    return {
        "about": f"{audit.model.name} on {audit.data.name}: {read}",
        "numbers": tuple(numbers),
        "not_run": tuple(f"{one.what}: {one.reason}" for one in audit.not_run),
        "notes": tuple(notes),
    }


def _group_numbers(groups: GroupMetrics) -> Iterator[EvidenceNumber]:
    from evenhand.groups import METRIC_TITLES, NUMBER_TITLES

    titles = METRIC_TITLES | NUMBER_TITLES

    def measured(metrics: Mapping[str, Quantity], of: str, group: dict[str, str], by: str) -> Iterator[EvidenceNumber]:
        for name, quantity in metrics.items():
            known = name if name in titles else "own_metric"
            caution = groups.label_caution(name, by, of if by else "")
            yield EvidenceNumber(
                part="performance",
                name=known,
                words=titles.get(name, name),
                of=f"{of}; {caution}" if caution else of,
                group=group,
                quantity=quantity,
            )

    yield from measured(groups.overall, "everybody", {}, "")
    for breakdown in groups.breakdowns:
        for group in breakdown.groups:
            yield from measured(group.metrics, group.label, group.values, "_x_".join(breakdown.by))
    for breakdown in groups.breakdowns:
        yield from _gap_numbers(breakdown)


def _gap_numbers(breakdown: Breakdown) -> Iterator[EvidenceNumber]:
    from evenhand.groups import GAP_TITLES, NUMBER_GAP_TITLES, title_gap

    for gap in breakdown.gaps:
        known = gap.name in GAP_TITLES or gap.name in NUMBER_GAP_TITLES
        sides = f": {gap.best} and {gap.worst}" if gap.best and gap.worst else ""
        left_out = f"; not assessable: {list_some(list(gap.not_assessable), 4)}" if gap.not_assessable else ""
        yield EvidenceNumber(
            part="gap",
            name=gap.name if known else "own_metric",
            words=NUMBER_GAP_TITLES.get(gap.name) or title_gap(gap),
            of=f"{join_names(breakdown.by)}{sides}{left_out}{f'; {gap.caution}' if gap.caution else ''}",
            quantity=gap.value,
        )


def _flip_numbers(rate: FlipRate) -> Iterator[EvidenceNumber]:
    over = "people in the data" if rate.over == "data" else f"individuals drawn from {rate.population}"
    yield EvidenceNumber(
        part="flip",
        name="flip_rate",
        words=f"flip rate as published, over {over}",
        of=join_names(rate.protected),
        quantity=rate.rate,
    )
    if rate.counterfactual is not None:
        yield EvidenceNumber(
            part="flip",
            name="counterfactual_flip_rate",
            words=f"counterfactual flip rate between plausible counterparts, over {over}",
            of=join_names(rate.protected),
            quantity=rate.counterfactual.rate,
        )


def _proof_numbers(certificate: Certificate) -> Iterator[EvidenceNumber]:
    from evenhand.certification import estimated_share

    of = join_names(certificate.protected)
    shares = (
        ("certified", "certified fair, at least", certificate.certified),
        ("falsified", "certified unfair, at least", certificate.falsified),
        ("undecided", "undecided, at most", certificate.undecided),
    )
    for name, words, share in shares:
        how = f"by proof ({certificate.method}), of the population: {certificate.population}"
        yield EvidenceNumber(part="proof", name=name, words=words, of=of, quantity=Proved(value=share, how=how))
    yield EvidenceNumber(
        part="proof", name="unfair", words="treated unfairly in all", of=of, quantity=estimated_share(certificate)
    )


def _subgroup_numbers(found: SubgroupResult) -> Iterator[EvidenceNumber]:
    """Yield the significant gaps that no other explains, and how many each of them explains."""
    name = "mean_score" if found.measure == "score" else "subgroup_gap"
    weighted = "" if found.weights is None else f", weighted by {found.weights}"
    words = f"{COMPARED[found.measure]} minus that of the others{weighted}"
    for finding in found.findings:
        if finding.found and finding.under is None:
            explained = f"; it explains {format_count(finding.explains, 'other', 'others')}" if finding.explains else ""
            quantity: Quantity = Observed(
                value=finding.gap,
                n=finding.size + finding.rest,
                low=finding.low,
                high=finding.high,
                confidence=found.confidence,
                method=f"adjusted for {found.tested:,} subgroups tested ({found.control})",
            )
            yield EvidenceNumber(
                part="subgroup", name=name, words=words, of=finding.words + explained, quantity=quantity
            )
    if not any(finding.found for finding in found.findings):
        nothing = Unknown(reason=f"none of {found.tested:,} subgroups tested is significant after adjustment")
        yield EvidenceNumber(part="subgroup", name=name, words=words, of="subgroups", quantity=nothing)


def _list_alternatives(result: MitigationResult) -> Alternatives:
    frontier = _find_frontier(result.candidates)
    people = result.people
    holdout = f"{people.test:,} people kept aside" if result.test_data is None else f"{people.test:,} of other data"
    return Alternatives(
        incumbent=result.model,
        data=result.data,
        holdout=holdout if result.test_data is None else f"{holdout}, {result.test_data}",
        train=people.train,
        validation=people.validation,
        test=people.test,
        favourable=result.favourable,
        harms=result.harms,
        sources=tuple(Path(one).name for one in result.sources),
        confidence=result.confidence,
        accuracy_loss=result.accuracy_loss,
        queries=result.queries,
        incumbent_on_frontier=frontier[0],
        candidates=tuple(
            Alternative(
                method=one.method,
                recipe=one.words,
                control=one.control,
                rejected=one.rejected,
                on_frontier=on_frontier,
                lines=tuple(map(_compare_line, one.lines)),
                trials=tuple(SearchTrial(**trial.model_dump()) for trial in one.trials),
                interrupted=one.interrupted,
                notes=one.notes,
            )
            for one, on_frontier in zip(result.candidates, frontier[1:], strict=True)
        ),
        chosen=result.chosen,
        interrupted=result.interrupted,
        notes=result.notes,
    )


def _compare_line(line: ComparisonLine) -> AlternativeLine:
    change = line.change
    return AlternativeLine(
        part=line.part,
        name=line.name,
        of=line.of,
        words=line.words,
        better_if=line.better_if,
        before=line.before,
        after=line.after,
        change=None
        if change is None
        else Observed(
            value=change.value,
            n=change.n,
            low=change.low,
            high=change.high,
            confidence=change.confidence,
            method=change.method,
        ),
        verdict=line.verdict,
        note=line.note,
    )


def _find_frontier(candidates: Sequence[CandidateResult]) -> list[bool | None]:
    """Return which models no other dominates, the incumbent first, by accuracy and what was to be reduced.

    A model dominates another if it is at least as good in every number and better in one, as observed.
    """

    def costs(candidate: CandidateResult, *, after: bool) -> tuple[float | None, ...]:
        lines = [one for one in candidate.lines if one.name == "accuracy" or one.part == "asked"]
        values = [(one, quantity_value(one.after if after else one.before)) for one in lines]
        return tuple(None if value is None else value if one.better_if == "down" else -value for one, value in values)

    if not candidates:
        return [None]
    models = [costs(candidates[0], after=False), *(costs(one, after=True) for one in candidates)]
    complete = [one for one in models if one and None not in one]

    def is_dominated(one: tuple[float | None, ...]) -> bool:
        return any(
            # No None is left in ``complete``, which its type cannot say.
            other != one and len(other) == len(one) and all(a <= b for a, b in zip(other, one, strict=True))  # type: ignore[operator]
            for other in complete
        )

    return [None if one not in complete else not is_dominated(one) for one in models]
