"""``evenhand certify MODEL --schema S.yaml``: for which share of everybody the decision provably stays the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import (
    HomeOption,
    JsonOption,
    ProtectedOption,
    QuietOption,
    SeedOption,
    TrustOption,
    emit_result,
    read_data,
)
from evenhand.errors import LimitError, OptionError


def certify(
    model: Annotated[str, typer.Argument(help="Model file or module:function; it must be a white box.")],
    schema: Annotated[Path | None, typer.Option("--schema", help="Schema file (YAML).")] = None,
    protected: ProtectedOption = None,
    method: Annotated[
        str, typer.Option("--method", help="linear: linear bounds, best first; interval: the older symbolic intervals.")
    ] = "linear",
    population: Annotated[
        str, typer.Option("--population", help="uniform over the domain, or data: each attribute as in --data.")
    ] = "uniform",
    data: Annotated[str | None, typer.Option("--data", help="CSV or Parquet file, or a data set's name.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only people of whom this holds, like 'age >= 18'; may be repeated."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Of two labels, give the second if its probability exceeds this, not a half."),
    ] = None,
    relax: Annotated[
        list[str] | None,
        typer.Option("--relax", help="Compare people who differ by so much too, like age=2; may be repeated."),
    ] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Stop after so many seconds.")] = None,
    max_boxes: Annotated[int | None, typer.Option("--max-boxes", min=1, help="Stop after so many boxes.")] = None,
    target_undecided: Annotated[
        float | None, typer.Option("--target-undecided", min=0, max=1, help="Stop when no more than this is undecided.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Compute on whole arrays: numpy, torch, cuda. By itself for wide networks."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Write every box and its proof for check-certificate.")
    ] = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Prove for which share of the population a model treats individuals the same, whatever is protected."""
    from evenhand import certify as certifying
    from evenhand import models, report
    from evenhand import population as populations
    from evenhand.schema import encode, read_yaml

    if method not in ("linear", "interval"):
        raise OptionError(f"there is no method {method!r}", where="--method", mend="linear or interval")
    if population not in ("data", "uniform"):
        raise OptionError(f"there is no population {population!r}", where="--population", mend="uniform or data")
    if population == "data" and data is None:
        raise OptionError("--population data needs the data", mend="--data FILE")
    if schema is None and data is None:
        raise OptionError("a certificate needs to know the domain", mend="--schema S.yaml (see `evenhand schema`)")
    source = read_data(data, schema=schema, data_home=data_home) if data is not None else None
    described = read_yaml(schema) if schema is not None else source.schema if source is not None else None
    if described is None:
        raise OptionError("a certificate needs to know the domain", mend="--schema S.yaml (see `evenhand schema`)")
    if protected:
        described = described.protect(protected)
    people = encode(described, source.frame, where=source.name) if source is not None else None
    described = people.schema if people is not None else described
    network = models.white_box(models.load(model, described, like=source.frame if source else None, trust=trust))
    wider = populations.marginals(people) if people is not None and population == "data" else None
    with report.progress(quiet=quiet or json == "-") as progress:
        result = certifying.run(
            network,
            method="interval" if method == "interval" else "linear",
            population=wider,
            where=where or (),
            threshold=threshold,
            relax=_tolerances(relax or ()),
            time_limit=time_limit,
            max_boxes=max_boxes,
            target_undecided=target_undecided,
            seed=seed,
            device=device,
            certificate=certificate,
            progress=progress,
        )
    if result.boxes == 0:
        raise LimitError("the limit was reached before anything was proved", mend="give it more time or boxes")
    emit_result(result, json)
    if not quiet and json != "-":
        typer.echo(result.summary())
    if result.stopped_by == "interrupt":
        raise typer.Exit(130)


def _tolerances(given: Sequence[str]) -> dict[str, float]:
    """Attribute and tolerance of each ``NAME=NUMBER``.

    Raises:
        OptionError: one is not of this form, or two are about the same attribute.
    """
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        name = name.strip()
        try:
            tolerance = float(number)
        except ValueError:
            tolerance = math.nan
        if not name or math.isnan(tolerance):
            raise OptionError(f"{text!r} is no tolerance", where="--relax", mend="NAME=NUMBER, such as age=2")
        if name in found:
            raise OptionError(f"two tolerances are given for {name!r}", where="--relax")
        found[name] = tolerance
    return found
