"""Document of a refutation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
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
    "The statement covers these people. For others, the smallest gap differs, and it has no interval: evaluate the "
    "rule found here on held-out data.",
    "It covers rules on these features. Finer or other features may allow a smaller gap. The bound for any decisions "
    "covers all rules on these features.",
    "True labels are assumed to be correct. If they reflect past discrimination, so does accuracy.",
)


def build_document(result: RefutationResult) -> Document:
    """Build a document with the statement, the witness and the cells."""
    lead = (
        f"Rules on {format_count(len(result.features), 'feature', 'features')} that decide about "
        f"{format_count(result.people, 'person', 'people')} of {result.data}; "
        f"gap: the largest difference in selection rates between {', '.join(result.groups)}."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("Interrupted. This is the bound proved so far.", "caution"))
    elif result.stopped:
        blocks.append(
            Note("A limit ended the proof. More parts (--max-parts) or more time may raise the bound.", "info")
        )
    blocks += [Text(state_finding(result), role="finding"), *_metrics(result)]
    blocks += [Note(note) for note in result.notes]
    if result.witness is not None:
        blocks += [Heading("Best rule found", anchor="witness"), *_witness_blocks(result)]
    blocks += [Heading("Proof", anchor="proof", detail=True), _proof_facts(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        "Is there a less discriminatory alternative?",
        lead,
        tuple(blocks),
        brand="Evenhand mitigation",
    )


def name_family(result: RefutationResult) -> str:
    """Describe the family of rules."""
    return {
        "any": "possibly randomised decisions by these features",
        "linear": "linear rules with any weights on these features",
        "tree": f"trees of depth {result.depth} on these features",
    }[result.family]


def state_finding(result: RefutationResult) -> str:
    """State the proved bound in one or two sentences."""
    rules = f"{name_family(result)} that make {_floor(result)}"
    if result.bound is None:
        most = format_percent(result.most_accurate)
        return f"There are no {rules}. Any decisions by these features have an accuracy of at most {most}."
    statement = f"Among {rules}, none has a smaller gap than {_down(result.bound)}."
    if result.bound < 0.5e-4:
        statement = f"Among {rules}, no gap is excluded."
    if result.witness is None:
        return f"{statement} It is open whether any such rule exists: none was found."
    smallest = ", which is the smallest possible" if result.verdict == "exact" else ""
    return f"{statement} The best rule found has a gap of {_number(result.witness.gap)}{smallest}."


def _metrics(result: RefutationResult) -> Iterator[Metric]:
    if result.bound is not None:
        yield Metric("lower bound of the gap", _proved(result.bound))
    if result.witness is not None:
        accuracy = f"accuracy {_share(result.witness.accuracy)}"
        yield Metric("gap of the best rule found", _observed(result.witness.gap), (accuracy,))
    if result.any_bound is not None and result.family != "any":
        yield Metric("lower bound for any decisions based on these features", _proved(result.any_bound))
    if result.given is not None:
        accuracy = f"accuracy {_share(result.given.accuracy)}"
        yield Metric("gap of the original model", _observed(result.given.gap), (accuracy,))


def _proved(bound: float) -> ReportedNumber:
    return ReportedNumber(_down(bound), bound, "proved", basis="for these people")


def _observed(gap: float) -> ReportedNumber:
    return ReportedNumber(_number(gap), gap, "observed", basis="for these people")


def _witness_blocks(result: RefutationResult) -> Iterator[Block]:
    witness = result.witness
    assert witness is not None, "called only with a witness"
    names = list(result.features)
    if witness.weights is not None:
        rows = tuple(
            TableRow((_name_condition(name, result.features[name]), f"{weight:g}".replace("-", MINUS)))
            for name, weight in zip(names, witness.weights, strict=True)
        )
        yield Text(f"Accepts people whose points add up to {witness.threshold:g} or more.".replace("-", MINUS))
        yield Table("Points for each feature that is true", (Column("feature"), Column("points", numeric=True)), rows)
    elif witness.tree is not None:
        title = f"{witness.words[0].upper()}{witness.words[1:]}:"
        yield Text(title, tuple(_tree_lines(read_tree(witness.tree), names)))
    else:
        yield Text(f"The rule consists of {witness.words}. The JSON lists the decision in each cell.")
    rates = ", ".join(f"{name} {format_percent(rate)}" for name, rate in witness.selection_rates.items())
    correct = f"{witness.right:,.6g} of {result.people:,} decisions are correct"
    yield Facts((("accuracy", f"{_share(witness.accuracy)}, {correct}"), ("selection rates", rates)))


def _tree_lines(tree: TreeRule, names: list[str], above: str = "") -> Iterator[str]:
    """Yield one line per leaf: its conditions and its decision."""
    if isinstance(tree, TreeLeaf):
        yield f"{above or 'all people'}: {'accepted' if tree.accepted else 'refused'}"
        return
    prefix = f"{above} and " if above else ""
    yield from _tree_lines(tree.holding, names, f"{prefix}{names[tree.feature]}")
    yield from _tree_lines(tree.without, names, f"{prefix}not ({names[tree.feature]})")


def _proof_facts(result: RefutationResult) -> Facts:
    if result.proof.parts and result.parts:
        proof = (
            f"branch and bound with {format_count(result.parts, 'part', 'parts')}; each is bounded by the multipliers "
            "of a linear program, which are checked without the solver"
        )
    elif result.proof.parts:
        proof = "the multipliers of a linear program, which are checked without the solver"
    elif result.verdict == "infeasible" and result.most_accurate * result.people < result.need - 0.5:
        proof = "the sum of the more frequent labels of all cells"
    else:
        proof = "enumeration of all trees, in integers"
    return Facts(
        (
            ("features", "; ".join(_name_condition(*feature) for feature in result.features.items())),
            ("groups", "; ".join(_name_condition(*group) for group in result.groups.items())),
            ("accuracy floor", _floor(result)),
            ("proof", proof),
            ("check", "evenhand check-certificate repeats the proof from the JSON in exact arithmetic"),
        )
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
    """Round a bound down so that the displayed number is proved."""
    return f"{math.floor((bound + 1e-8) * 10**4) / 10**4:.4f}"
