"""``evenhand mitigate``, ``alternatives`` and ``refute``: fairer models, or a proof that there are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand import mitigation, models, schema
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import DataArgument, DataOptions, ModelArgument, PageOptions, approve_queries, check_file
from evenhand.core.interrupts import INTERRUPTED
from evenhand.errors import DataError, EvenhandError, OptionError

if TYPE_CHECKING:
    from evenhand.core.typing import Progress
    from evenhand.mitigation.alternatives.analysis import AlternativeSearch
    from evenhand.mitigation.analysis import Mitigation


SETTINGS: ConfigOptions[mitigation.MitigationConfig] = ConfigOptions(
    "evenhand.mitigation:MitigationConfig",
    ("methods", "findings", "fit", "strength", "accuracy_loss", "rounds", "certify_effort", "time_limit", "budget"),
    renamed={"methods": "method", "findings": "from_"},
)
ALTERNATIVES: ConfigOptions[mitigation.AlternativesConfig] = ConfigOptions(
    "evenhand.mitigation:AlternativesConfig",
    ("against", "methods", "decide_without", "fit", "accuracy_loss", "time_limit", "budget"),
    renamed={"methods": "method"},
)
REFUTATION: ConfigOptions[mitigation.RefutationConfig] = ConfigOptions(
    "evenhand.mitigation:RefutationConfig", ("family", "accuracy", "depth", "max_parts", "time_limit")
)

TestOption = Annotated[
    str | None, typer.Option(help="Test set, never used for training; by default, part of DATA is held out.")
]


def mitigate(
    settings: Settings,
    model: ModelArgument,
    data: DataArgument,
    people: DataOptions,
    output: PageOptions,
    save: Annotated[Path, typer.Option(callback=check_file, help="File for the new model of the first method.")],
    test: TestOption = None,
) -> None:
    """Train fairer models, and compare them with the original."""
    from evenhand.mitigation.analysis import forecast_queries

    config = SETTINGS.read(settings, seed=people.seed)
    _check_outputs([model, data, test, people.schema, *map(str, config.findings)], save, output)
    _check_methods(config)
    with _refusing_texts(model, config, trust=people.trust), output.progress() as progress:
        subject, held_out, name = _read_people(model, data, test, people, progress)
        forecast = forecast_queries(subject.people, config, test=held_out)
    subject.ledger.budget = approve_queries(model, config.budget, forecast)
    with _refusing_texts(model, config, trust=people.trust), output.progress() as progress:
        try:
            mitigated = mitigation.mitigate(subject, config, test=held_out, test_name=name, out=save, progress=progress)
        except KeyboardInterrupt:
            typer.echo("interrupted before any model was trained", err=True)
            raise typer.Exit(INTERRUPTED) from None
    _finish(mitigated, config, save, output)


def alternatives(
    settings: Settings,
    model: ModelArgument,
    data: DataArgument,
    people: DataOptions,
    output: PageOptions,
    save: Annotated[Path, typer.Option(callback=check_file, help="File for the chosen alternative.")],
    test: TestOption = None,
) -> None:
    """Search for less discriminatory alternatives."""
    config = ALTERNATIVES.read(settings, seed=people.seed)
    _check_outputs([model, data, test, people.schema], save, output)
    with output.progress() as progress:
        subject, held_out, name = _read_people(model, data, test, people, progress)
        rows = len(subject.people) + (0 if held_out is None else len(held_out))
        subject.ledger.budget = approve_queries(model, config.budget, 2 * rows)
        searched = mitigation.find_alternatives(
            subject, config, test=held_out, test_name=name, out=save, progress=progress
        )
    _finish(searched, config, save, output)


def refute(
    settings: Settings,
    data: DataArgument,
    people: DataOptions,
    output: PageOptions,
    features: Annotated[Path, typer.Option(help="Conditions that define the features (YAML).")],
    model: str | None = typer.Option(None, help="Model whose accuracy a rule must reach, instead of --accuracy."),
) -> None:
    """Prove how small the gap of simple rules can be."""
    config = REFUTATION.read(settings, seed=people.seed)
    _check_kept([model, data, people.schema, features], {"--html": output.html, "--json": output.json})
    with output.progress() as progress:
        if model is None:
            progress("reading the people", 0.0)
            source = people.read(data)
            result = mitigation.refute_alternatives(
                people.encode(source), config, features=features, data_name=source.name, progress=progress
            )
        else:
            subject = people.read_subject(model, data, progress)
            subject.ledger.budget = approve_queries(
                model, None, len(subject.people), hint="leave --model out, and set --accuracy"
            )
            result = mitigation.refute_alternatives(subject, config, features=features, progress=progress)
    output.finish(result, interrupted=result.interrupted)


def _finish(
    mitigated: Mitigation | AlternativeSearch,
    config: mitigation.MitigationConfig | mitigation.AlternativesConfig,
    save: Path,
    output: PageOptions,
) -> None:
    """Write the new model and the result. An interrupted run exits with 130, unless its time limit ended it."""
    result = mitigated.result
    outputs = mitigated.save(save)
    timed_out = config.time_limit is not None and result.seconds >= config.time_limit
    output.finish(result, written=outputs, interrupted=result.interrupted and not timed_out)


def _read_people(
    model: str, data: str, test: str | None, people: DataOptions, progress: Progress
) -> tuple[models.Subject, schema.People | None, str]:
    """Read MODEL, the people of DATA, and the test set with its name, if there is one."""
    if test is not None and (
        Path(test).samefile(data) if Path(test).exists() and Path(data).exists() else test == data
    ):
        raise OptionError(
            f"expected people who are not in DATA, got {test}",
            location="--test",
            hint="name another table, or leave it out to hold out a part of DATA",
        )
    subject = people.read_subject(model, data, progress)
    if test is None:
        return subject, None, ""
    source = people.read(test)
    held_out = schema.encode(subject.people.schema, source.frame, location=source.name)
    return subject, held_out, source.name


@contextmanager
def _refusing_texts(model: str, config: mitigation.MitigationConfig, *, trust: bool) -> Iterator[None]:
    """Explain errors caused by findings or a model about texts."""
    from evenhand.mitigation.findings import concern_texts
    from evenhand.models.blackbox.text_model import reads_texts
    from evenhand.models.load import OBJECT_LOADERS, load_stored_object

    try:
        yield
    except EvenhandError as error:
        files = [str(file) for file in config.findings if isinstance(file, Path | str) and concern_texts(file)]
        stored = None
        if Path(model).suffix.lower() in OBJECT_LOADERS:
            with suppress(EvenhandError):
                stored = load_stored_object(Path(model), trust=trust)
        if not files and not reads_texts(stored):
            raise
        raise DataError(
            "expected findings about people in rows, got findings about texts"
            if files
            else "expected a model of people in rows, got a pipeline over texts",
            location=files[0] if files else model,
            hint="retrain it yourself: write the texts whose label changes with evenhand search MODEL DATA "
            "--text-column COLUMN --table swapped.csv, label them, and add them to your training texts",
        ) from error


def _check_outputs(inputs: Sequence[str | Path | None], save: Path, output: PageOptions) -> None:
    """Refuse to overwrite an input or to write a model in an unknown format, before any work is done."""
    # A network may be written with a schema, whose name is derived from that of the network.
    for model in (save, save.with_name(save.stem + ".schema.yaml")):
        _check_kept(inputs, {"--save": model, "--html": output.html, "--json": output.json})
    if not save.suffix:
        raise OptionError(
            f"expected a file with an extension, got {save}", location="--save", hint="name it, e.g. new.joblib"
        )


def _check_kept(inputs: Sequence[str | Path | None], outputs: Mapping[str, str | Path | None]) -> None:
    """Refuse to overwrite an input."""
    files = [Path(path) for path in inputs if path is not None and Path(path).exists()]
    for option, name in outputs.items():
        path = Path(name) if name not in (None, "-") else None
        if path is not None and path.exists() and any(path.samefile(file) for file in files):
            raise OptionError(f"{path} is an input", location=option, hint="name another file")


def _check_methods(config: mitigation.MitigationConfig) -> None:
    """Reject methods whose requirements are not met, before any work is done."""
    from evenhand.mitigation.methods.registry import FROM_FINDINGS, load_methods
    from evenhand.mitigation.training.recipes import RECIPES

    load_methods(config.methods)
    methods = [name for name in config.methods if name in FROM_FINDINGS]
    if methods and not config.findings:
        raise OptionError(
            f"method {methods[0]!r} requires findings, got none",
            location="--from",
            hint="first evenhand search MODEL DATA --json found.json (or subgroups, or audit), then --from found.json; "
            "or train fairly without it: --method diffdp",
        )
    weighted = [name for name in RECIPES if name != "erm"]
    if config.strength is not None and not set(config.methods) & set(weighted):
        raise OptionError(
            f"expected a method with a strength, got {config.methods[0]!r}",
            location="--strength",
            hint=f"add --method, one of: {', '.join(weighted)}",
        )
