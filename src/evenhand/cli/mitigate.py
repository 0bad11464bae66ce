"""``evenhand mitigate MODEL DATA``: new models that do less of what was found, beside the given one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import (
    ConsentOptions,
    DataOptions,
    PageOptions,
)
from evenhand.core.interrupts import INTERRUPTED
from evenhand.errors import DataError, EvenhandError, OptionError

if TYPE_CHECKING:
    from evenhand.core.typing import Progress
    from evenhand.mitigation.alternatives.config import AlternativesConfig
    from evenhand.mitigation.config import MitigationConfig
    from evenhand.mitigation.refutation.config import RefutationConfig
    from evenhand.models.subject import Subject
    from evenhand.schema.people import People


SETTINGS: ConfigOptions[MitigationConfig] = ConfigOptions(
    "evenhand.mitigation:MitigationConfig",
    about="new models by a method",
    hint="leave it out, or add --against: it is about a search for alternatives",
    without=("start", "share", "confidence", "seed"),
    renamed={"methods": "method", "findings": "from_"},
)
ALTERNATIVES: ConfigOptions[AlternativesConfig] = ConfigOptions(
    "evenhand.mitigation:AlternativesConfig",
    about="a search for alternatives",
    hint="leave it out, or leave out --against",
    without=("against", "confidence", "seed"),
    renamed={"methods": "method"},
)
REFUTATION: ConfigOptions[RefutationConfig] = ConfigOptions(
    "evenhand.mitigation:RefutationConfig",
    about="a refutation",
    hint="leave it out, or leave out --refute",
    without=("family", "seed"),
)


def mitigate(
    settings: Settings,
    model: Annotated[
        str, typer.Argument(help="Model file, http(s) URL or module:function; may be left out with --refute.")
    ],
    people: DataOptions,
    output: PageOptions,
    consent: ConsentOptions,
    data: Annotated[
        str | None, typer.Argument(help="CSV, JSON lines, Parquet or Excel file, or a data set's name.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write the new model here: the first method's, the alternative chosen, or the rule found."
        ),
    ] = None,
    test: Annotated[str | None, typer.Option("--test", help="Test set, in no training set: read like DATA.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Search for less discriminatory alternatives, with a smaller gap between groups: gap or ratio (of "
            "selection rates), equal-opportunity, equalized-odds. --method then names families.",
        ),
    ] = None,
    refute: Annotated[
        str | None,
        typer.Option(
            "--refute",
            help="Prove that no rule on --features as accurate as --accuracy has a smaller gap: any, linear or tree.",
        ),
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", help="Conditions that make features, for --refute: .yaml.")
    ] = None,
) -> None:
    """Train the model again on what was found, or train fairly, or search for less discriminatory alternatives."""
    from evenhand import mitigation, view
    from evenhand.mitigation.analysis import forecast_queries
    from evenhand.mitigation.split import put_in_one_table

    output.check_places(out=out)
    if refute is not None:
        unused = {"--test": test, "--against": against}
        for option, value in unused.items():
            if value is not None:
                raise OptionError(f"{option} is not about a refutation", hint="leave it out, or leave out --refute")
        if features is None:
            raise OptionError("a refutation needs features", location="--refute", hint="--features FILE.yaml")
        try:
            refutation = REFUTATION.read(settings, seed=people.seed, family=refute)
        except OptionError as error:
            error.location = "--refute" if error.location == "--family" else error.location
            raise
        given = None if data is None else model
        _refute_alternatives(refutation, given, data or model, features, people, output, consent, out)
        return
    if features is not None:
        raise OptionError("only a refutation has features", location="--features", hint="add --refute linear")
    if data is None:
        raise OptionError("expected MODEL and DATA", hint="DATA alone is enough with --refute")
    if out is None:
        raise OptionError("expected a file for the new model", location="--out", hint="such as --out new.joblib")
    if against is not None:
        searched = ALTERNATIVES.read(settings, seed=people.seed, against=against)
        _check_outputs([model, data, test, people.schema], _outputs(out, output))
        _search_alternatives(searched, model, data, test, people, output, consent, out)
        return
    config = SETTINGS.read(settings, seed=people.seed)
    _check_outputs(
        [model, data, test, people.schema, *map(str, config.findings)],
        _outputs(out, output),
    )
    _check_methods(config)
    if config.strength is not None:
        _check_strength(config.methods)
    with _refusing_texts(model, config, trust=people.trust), view.show_progress(quiet=output.silent) as progress:
        subject, kept, kept_name = _read_people(model, data, test, people, progress)
        if kept is not None:
            subject, kept = put_in_one_table(subject, kept)
        forecast = forecast_queries(subject.people, config, test=kept)
    subject.ledger.budget = consent.approve(model, config.budget, forecast)
    with _refusing_texts(model, config, trust=people.trust), view.show_progress(quiet=output.silent) as progress:
        try:
            done = mitigation.mitigate(subject, config, test=kept, test_name=kept_name, out=out, progress=progress)
        except KeyboardInterrupt:
            typer.echo("interrupted before there was any model", err=True)
            raise typer.Exit(INTERRUPTED) from None
    written = [*done.save(out), *output.write_page(done.result.document)]
    output.emit(done.result)
    output.show(done.result.document, written)
    timed_out = config.time_limit is not None and done.result.seconds >= config.time_limit
    if done.result.interrupted and not timed_out:
        raise typer.Exit(INTERRUPTED)


def _search_alternatives(
    config: AlternativesConfig,
    model: str,
    data: str,
    test: str | None,
    people: DataOptions,
    output: PageOptions,
    consent: ConsentOptions,
    out: Path,
) -> None:
    """Search for less discriminatory alternatives, and write the chosen one."""
    from evenhand import mitigation, view

    with view.show_progress(quiet=output.silent) as progress:
        subject, kept, kept_name = _read_people(model, data, test, people, progress)
        asked = len(subject.people) + (0 if kept is None else len(kept))
        subject.ledger.budget = consent.approve(model, config.budget, 2 * asked)
        done = mitigation.find_alternatives(subject, config, test=kept, test_name=kept_name, out=out, progress=progress)
    written = [*done.save(out), *output.write_page(done.result.document)]
    output.emit(done.result)
    output.show(done.result.document, written)
    timed_out = config.time_limit is not None and done.result.seconds >= config.time_limit
    if done.result.interrupted and not timed_out:
        raise typer.Exit(INTERRUPTED)


def _refute_alternatives(
    config: RefutationConfig,
    model: str | None,
    data: str,
    features: Path,
    people: DataOptions,
    output: PageOptions,
    consent: ConsentOptions,
    out: Path | None,
) -> None:
    """Prove how small the gap of a rule can be, and write the rule found."""
    from evenhand import mitigation, view

    written: dict[str, str | Path | None] = {"--html": output.html, "--json": output.json}
    _check_kept([model, data, people.schema, str(features)], {**written, "--out": out})
    if out is not None and (config.family == "any" or out.suffix not in (".joblib", ".pkl")):
        what = "decisions by cell are no model" if config.family == "any" else f"{out} does not end in .joblib or .pkl"
        raise OptionError(what, location="--out", hint="--refute linear or tree --out rule.joblib")
    with view.show_progress(quiet=output.silent) as progress:
        progress("reading the people", 0.0)
        source = people.read(data)
        if model is None:
            found = mitigation.refute_alternatives(
                people.encode(source),
                config,
                features=features,
                data_name=source.name,
                progress=progress,
            )
        else:
            subject = people.read_subject(model, data, progress)
            subject.ledger.budget = consent.approve(model, None, len(subject.people))
            found = mitigation.refute_alternatives(subject, config, features=features, progress=progress)
    files: list[Path] = []
    if out is not None and found.witness is not None:
        described = people.encode(source).schema
        files += mitigation.save_witness(found, described, out)
    files += output.write_page(found.document)
    output.emit(found)
    output.show(found.document, files)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _read_people(
    model: str, data: str, test: str | None, people: DataOptions, progress: Progress
) -> tuple[Subject, People | None, str]:
    """Return the model with the people, and the people to compare on where others are named, with their name.

    Raises:
        OptionError: they are the same.
        DataError: a label is missing, or all are the same.
    """
    from evenhand.schema.people import encode

    if test is not None and _is_same_data(data, test):
        raise OptionError(
            f"{test} is DATA itself, so nothing would be held out",
            location="--test",
            hint="name other people, or leave it out to hold out a part of DATA",
        )
    subject = people.read_subject(model, data, progress)
    _check_labels(subject.people, subject.data_name)
    if test is None:
        return subject, None, ""
    aside = people.read(test)
    kept = encode(subject.people.schema, aside.frame, location=aside.name)
    _check_labels(kept, aside.name)
    return subject, kept, aside.name


@contextmanager
def _refusing_texts(model: str, config: MitigationConfig, *, trust: bool) -> Iterator[None]:
    """Where people cannot be read or asked about because all is about texts, say so, and what works instead.

    Raises:
        DataError: the findings or the model are about texts.
        EvenhandError: what went wrong, where they are not.
    """
    from evenhand.mitigation.findings import concern_texts
    from evenhand.models.blackbox.text_model import reads_texts
    from evenhand.models.load import OBJECT_LOADERS, load_stored_object

    try:
        yield
    except EvenhandError as error:
        found = [str(one) for one in config.findings if isinstance(one, Path | str) and concern_texts(one)]
        stored = None
        if Path(model).suffix.lower() in OBJECT_LOADERS:
            with suppress(EvenhandError):
                stored = load_stored_object(Path(model), trust=trust)
        if not found and not reads_texts(stored):
            raise
        raise DataError(
            "expected findings about people in rows, got findings about texts"
            if found
            else "expected a model of people in rows, got a pipeline over texts",
            location=found[0] if found else model,
            hint="no model of texts is trained here: evenhand search MODEL DATA --text-column COLUMN --out swapped.csv "
            "writes the texts whose label changes with the words for a group; train your pipeline on your texts and "
            "on these, each with its true label",
        ) from error


def _outputs(out: Path, output: PageOptions) -> dict[str, str | Path | None]:
    """Return the files that are going to be written, by option."""
    return {"--out": out, "--html": output.html, "--json": output.json}


def _check_outputs(read: Sequence[str | Path | None], written: Mapping[str, str | Path | None]) -> None:
    """Refuse to write over what is read, and files of no known kind, before any work is done.

    Raises:
        OptionError: a file that is read would be lost, or nothing says how one is to be written.
    """
    out = Path(str(written["--out"]))
    _check_kept(read, written)
    # A schema may be written beside a network, under its name.
    _check_kept(read, {"--out": out.with_name(out.stem + ".schema.yaml")})
    if not out.suffix:
        raise OptionError(f"{out} has no ending, which says how a model is written", location="--out")


def _check_kept(read: Sequence[str | Path | None], written: Mapping[str, str | Path | None]) -> None:
    """Refuse to write over what is read.

    Raises:
        OptionError: a file that is read would be lost.
    """
    known = [Path(path) for path in read if path is not None and Path(path).exists()]
    for option, name in written.items():
        place = Path(name) if name not in (None, "-") else None
        if place is not None and place.exists() and any(place.samefile(path) for path in known):
            raise OptionError(f"{place} is a file to read, and is kept", location=option, hint="name another file")


def _check_methods(config: MitigationConfig) -> None:
    """Refuse methods that lack something before any work is done.

    Raises:
        OptionError: an unknown method, or one that has nothing to learn from.
        MissingExtraError: a library that a method needs is not installed.
    """
    from evenhand.mitigation.methods.registry import FROM_FINDINGS, load_methods

    load_methods(config.methods)
    needy = [name for name in config.methods if name in FROM_FINDINGS]
    if needy and not config.findings:
        raise OptionError(
            f"{needy[0]} learns from what was found, and nothing is given",
            location="--from",
            hint="first evenhand search MODEL DATA --json found.json (or subgroups, or audit), then --from found.json; "
            "or train fairly without it: --method diffdp",
        )


def _check_strength(methods: Sequence[str]) -> None:
    """Check that one of the methods has a strength.

    Raises:
        OptionError: none of them has.
    """
    from evenhand.mitigation.methods.registry import TRAINED

    weighted = [name for name in TRAINED if name != "erm"]
    if not set(methods) & set(weighted):
        raise OptionError(
            f"{methods[0]} has no strength",
            location="--strength",
            hint=f"add --method, one of: {', '.join(weighted)}",
        )


def _is_same_data(data: str, test: str) -> bool:
    """Whether both are the same file, or the same data set."""
    one, other = Path(data), Path(test)
    return one.samefile(other) if one.exists() and other.exists() else data == test


def _check_labels(people: People, location: str) -> None:
    """Refuse people whose true labels are missing or all the same.

    Raises:
        DataError: they are.
    """
    name = people.schema.target.name
    if people.labels is None:
        raise DataError(
            f"the target column {name!r} is missing: without true labels nothing is learnt", location=location
        )
    if len(set(people.labels.tolist())) < 2:
        raise DataError(f"the target column {name!r} has only one class", location=location)
