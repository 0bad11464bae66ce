"""``evenhand mitigate MODEL DATA``: new models that do less of what was found, beside the given one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import (
    FavourableOption,
    HomeOption,
    IgnoreOption,
    JsonOption,
    ProtectedOption,
    QuietOption,
    SchemaOption,
    SeedOption,
    Source,
    TargetOption,
    TrustOption,
    check_places,
    emit_result,
    read_data,
)
from evenhand.errors import DataError, OptionError

if TYPE_CHECKING:
    from evenhand.schema import People, Schema


def mitigate(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a data set's name.")],
    out: Annotated[Path, typer.Option("--out", help="Write the new model here: the first method's.")],
    findings: Annotated[
        list[Path] | None,
        typer.Option("--from", help="What was found, to learn from: JSON of search, subgroups, ...; may be repeated."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="What to try: retrain (default), ...; may be repeated, to compare."),
    ] = None,
    strength: Annotated[
        float | None, typer.Option("--strength", help="Of fairness-aware training; else chosen on validation people.")
    ] = None,
    accuracy_loss: Annotated[
        float | None, typer.Option("--accuracy-loss", help="Accuracy that may be lost, as a share; 0.01.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", help="Search the retrained model again so often; 2.")
    ] = None,
    subgroups: Annotated[
        int | None, typer.Option("--subgroups", help="Mend so many of the subgroups found, the widest gaps first; 1.")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", help="People to compare on that nobody has learnt from: like DATA.")
    ] = None,
    fit: Annotated[
        str | None, typer.Option("--fit", metavar="MODULE:FUNCTION", help="Your own fit(frame, labels) -> model.")
    ] = None,
    certify_seconds: Annotated[
        float | None, typer.Option("--certify-seconds", help="For a certificate of every model, where possible; 10.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Learn for so many seconds.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    frontier: Annotated[
        Path | None,
        typer.Option("--frontier", help="Accuracy against fairness, by the first method's strength: .html or .json."),
    ] = None,
    target: TargetOption = None,
    protected: ProtectedOption = None,
    favourable: FavourableOption = None,
    schema: SchemaOption = None,
    ignore: IgnoreOption = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Train the model again on what was found, or train fairly, and compare before and after."""
    from evenhand import mitigate as mitigating
    from evenhand import models, report
    from evenhand.audit.run import described

    _check_places([model, data, test, schema, *(findings or ())], out, html, frontier, json)
    given = {
        "methods": tuple(method) if method else None,
        "strength": strength,
        "accuracy_loss": accuracy_loss,
        "rounds": rounds,
        "subgroups": subgroups,
        "certify_seconds": certify_seconds,
        "time_limit": time_limit,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    config = mitigating.Config(**options, seed=seed)
    _check_methods(config.methods, findings or ())
    if strength is not None:
        _with_strength(config.methods, "--strength")
    if test is not None and _same(data, test):
        raise OptionError(
            f"{test} is DATA itself, and nobody would be kept aside",
            where="--test",
            mend="name other people, or leave it out: a fifth of DATA is then kept aside",
        )
    swept = _with_strength(config.methods, "--frontier") if frontier is not None else ""
    with report.progress(quiet=quiet or json == "-") as progress:
        progress("reading the people", 0.0)
        source = read_data(data, schema=schema, data_home=data_home)
        people_schema = described(
            source.frame,
            schema=source.schema,
            target=target,
            protected=protected,
            favourable=favourable,
            ignore=ignore or (),
        )
        people = _labelled(people_schema, source)
        kept = aside = None
        if test is not None:
            aside = read_data(test, schema=schema, data_home=data_home)
            kept = _labelled(people.schema, aside)
        try:
            done = mitigating.run(
                model,
                people,
                findings=findings or (),
                test=kept,
                fit=fit,
                like=source.frame,
                trust=trust,
                data_name=source.name,
                test_name="" if aside is None else aside.name,
                out=out,
                config=config,
                progress=progress,
            )
        except KeyboardInterrupt:
            typer.echo("interrupted before there was any model", err=True)
            raise typer.Exit(130) from None
    written = list(done.save(out))
    if html is not None:
        report.write_page(report.render_mitigation(done.result), html)
        written.append(html)
    emit_result(done.result, json)
    if frontier is not None and not done.result.interrupted:
        from evenhand.mitigate.training import frontier as sweep

        with report.progress(quiet=quiet or json == "-") as progress:
            found = sweep(
                mitigating.split(people, seed=seed, test=kept),
                swept,
                given=models.load(model, people.schema, like=source.frame, trust=trust),
                seed=seed,
                confidence=config.confidence,
                time_limit=time_limit,
                data_name=source.name,
                compared_on=None if aside is None else aside.name,
                progress=progress,
            )
        if frontier.suffix == ".json":
            emit_result(found, str(frontier))
        else:
            report.write_page(report.render_frontier(found), frontier)
        written.append(frontier)
    if not quiet and json != "-":
        report.show_mitigation(done.result, written=written)
    timed_out = time_limit is not None and done.result.seconds >= time_limit
    if done.result.interrupted and not timed_out:
        raise typer.Exit(130)


def _check_places(
    read: Sequence[str | Path | None], out: Path, html: Path | None, frontier: Path | None, json: str | None
) -> None:
    """Refuse what cannot be written before any work is done.

    Raises:
        OptionError: a folder is not there, or a file that is read would be lost.
    """
    told = Path(json) if json is not None and json != "-" else None
    written = {"--out": out, "--html": html, "--frontier": frontier, "--json": told}
    check_places(written)
    known = [Path(path) for path in read if path is not None and Path(path).exists()]
    # A schema may be written beside a network, under its name.
    places = [*written.items(), ("--out", out.with_name(out.stem + ".schema.yaml"))]
    for option, place in places:
        if place is not None and place.exists() and any(place.samefile(path) for path in known):
            raise OptionError(f"{place} is a file to read, and is kept", where=option, mend="name another file")
    if not out.suffix:
        raise OptionError(f"{out} has no ending, which says how a model is written", where="--out")
    if frontier is not None and frontier.suffix not in (".html", ".json"):
        raise OptionError(f"a frontier is a page or JSON, not {frontier}", where="--frontier", mend="name it ....html")


def _check_methods(methods: Sequence[str], findings: Sequence[Path]) -> None:
    """Refuse methods that lack something before any work is done.

    Raises:
        OptionError: a method that nobody knows, or that has nothing to learn from.
        MissingExtraError: a library that a method needs is not installed.
    """
    from evenhand.mitigate.methods import FROM_FINDINGS
    from evenhand.mitigate.methods import methods as known

    known(methods)
    needy = [name for name in methods if name in FROM_FINDINGS]
    if needy and not findings:
        raise OptionError(
            f"{needy[0]} learns from what was found, and nothing is given",
            where="--from",
            mend="first evenhand search MODEL DATA --json found.json (or subgroups, or audit), then --from found.json; "
            "or train fairly without it: --method diffdp",
        )


def _with_strength(methods: Sequence[str], option: str) -> str:
    """The first method that has a strength.

    Raises:
        OptionError: none of them has.
    """
    from evenhand.mitigate.methods import TRAINED

    found = [name for name in methods if name in TRAINED and name != "erm"]
    if not found:
        raise OptionError(
            f"{methods[0]} has no strength" + (" to go through" if option == "--frontier" else ""),
            where=option,
            mend=f"add --method, one of: {', '.join(name for name in TRAINED if name != 'erm')}",
        )
    return found[0]


def _same(data: str, test: str) -> bool:
    """Whether both are the same file, or the same data set."""
    one, other = Path(data), Path(test)
    return one.samefile(other) if one.exists() and other.exists() else data == test


def _labelled(schema: Schema, source: Source) -> People:
    """The people of a source, all with their true label.

    Raises:
        DataError: they do not fit the schema, or have no two labels between them.
    """
    from evenhand.schema import encode

    people = encode(schema, source.frame, where=source.name)
    name = schema.target.name
    if people.labels is None:
        raise DataError(
            f"the target column {name!r} is missing: without true labels nothing is learnt", where=source.name
        )
    if len(set(people.labels.tolist())) < 2:
        raise DataError(f"the target column {name!r} has one class only", where=source.name)
    return people
