"""``evenhand check-certificate FILE MODEL``: an independent check of a certificate, in exact arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import HomeOption, JsonOption, QuietOption, TrustOption, emit_result, read_data
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.models.additive import AdditiveNetwork
    from evenhand.population import ProductPopulation
    from evenhand.schema import Schema


def check_certificate(
    file: Annotated[Path, typer.Argument(help="Certificate, as written by evenhand certify --certificate.")],
    model: Annotated[str, typer.Argument(help="The model that it should be about.")],
    sample: Annotated[int, typer.Option("--sample", min=1, help="Prove so many boxes again, drawn at random.")] = 1000,
    everything: Annotated[bool, typer.Option("--all", help="Prove all boxes again.")] = False,
    schema: Annotated[
        Path | None, typer.Option("--schema", help="Schema file (YAML) to compare; else the certificate's own.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="Data to compare the population with; else it is taken as stated.")
    ] = None,
    trust: TrustOption = False,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the draw; by default nobody can know it beforehand.")
    ] = None,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Check a certificate: the file, the model, the domain, the totals, and the proofs of its boxes."""
    from evenhand import checker, models, report
    from evenhand import population as populations
    from evenhand.schema import encode, read_yaml

    def load(stated: Schema) -> AdditiveNetwork:
        described = stated if schema is None else read_yaml(schema)
        network = models.white_box(models.load(model, described, like=None, trust=trust))
        if not isinstance(network, models.AdditiveNetwork):
            raise OptionError("certificates are about networks, and this model is made of trees", where=model)
        return network

    def drawn_from(stated: Schema) -> ProductPopulation:
        source = read_data(str(data), schema=schema, data_home=data_home)
        return populations.marginals(encode(stated, source.frame, where=source.name))

    with report.progress(quiet=quiet or json == "-") as progress:
        result = checker.check(
            file,
            load,
            sample=None if everything else sample,
            seed=seed,
            population=None if data is None else drawn_from,
            progress=progress,
        )
    emit_result(result, json)
    if not quiet and json != "-":
        typer.echo(result.summary())
    if result.verdict != "confirmed":
        raise typer.Exit(1)
