"""One audit: read the people, ask the model, measure groups and individuals, certify what can be certified."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand import certify, groups, individual, models, population, subgroup
from evenhand.audit.result import AuditResult, DataCard, ModelCard, NotRun
from evenhand.certify import Certificate
from evenhand.errors import DataError, LimitError, ModelError, NotAdditiveError, OptionError
from evenhand.models import AdditiveNetwork, Scorer
from evenhand.population import ProductPopulation
from evenhand.schema import People, Schema, Value, encode, infer
from evenhand.subgroup import SubgroupResult

if TYPE_CHECKING:
    from evenhand.individual.search import SearchResult
    from evenhand.models import TreeEnsemble

MIN_CERTIFY_SECONDS = 1.0
"""Less time than this for a certificate is not worth starting."""

SEARCHING = 0.1
"""Share of the time limit for the searches, at most."""

SUBGROUPS = 0.1
LEAST_SUBGROUP_SECONDS = 2.0
"""Share of the time limit for the subgroups, at most, and what they get at least: mostly it is over in a second."""

SEEDS = 50
"""People whom a search starts from."""


@dataclass(frozen=True)
class Config:
    """Settings of an audit.

    Attributes:
        time_limit: seconds for the violation rates, the searches and the certificates together; subgroups are counted
            within a tenth of it, or within two seconds. Reading the data, one
            pass of the model over it, and compiling on the first use are not in it.
        population: ``data`` (independent attributes, each distributed as in the data) or ``uniform`` (over the domain),
            for the population violation rate and the certificates.
        confidence: of the intervals.
        samples: individuals drawn from the population.
        searched: profiles that the search for each protected attribute asks about, within a tenth of the time limit
            for all of them; 0 leaves it out.
        seed: of all sampling.
    """

    time_limit: float = 60.0
    population: Literal["data", "uniform"] = "data"
    confidence: float = 0.95
    samples: int = 20_000
    searched: int = 5_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.searched < 0:
            raise OptionError(f"searched must not be negative, not {self.searched}")
        if not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, not {self.time_limit:g} seconds")
        if self.population not in ("data", "uniform"):
            raise OptionError(f"population is 'data' or 'uniform', not {self.population!r}")
        if not 0 < self.confidence < 1:
            raise OptionError(f"confidence must lie between 0 and 1, not {self.confidence:g}")


Progress = Callable[[str, float], None]
"""Called with what is being done and the share of the audit done, 0 to 1."""


def run(
    model: Any,
    data: Any,
    *,
    schema: Schema | None = None,
    target: str | None = None,
    protected: Sequence[str] | None = None,
    favourable: Value | None = None,
    ignore: Sequence[str] = (),
    config: Config | None = None,
    trust: bool = False,
    data_name: str = "data",
    model_name: str | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit a model on people with known labels.

    Args:
        model: a model object, a file, a URL or ``module:function`` (see ``evenhand.models.load``).
        data: a data frame of any common kind, one row per person, with the column of the true label.
        schema: what the columns mean; inferred from the data if left out (see ``evenhand.schema.infer``).
        target: column of the true label (with a schema: must agree with it).
        protected: attributes that a decision must not depend on (with a schema: in place of those it marks).
        favourable: the label that people want.
        ignore: columns that are no attributes, for an inferred schema.
        config: time limit, population, confidence, seed.
        trust: allow model files that can run code when loaded.
        data_name, model_name: how to call them in the report.
        progress: called as work goes on.

    Returns:
        Everything found, and what could not be run with the reason. An interrupt (Ctrl-C) while the model is being
        asked leaves a result with what was found before it.

    Raises:
        EvenhandError: the data, the model or the options cannot be used; nothing was asked in vain.
    """
    started = time.perf_counter()
    config = config or Config()
    say = progress or (lambda what, share: None)
    say("reading the people", 0.0)
    schema = described(data, schema=schema, target=target, protected=protected, favourable=favourable, ignore=ignore)
    for name in schema.protected:
        schema.assignments([name])
    people = encode(schema, data, where=data_name)
    schema = people.schema
    _two_classes(people)
    say("loading the model", 0.02)
    scorer = models.load(model, schema, like=data, trust=trust, name=model_name)
    say("asking the model about everybody in the data", 0.05)
    by_group = groups.run(scorer, people, confidence=config.confidence, seed=config.seed)
    wider = population.marginals(people) if config.population == "data" else population.uniform(schema)
    network, why_not = _white_box(scorer, people)
    flips = individual.run(
        scorer,
        people,
        wider,
        individual.Config(
            protected=schema.protected,
            samples=config.samples,
            confidence=config.confidence,
            time_limit=config.time_limit * (0.4 if network is not None else 1 - SEARCHING - SUBGROUPS),
            seed=config.seed,
        ),
        progress=lambda what, share: say(what, 0.1 + 0.25 * share),
    )
    not_run: list[NotRun] = []
    subgroups: list[SubgroupResult] = []
    certificates: list[Certificate] = []
    searches: list[SearchResult] = []
    interrupted = (
        flips.interrupted
        or _subgroups(scorer, people, config, say, subgroups, not_run)
        or _search(scorer, people, config, say, searches, not_run)
    )
    spent = flips.seconds + sum(found.seconds for found in (*subgroups, *searches))
    if network is None:
        not_run.append(NotRun(what="certification", reason=why_not))
    elif not interrupted:
        interrupted = _certify(network, wider, config, config.time_limit - spent, say, certificates, not_run)
    if interrupted:
        not_run.append(NotRun(what="the rest of the audit", reason="it was interrupted; what is here was found before"))
    joint = flips.rate(schema.protected, "data")
    say("done", 1.0)
    return AuditResult(
        model=_model_card(scorer, network, why_not),
        data=_data_card(people, data_name),
        described=schema,
        protected=schema.protected,
        groups=by_group,
        subgroups=subgroups[0] if subgroups else None,
        individual=flips,
        searches=tuple(searches),
        certificates=tuple(certificates),
        not_run=tuple(not_run),
        interrupted=interrupted,
        settings=asdict(config),
        versions=_versions(),
        violation_rate=None if joint is None else joint.flips / joint.n,
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def described(
    data: Any,
    *,
    schema: Schema | None,
    target: str | None,
    protected: Sequence[str] | None,
    favourable: Value | None,
    ignore: Sequence[str] = (),
) -> Schema:
    """The schema to audit by: the given one with the options applied, or one inferred from the data.

    Raises:
        OptionError: nothing says what is decided or who is protected, or the options contradict the schema.
    """
    if schema is None:
        if target is None:
            raise OptionError("what is decided about these people?", mend="name the column: --target NAME, or a schema")
        if not protected:
            raise OptionError("no attribute is protected", mend="name at least one: --protected NAME")
        return infer(data, target=target, protected=protected, favourable=favourable, ignore=ignore)
    schema = relabelled(schema, target=target, favourable=favourable)
    if protected:
        schema = schema.protect(protected)
    if not schema.protected:
        raise OptionError("no attribute is protected", mend="name at least one: --protected NAME")
    return schema


def relabelled(schema: Schema, *, target: str | None, favourable: Value | None) -> Schema:
    """A schema with another favourable label, if one is given.

    Raises:
        OptionError: the target is another one, or the label is none of its labels.
    """
    if target is not None and target != schema.target.name:
        raise OptionError(f"the target is {target!r}, but the schema says {schema.target.name!r}")
    if favourable is not None and str(favourable) != str(schema.target.favourable):
        values = schema.target.values
        matches = [value for value in values or (favourable,) if str(value) == str(favourable)]
        if not matches:
            raise OptionError(f"the favourable label {favourable!r} is not among the schema's labels {values}")
        changed = schema.target.model_copy(update={"favourable": matches[0]})
        schema = schema.model_copy(update={"target": changed})
    return schema


def _two_classes(people: People) -> None:
    name = people.schema.target.name
    if people.labels is None:
        raise DataError(f"the target column {name!r} is missing: an audit needs the true labels")
    present = np.unique(people.labels)
    if len(present) < 2:
        values = people.schema.target.values or ()
        raise DataError(
            f"the target column {name!r} has one class only: {values[int(present[0])]!r}",
            mend="an audit needs people with and without the favourable label",
        )


def _white_box(scorer: Scorer, people: People) -> tuple[AdditiveNetwork | TreeEnsemble | None, str]:
    """The model as a white box that answers like the model itself, or why there is none."""
    try:
        network = models.white_box(scorer)
    except NotAdditiveError as error:
        return None, error.what
    if network is scorer:
        return network, ""
    known = people.individuals[~np.isnan(people.individuals).any(axis=1)]
    differ = int((models.predict(network, known) != models.predict(scorer, known)).sum())
    if differ:
        return None, (
            f"read from the inside, the model decides {differ:,} of {len(known):,} people differently than when it "
            "runs, so a proof about the one would say nothing about the other"
        )
    return network, ""


def _subgroups(
    scorer: Scorer,
    people: People,
    config: Config,
    say: Progress,
    subgroups: list[SubgroupResult],
    not_run: list[NotRun],
) -> bool:
    """Add the search for subgroups over the protected attributes. Whether it was interrupted."""
    what = "search for subgroups"
    say("counting subgroups", 0.34)
    try:
        found = subgroup.run(
            scorer,
            people,
            confidence=config.confidence,
            time_limit=max(LEAST_SUBGROUP_SECONDS, SUBGROUPS * config.time_limit),
            seed=config.seed,
        )
    except (OptionError, ModelError, LimitError) as error:
        not_run.append(NotRun(what=what, reason=error.what))
        return False
    except KeyboardInterrupt:
        return True
    subgroups.append(found)
    return False


def _search(
    scorer: Scorer,
    people: People,
    config: Config,
    say: Progress,
    searches: list[SearchResult],
    not_run: list[NotRun],
) -> bool:
    """Add a short search per protected attribute. Whether it was interrupted."""
    from evenhand.individual import search

    names = people.schema.protected if config.searched else ()
    importlib.import_module("sklearn.cluster")  # seconds at the first use, which are not in the time limit
    for step, name in enumerate(names):
        what = f"searching people whose decision flips with {name}"
        say(what, 0.35 + 0.05 * step / len(names))
        try:
            found = search.run(
                scorer,
                people,
                protected=[name],
                seeds=SEEDS,
                local=-(-config.searched // SEEDS),
                samples=0,
                time_limit=SEARCHING * config.time_limit / len(names),
                seed=config.seed,
            )
        except (OptionError, ModelError) as error:
            not_run.append(NotRun(what=f"search for individuals by {name}", reason=error.what))
            continue
        except KeyboardInterrupt:
            return True
        if found.queries or found.interrupted:
            searches.append(found)
        else:
            reason = f"the time limit of {config.time_limit:g} s was too short for it"
            not_run.append(NotRun(what=f"search for individuals by {name}", reason=reason))
        if found.interrupted:
            return True
    return False


def _certify(
    network: AdditiveNetwork | TreeEnsemble,
    wider: ProductPopulation,
    config: Config,
    seconds: float,
    say: Progress,
    certificates: list[Certificate],
    not_run: list[NotRun],
) -> bool:
    """Add a certificate per protected attribute, and one for all together. Whether it was interrupted."""
    names = network.schema.protected
    sets = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    try:
        say("preparing proofs (the first use on a machine compiles for up to half a minute)", 0.4)
        certify.warm_up(network)
        deadline = time.perf_counter() + seconds
        for step, protected in enumerate(sets):
            left = deadline - time.perf_counter()
            what = f"certification for {' x '.join(protected)}"
            if left < MIN_CERTIFY_SECONDS:
                reason = f"the time limit of {config.time_limit:g} s was used up: give it more"
                not_run.append(NotRun(what=what, reason=reason))
                continue
            say(f"proving: {' x '.join(protected)}", 0.4 + 0.6 * step / len(sets))
            try:
                found = certify.run(
                    network,
                    protected=protected,
                    population=wider,
                    time_limit=left / (len(sets) - step),
                    seed=config.seed,
                )
            except (OptionError, ModelError) as error:
                not_run.append(NotRun(what=what, reason=error.what))
                continue
            certificates.append(found)
            if found.stopped_by == "interrupt":
                return True
    except KeyboardInterrupt:
        return True
    return False


def _model_card(scorer: Scorer, network: AdditiveNetwork | TreeEnsemble | None, why_not: str) -> ModelCard:
    return ModelCard(
        name=scorer.name,
        type=type(scorer).__name__,
        classes=tuple(str(label) for label in scorer.classes),
        favourable=str(scorer.classes[scorer.favourable]),
        label_only=scorer.label_only,
        white_box=network is not None,
        why_not=why_not or None,
    )


def _data_card(people: People, name: str) -> DataCard:
    fingerprint = hashlib.sha256(np.ascontiguousarray(people.individuals).tobytes())
    fingerprint.update(np.ascontiguousarray(people.labels).tobytes())
    schema = people.schema
    counts = {}
    for attribute in (schema[name] for name in schema.protected):
        entries, sizes = np.unique(people.individuals[:, schema.position(attribute.name)], return_counts=True)
        counts[attribute.name] = {attribute.text(entry): int(size) for entry, size in zip(entries, sizes, strict=True)}
    return DataCard(
        name=name,
        people=len(people),
        dropped=people.dropped,
        fingerprint=fingerprint.hexdigest(),
        counts=counts,
        base_rate=float(people.favourable.mean()),
    )


def _versions() -> dict[str, str]:
    import platform

    libraries = {name: importlib.metadata.version(name) for name in ("evenhand", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version()} | libraries
