"""``evenhand subgroups MODEL DATA``: subgroups that a model treats differently, with statistics that hold."""

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
from evenhand.cli.subgroups_of_texts import search_texts
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.schema import Schema
    from evenhand.subgroup import SubgroupResult


def subgroups(
    model: Annotated[str, typer.Argument(help="Model file, http(s) URL or module:function.")],
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a data set's name.")],
    protected: ProtectedOption = None,
    measure: Annotated[
        str | None, typer.Option("--measure", help="favourable (default), false-negative, false-positive or score.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Compare with the rest (default) or the best other group; texts with others (default) or all.",
        ),
    ] = None,
    support: Annotated[
        float | None, typer.Option("--support", help="Share of the people that a subgroup holds at least; 0.05.")
    ] = None,
    least_people: Annotated[
        int | None, typer.Option("--least-people", help="People inside, and outside, at least; 30.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", help="Gaps certainly below this do not count; 0.05.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Of all intervals taken together; 0.95.")
    ] = None,
    control: Annotated[
        str | None, typer.Option("--control", help="Account of how many are looked at: max-t (default), BY or none.")
    ] = None,
    permutations: Annotated[int | None, typer.Option("--permutations", help="For max-t; 1000.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="Attributes in one rule set, at most; all.")] = None,
    bins: Annotated[int | None, typer.Option("--bins", help="Parts that a number is cut into, at most; 10.")] = None,
    per: Annotated[
        str | None, typer.Option("--per", help="Take gaps within each value of this attribute, and average them.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", help="Judge this subgroup too, like 'age >= 90 and sex == Male'; may be repeated."),
    ] = None,
    split: Annotated[
        bool, typer.Option("--split", help="Choose subgroups on one half of the people, measure them on the other.")
    ] = False,
    method: Annotated[
        str | None, typer.Option("--method", help="exact (default), or as published: sampled, themis, linear.")
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option("--augment", help="Ask around the data too: sampled, or sequential (until the answer is clear)."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", help="Around the data, ask about so many individuals at most.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", help="The model decides about this column's texts: subgroups by their terms."),
    ] = None,
    terms: Annotated[
        list[Path] | None, typer.Option("--terms", help="For texts: a file of identity terms; may be repeated.")
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="For texts: a rule names a group (default) or a term.")] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Stop after so many seconds.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write all findings as a table: .csv or .parquet.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    target: TargetOption = None,
    favourable: FavourableOption = None,
    schema: SchemaOption = None,
    ignore: IgnoreOption = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Search for subgroups of people that a model treats differently from everyone else."""
    from evenhand import models, report, subgroup
    from evenhand.individual.search.save import check_table, save_table
    from evenhand.schema import encode

    check_places({"--out": out, "--html": html})
    if out is not None:
        check_table(out)
    given: dict[str, Any] = {
        "measure": measure,
        "against": against,
        "support": support,
        "least_people": least_people,
        "margin": margin,
        "confidence": confidence,
        "control": control,
        "permutations": permutations,
        "depth": depth,
        "bins": bins,
        "per": per,
        "judged": tuple(judge) if judge else None,
        "split": split or None,
        "method": method,
        "augment": augment,
        "budget": budget,
        "time_limit": time_limit,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if text is not None:
        if schema is not None:
            raise OptionError("a schema is about people, not about texts", where="--schema", mend="leave it out")
        if by is not None:
            options["by"] = by
        source = read_data(data, schema=None, data_home=data_home)
        said = search_texts(
            model,
            source,
            text,
            target=target,
            protected=protected or (),
            terms=terms or (),
            favourable=favourable,
            options=options | {"seed": seed},
            trust=trust,
            quiet=quiet or json == "-",
        )
        found: SubgroupResult = said
        subject = report.Subject(model, source.name, said.people, target or "label", said.favourable, label_only=False)
    else:
        if terms or by is not None:
            raise OptionError("--terms and --by are for texts", mend="name the column of the texts: --text NAME")
        config = subgroup.Config(attributes=tuple(protected) if protected else None, seed=seed, **options)
        source = read_data(data, schema=schema, data_home=data_home)
        people_schema = _described(source, target, protected or (), favourable, ignore or ())
        with report.progress(quiet=quiet or json == "-") as progress:
            progress("reading the people", 0.0)
            people = encode(people_schema, source.frame, where=source.name)
            scorer = models.load(model, people.schema, like=source.frame, trust=trust)
            found = subgroup.run(scorer, people, config, progress=progress)
        subject = report.Subject(
            name=scorer.name,
            data=source.name,
            people=len(people),
            target=people.schema.target.name,
            favourable=str(scorer.classes[scorer.favourable]),
            label_only=scorer.label_only,
        )
    written = []
    if out is not None:
        save_table(found.to_frame(), out)
        written.append(out)
    if html is not None:
        report.write_page(report.render_subgroups(found, subject), html)
        written.append(html)
    emit_result(found, json)
    if not quiet and json != "-":
        report.show_subgroups(found, subject, written=written)
    timed_out = time_limit is not None and found.seconds >= time_limit
    if found.interrupted and not timed_out:
        raise typer.Exit(130)


def _described(
    source: Source, target: str | None, protected: Sequence[str], favourable: str | None, ignore: Sequence[str]
) -> Schema:
    """The schema in force. Sensitive attributes need not be such as can be protected: numbers are cut into ranges.

    Raises:
        OptionError: nothing says what is decided or about whom it is asked, or the options contradict the schema.
    """
    from evenhand.audit.run import relabelled
    from evenhand.schema import infer

    if source.schema is None:
        if target is None:
            raise OptionError("what is decided about these people?", mend="name the column: --target NAME, or a schema")
        described = infer(source.frame, target=target, favourable=favourable, ignore=ignore)
    else:
        described = relabelled(source.schema, target=target, favourable=favourable)
    described.positions(protected)
    if not protected and not described.protected:
        raise OptionError("no sensitive attribute is named", mend="name at least one: --protected NAME")
    return described
