"""A refutation in words: the statement that is proved, the witness, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_percent
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.mitigation.refutation.trees import TreeLeaf, TreeRule, read_tree

MINUS = "\N{MINUS SIGN}"

LIMITS = (
    "The statement is about these people. Among others the least gap is another number, and no interval stands for it: "
    "a rule found here is measured on people kept aside like any candidate.",
    "It is about rules on these features alone. Finer or other features may allow a smaller gap; the bound for any "
    "decisions holds for all rules on these.",
    "True labels are taken as given. Where they carry past harm, accuracy carries it too.",
)


def build_document(result: RefutationResult) -> Document:
    """Return the statement, the witness, the frontier and the cells."""
    lead = (
        f"Rules on {format_count(len(result.features), 'feature', 'features')} that decide about "
        f"{format_count(result.people, 'person', 'people')} of {result.data}; "
        f"gap: the largest difference of selection rates between {', '.join(result.groups)}."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("Interrupted: this is what was proved before.", "caution"))
    elif result.stopped:
        blocks.append(
            Note("A limit ended the proof; more parts (--max-parts) or more time may raise the bound.", "info")
        )
    blocks += [Text(state_finding(result), role="finding"), *_metrics(result)]
    if result.curve:
        blocks.append(
            Figure(
                "refutation",
                "Steps: no decisions by these features, by lot too, have a smaller gap at that accuracy, which is "
                "proved. Bar: what is proved of the family at its floor, up to the rule found (filled). Square: the "
                "given model.",
                result,
            )
        )
    blocks += [Note(note) for note in result.notes]
    if result.witness is not None:
        blocks += [Heading("The rule found", anchor="witness"), *_witness_blocks(result)]
    blocks += [Heading("What it rests on", anchor="proof", detail=True), _proof_facts(result)]
    blocks += [Heading("Cells", anchor="cells", detail=True), _cell_table(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        "Is there a less discriminatory alternative?",
        lead,
        tuple(blocks),
        brand="Evenhand mitigation",
        made=result.provenance,
        readings=result.readings,
    )


def name_family(result: RefutationResult) -> str:
    """Return which rules are meant."""
    return {
        "any": "decisions by these features, by lot too",
        "linear": "linear rules on these features, whatever their weights",
        "scorecard": f"scorecards on these features with whole points from {MINUS}{result.points} to {result.points}",
        "tree": f"trees of depth {result.depth} on these features",
    }[result.family]


def state_finding(result: RefutationResult) -> str:
    """Return the statement that is proved, in one sentence or two."""
    floor = _floor(result)
    if result.bound is None:
        most = f"any decisions by these features reach {format_percent(result.most_accurate)} at most"
        return f"Among {name_family(result)}, none makes {floor}; {most}."
    said = f"Among {name_family(result)} that make {floor}, none has a smaller gap than {_down(result.bound)}."
    if result.bound < 0.5e-4:
        said = f"Among {name_family(result)} that make {floor}, no gap is excluded."
    if result.witness is None:
        return f"{said} Whether one reaches that accuracy is open: none was found."
    least = ": no rule has less" if result.verdict == "exact" else ""
    return f"{said} The best one found has {_number(result.witness.gap)}{least}."


def _metrics(result: RefutationResult) -> Iterator[Metric]:
    if result.bound is not None:
        yield Metric(
            "least gap, at least",
            ReportedNumber(_down(result.bound), result.bound, "proved", basis="on these people"),
        )
    if result.witness is not None:
        yield Metric(
            "gap of the rule found",
            ReportedNumber(
                _number(result.witness.gap), result.witness.gap, "observed", basis="counted on these people"
            ),
            (f"accuracy {_share(result.witness.accuracy)}",),
        )
    if result.any_bound is not None and result.family != "any":
        yield Metric(
            "least gap of any decisions by these features, at least",
            ReportedNumber(_down(result.any_bound), result.any_bound, "proved", basis="on these people"),
        )
    if result.given is not None:
        yield Metric(
            "gap of the given model",
            ReportedNumber(_number(result.given.gap), result.given.gap, "observed", basis="counted on these people"),
            (f"accuracy {_share(result.given.accuracy)}",),
        )


def _witness_blocks(result: RefutationResult) -> Iterator[Block]:
    witness = result.witness
    assert witness is not None
    names = list(result.features)
    rates = ", ".join(f"{name} {format_percent(rate)}" for name, rate in witness.selection_rates.items())
    facts = [
        ("accuracy", f"{_share(witness.accuracy)}, {witness.right:,.6g} of {result.people:,} people decided rightly"),
        ("selection rates", rates),
    ]
    if witness.weights is not None:
        rows = tuple(
            TableRow((_name_condition(name, result.features[name]), f"{weight:g}".replace("-", MINUS)))
            for name, weight in zip(names, witness.weights, strict=True)
        )
        yield Text(f"Accepts people whose points add up to {witness.threshold:g} or more.".replace("-", MINUS))
        yield Table("Points for each feature that holds", (Column("feature"), Column("points", numeric=True)), rows)
    elif witness.tree is not None:
        yield Text(
            f"{witness.words[0].upper()}{witness.words[1:]}:", tuple(_tree_lines(read_tree(witness.tree), names))
        )
    else:
        yield Text(f"The rule {witness.words}; the table of cells shows how.")
    yield Facts(tuple(facts))


def _tree_lines(tree: TreeRule, names: list[str], above: str = "") -> Iterator[str]:
    """Yield one line per end of a tree: what holds on the way, and the decision."""
    if isinstance(tree, TreeLeaf):
        yield f"{above or 'everybody'}: {'accepted' if tree.accepted else 'refused'}"
        return
    both = f"{above} and " if above else ""
    yield from _tree_lines(tree.holding, names, f"{both}{names[tree.feature]}")
    yield from _tree_lines(tree.without, names, f"{both}not ({names[tree.feature]})")


def _proof_facts(result: RefutationResult) -> Facts:
    if result.proof.parts:
        how = (
            f"{format_count(result.parts, 'part', 'parts')} of a search by branch and bound; each is bounded by the "
            "multipliers of a linear program, which are added up without the solver"
            if result.parts
            else "the multipliers of one linear program, which are added up without the solver"
        )
    elif result.verdict == "infeasible" and result.most_accurate * result.people < result.need - 0.5:
        how = "adding up the more frequent label of every cell"
    else:
        how = "looking at all trees, in whole numbers"
    return Facts(
        (
            ("features", "; ".join(_name_condition(*one) for one in result.features.items())),
            ("groups", "; ".join(_name_condition(*one) for one in result.groups.items())),
            ("accuracy floor", _floor(result)),
            ("proof", how),
            ("check", "evenhand check-certificate on the JSON adds it up again in exact arithmetic"),
        )
    )


def _cell_table(result: RefutationResult) -> Table:
    decisions = result.witness.decisions if result.witness is not None else (None,) * len(result.cells)
    order = sorted(range(len(result.cells)), key=lambda at: -sum(map(sum, result.cells[at].counts)))
    rows = []
    for at in order:
        cell, decision = result.cells[at], decisions[at]
        held = [name for name, one in zip(result.features, cell.features, strict=True) if one == "1"]
        said = "-" if decision is None else {0.0: "no", 1.0: "yes"}.get(decision, f"{100 * decision:.1f} % by lot")
        counts = (f"{no + yes:,} ({yes:,})" for no, yes in cell.counts)
        rows.append(TableRow(("; ".join(held) or "none of them", *counts, said)))
    columns = (
        Column("features that hold"),
        *(Column(name, numeric=True) for name in result.groups),
        Column("accepted"),
    )
    return Table(
        "People with the same features by group, in brackets those whose true label is favourable, and whether the "
        "rule found accepts them",
        columns,
        tuple(rows),
        listed=20,
    )


def _name_condition(name: str, condition: str) -> str:
    return condition if name == condition else f"{name}: {condition}"


def _floor(result: RefutationResult) -> str:
    share = format_percent(result.need / result.people)
    return f"at least {result.need:,} of {result.people:,} correct decisions (accuracy {share})"


def _share(share: float) -> str:
    return f"{100 * share:.2f} %"


def _number(value: float) -> str:
    return f"{value:.4f}"


def _down(bound: float) -> str:
    """Return a bound rounded down, so that what is said is proved."""
    return f"{math.floor((bound + 1e-8) * 10**4) / 10**4:.4f}"
