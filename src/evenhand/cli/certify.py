"""``evenhand certify MODEL --schema S.yaml`` and ``evenhand check-certificate FILE MODEL``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from evenhand import certification, checker, models
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import DataSource, ModelOptions, OutputOptions, ProtectedOption, SeedOption, refuse_options
from evenhand.cli.workers import WorkersOption, open_workers
from evenhand.errors import LimitError, OptionError

RESTRICTED_CODE = 4
"""Exit code of a valid certificate that answers a different question."""

if TYPE_CHECKING:
    from evenhand.population.independent import ProductPopulation
    from evenhand.schema.people import People
    from evenhand.schema.schema import Schema


@dataclass(frozen=True)
class DomainOptions(ModelOptions):
    """Domain of a certificate."""

    schema: Path | None = typer.Option(
        None, help="Schema file (YAML); check-certificate also reads it from the certificate."
    )
    data: str | None = typer.Option(None, help="Data of the population: a table, or a data set's name.")
    protected: ProtectedOption = None

    def load_white_box(
        self, model: str, schema: Schema, people: DataSource | People | None
    ) -> models.AdditiveNetwork | models.TreeEnsemble:
        """Load a white-box model, with the column types of the data, if there are data."""
        like, untyped = (None, False) if people is None else (people.frame, people.untyped)
        return models.load_white_box(model, schema, like=like, trust=self.trust, untyped=untyped, output=self.output)


@dataclass(frozen=True)
class CertificateSource(DomainOptions):
    """Question that a certificate should answer."""

    where: list[str] | None = typer.Option(None, help="Condition on the population; may be repeated.")
    population: Literal["uniform", "independent"] | None = typer.Option(
        None, metavar="KIND", help="uniform, or independent: each attribute as in --data."
    )
    threshold: float | None = typer.Option(None, help="Decision threshold.")
    tolerance: float | None = typer.Option(None, help="Largest allowed change of a numeric target.")
    bands: list[str] | None = typer.Option(None, help="Scores that separate the bands: 0.3,0.6.")

    def question(self, people: DataSource | None) -> checker.AskedQuestion:
        """Build the question."""
        from evenhand.population.independent import product_of_marginals
        from evenhand.schema.people import encode

        kind = self.population or ("uniform" if people is None else "independent")
        if kind == "independent" and people is None:
            raise OptionError("--population independent requires data", hint="add --data FILE")

        def drawn_from(schema: Schema) -> ProductPopulation:
            assert people is not None
            return product_of_marginals(encode(schema, people.frame, location=people.name))

        return checker.AskedQuestion(
            protected=tuple(self.protected) if self.protected else None,
            where=tuple(self.where or ()),
            population=drawn_from if kind == "independent" else None,
            threshold=self.threshold,
            tolerance=self.tolerance,
            bands=parse_edges(self.bands or ()),
            domain_given=self.schema is not None or (people is not None and people.schema is not None),
        )


def check_certificate(
    file: Annotated[Path, typer.Argument(help="Certificate of evenhand certify, or JSON of evenhand refute.")],
    source: CertificateSource,
    output: OutputOptions,
    model: str | None = typer.Argument(None, help="Model of the certificate; a refutation has none."),
    sample: int | None = typer.Option(None, min=1, help="Number of randomly drawn boxes to prove again."),
    everything: bool = typer.Option(False, "--all", help="Prove all boxes again."),
    resume: Path | None = typer.Option(None, help="File that stores the confirmed boxes; a later run resumes from it."),
    seed: int | None = typer.Option(None, min=0, help="Seed of the draw; by default unpredictable."),
) -> None:
    """Check a certificate, independently of its proof engine.

    The file, the model, the question, the totals and the proofs of the boxes are checked.
    """
    from evenhand.checker.refutation import is_refutation
    from evenhand.schema.people import encode
    from evenhand.schema.schema import read_schema

    if is_refutation(file):
        _check_refutation(file, model, source, output)
        return
    if model is None:
        raise OptionError("expected the model of the certificate", hint="evenhand check-certificate FILE MODEL")

    people = None if source.data is None else source.read(source.data)
    question = source.question(people)
    if everything and sample is not None:
        raise OptionError("expected --all or --sample, got both", hint="leave one out")

    def load(stated: Schema) -> models.AdditiveNetwork | models.TreeEnsemble:
        described = stated if source.schema is None else read_schema(source.schema)
        if people is not None and people.schema is not None:
            described = encode(people.schema, people.frame, location=people.name).schema
        return source.load_white_box(model, described, people)

    with output.progress() as progress:
        result = checker.check_certificate(
            file,
            load,
            question,
            sample=None if everything else sample or "fitting",
            seed=seed,
            state=resume,
            progress=progress,
        )
    output.finish(result, interrupted=result.interrupted)
    if result.verdict != "confirmed":
        raise typer.Exit(RESTRICTED_CODE if result.verdict == "restricted" else 1)


def _check_refutation(file: Path, model: str | None, source: CertificateSource, output: OutputOptions) -> None:
    """Check a refutation. With ``--data``, its people are counted again."""
    from evenhand.schema.people import ColumnRoles

    if model is not None:
        raise OptionError("expected no model for a refutation, got one", hint="pass the people: --data DATA")
    names = ("protected", "where", "population", "threshold", "tolerance", "bands")
    refuse_options("does not apply to refutations", **{name: getattr(source, name) for name in names})

    def people(refutation: Mapping[str, Any]) -> People:
        table = source.read(str(source.data))
        favourable = None if table.schema is not None else str(refutation["favourable"])
        target, protected = str(refutation["target"]), refutation["protected"] or None
        roles = ColumnRoles(target, protected, favourable, schema=table.schema)
        return replace(roles.read(table.frame, location=table.name), untyped=table.untyped)

    with output.progress() as progress:
        progress("checking the proof", 0.0)
        result = checker.check_refutation(file, people=None if source.data is None else people)
    output.finish(result)
    if result.verdict != "confirmed":
        raise typer.Exit(1)


SETTINGS: ConfigOptions[certification.CertifyConfig] = ConfigOptions(
    "evenhand.certification:CertifyConfig",
    (
        "method",
        "as_published",
        "where",
        "threshold",
        "tolerance",
        "bands",
        "outcomes",
        "time_limit",
        "max_boxes",
        "target_undecided",
    ),
    parsed={"bands": lambda options: parse_edges(options)},
)


@dataclass(frozen=True)
class PopulationOptions(DomainOptions):
    """Population of a certificate."""

    population: Literal["uniform", "data", "independent"] = typer.Option(
        "uniform",
        metavar="KIND",
        help="uniform over the domain; data: as in --data; or independent: each attribute as in --data.",
    )
    seed: SeedOption = 0

    def describe(self) -> tuple[Schema, People | None]:
        """Return the schema and, if there are data, their people."""
        from evenhand.schema.people import encode
        from evenhand.schema.schema import read_schema

        if self.population != "uniform" and self.data is None:
            raise OptionError(f"--population {self.population} requires data", hint="add --data FILE")
        source = self.read(self.data) if self.data is not None else None
        described = source.schema if source is not None else read_schema(self.schema) if self.schema else None
        if described is None:
            hint = "add --schema S.yaml (see `evenhand schema`)"
            raise OptionError("a certificate requires a schema", hint=hint)
        if self.protected:
            described = described.with_protected(self.protected)
        if source is None:
            return described, None
        people = replace(encode(described, source.frame, location=source.name), untyped=source.untyped)
        return people.schema, people


def certify(
    settings: Settings,
    model: Annotated[str, typer.Argument(help="Model file, or module:function that returns a white-box model.")],
    domain: PopulationOptions,
    output: OutputOptions,
    certificate: Path | None = typer.Option(None, help="File for every box and its proof, for check-certificate."),
    workers: WorkersOption = None,
) -> None:
    """Certify individual fairness of a model.

    The result is the share of the population whose decision provably does not depend on protected attributes.
    """
    from evenhand.population.mixture import choose_population

    config = SETTINGS.read(settings, seed=domain.seed)
    described, people = domain.describe()
    network = domain.load_white_box(model, described, people)
    wider = None
    if people is not None and domain.population != "uniform":
        wider = choose_population(domain.population, people, as_published=config.as_published)
    with output.progress() as progress, open_workers(workers) as number:
        result = certification.certify(
            network, config, population=wider, certificate=certificate, progress=progress, workers=number
        )
    if people is not None:
        result = result.model_copy(update={"table_reading": people.reading})
    interrupted = result.stopped_by == "interrupt"
    if result.boxes == 0 and not interrupted:
        raise LimitError("the limit was reached before any proof", hint="allow more time or boxes")
    output.finish(result, interrupted=interrupted)


def parse_edges(options: Sequence[str]) -> tuple[float, ...]:
    """Parse the scores that separate bands, such as ``0.3,0.6``."""
    texts = [text.strip() for option in options for text in option.split(",")]
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise OptionError(
            f"expected scores, got {', '.join(texts)!r}", location="--bands", hint="write them as 0.3,0.6"
        ) from None
