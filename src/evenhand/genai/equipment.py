"""What a configuration says about a real generator: what makes items, who looks at them, and who reads prompts.

::

    generator: {kind: studio, bias: {age: {child: 0.05, adult: 0.9}}, obeys: 0.95}
    classifier: {kind: studio}
    judge: {kind: keywords}
    guard: {mode: before, when_unsure: refuse}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field, ValidationError

from evenhand.errors import OptionError
from evenhand.genai.parts import Name, Names, Number, Part, Share, Whole
from evenhand.genai.reading import fault_of

if TYPE_CHECKING:
    from evenhand.genai.classify.onnx_pictures import PictureHead
    from evenhand.genai.specification import Configuration

WhenUnsure: TypeAlias = Literal["refuse", "pass"]


def _variable(given: str) -> str:
    """The name of an environment variable; whatever else stands there may be a key, and is not repeated."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given):
        raise ValueError("this is no name of an environment variable")
    return given


def _address(given: str) -> str:
    if not re.match(r"https?://[^/\s]", given):
        raise ValueError("this is no address")
    return given


def _function(given: str) -> str:
    module, _, name = given.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ValueError(f"{given!r} is not written as module:function")
    return given


Address: TypeAlias = Annotated[Name, AfterValidator(_address)]
Variable: TypeAlias = Annotated[Name, AfterValidator(_variable)]
FunctionName: TypeAlias = Annotated[Name, AfterValidator(_function)]
Options: TypeAlias = dict[Name, Any]
Words: TypeAlias = dict[Name, dict[Name, Annotated[Names, Field(min_length=1)]]]
"""By concept group and value."""


class Remote(Part):
    """A model behind an endpoint in the shape of OpenAI's.

    Attributes:
        url: the part of its address that the paths are put behind, such as ``http://127.0.0.1:8080/v1``.
        model: its name there.
        key: the environment variable that holds the key.
        timeout: seconds to wait for an answer.
        options: sent along as they are, such as ``size: 512x512``.
    """

    url: Address
    model: Name
    key: Variable | None = None
    timeout: Annotated[Number, Field(gt=0, allow_inf_nan=False)] = 60.0
    options: Options = Field(default_factory=dict)


class StudioGenerator(Part):
    """The built-in studio; see ``Studio``."""

    kind: Literal["studio"]
    bias: dict[Name, dict[Name, Annotated[Number, Field(ge=0, allow_inf_nan=False)]]] = Field(default_factory=dict)
    obeys: Share = 1.0
    unrecognised: Share = 0.0
    seed: Annotated[Whole, Field(ge=0)] = 0


class ImagesGenerator(Remote):
    """Pictures from an endpoint."""

    kind: Literal["images"]


class ChatGenerator(Remote):
    """Texts from an endpoint.

    Attributes:
        system: what the model is told before every prompt.
    """

    kind: Literal["chat"]
    system: Name | None = None


class DiffusersGenerator(Part):
    """Pictures from a diffusion model that lies in a folder.

    Attributes:
        model: the folder.
        steps: of denoising.
        device: such as ``cpu`` or ``cuda``.
        seed: of the noise.
        precision: of the numbers.
        options: of the pipeline, such as ``height: 256``.
    """

    kind: Literal["diffusers"]
    model: Name
    steps: Annotated[Whole, Field(ge=1)] = 20
    device: Name = "cpu"
    seed: Annotated[Whole, Field(ge=0)] = 0
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    options: Options = Field(default_factory=dict)


class RecordedGenerator(Part):
    """Items in files, played back in their order.

    Attributes:
        files: pictures and texts; or
        folder: where they lie, in the order of their names.
    """

    kind: Literal["recorded"]
    files: Annotated[Names, Field(min_length=1)] | None = None
    folder: Name | None = None


class StudioClassifier(Part):
    """Reads the pixels of the studio's pictures."""

    kind: Literal["studio"]


class ChatClassifier(Remote):
    """A vision-language model behind an endpoint.

    Attributes:
        questions: by concept group, what it is asked instead of the usual.
    """

    kind: Literal["chat"]
    questions: dict[Name, Name] = Field(default_factory=dict)


class OnnxClassifier(Part):
    """Networks that look at pictures.

    Attributes:
        groups: by concept group, how it is read; the entries are those of a ``PictureHead``.
    """

    kind: Literal["onnx"]
    groups: Annotated[dict[Name, Options], Field(min_length=1)]


class LexiconClassifier(Part):
    """Words in texts.

    Attributes:
        words: by concept group and value.
    """

    kind: Literal["lexicon"]
    words: Annotated[Words, Field(min_length=1)]


class FunctionClassifier(Part):
    """A function in a Python file.

    Attributes:
        function: ``module:function``; it takes an ``Item`` and answers with a value, or None, for every group.
    """

    kind: Literal["function"]
    function: FunctionName


class KeywordsJudge(Part):
    """The keywords of the conditions.

    Attributes:
        fixed: by concept group and value, words in a prompt that fix the value; without them the values' own names.
    """

    kind: Literal["keywords"]
    fixed: Words = Field(default_factory=dict)


class ChatJudging(Remote):
    """A language model behind an endpoint, asked the question that each condition has as ``judge``."""

    kind: Literal["chat"]


class FunctionJudge(Part):
    """Functions in Python files.

    Attributes:
        functions: by condition, ``module:function``; each takes a prompt and answers True or False.
        fixed: by concept group, the same: whether the prompt fixes the value.
    """

    kind: Literal["function"]
    functions: Annotated[dict[Name, FunctionName], Field(min_length=1)]
    fixed: dict[Name, FunctionName] = Field(default_factory=dict)


class Guarding(Part):
    """How a generator is guarded.

    Attributes:
        mode: ``before`` or ``after``; see ``Enforcer``.
        when_unsure: what happens if the judge or the classifier fails: ``refuse``, or ``pass`` and record.
    """

    mode: Literal["before", "after"] = "before"
    when_unsure: WhenUnsure = "refuse"


AnyGenerator: TypeAlias = StudioGenerator | ImagesGenerator | ChatGenerator | DiffusersGenerator | RecordedGenerator
AnyClassifier: TypeAlias = StudioClassifier | ChatClassifier | OnnxClassifier | LexiconClassifier | FunctionClassifier
AnyJudge: TypeAlias = KeywordsJudge | ChatJudging | FunctionJudge
Generating: TypeAlias = Annotated[AnyGenerator, Field(discriminator="kind")]
Classifying: TypeAlias = Annotated[AnyClassifier, Field(discriminator="kind")]
Judging: TypeAlias = Annotated[AnyJudge, Field(discriminator="kind")]


def entries_of_equipment() -> dict[str, list[str]]:
    """The entries known at every place, by place and kind."""
    found = {"guard": list(Guarding.model_fields)}
    for place, kinds in (("generator", AnyGenerator), ("classifier", AnyClassifier), ("judge", AnyJudge)):
        for part in get_args(kinds):
            kind = get_args(part.model_fields["kind"].annotation)[0]
            # `kind` first, as it is written.
            found[f"{place}.{kind}"] = sorted(part.model_fields, key=lambda name: name != "kind")
    return found


def check_equipment(configuration: Configuration) -> None:
    """Raises an OptionError where what looks at items and prompts does not fit what is to be kept."""
    generator, classifier, judge = configuration.generator, configuration.classifier, configuration.judge
    if isinstance(generator, RecordedGenerator) and (generator.files is None) == (generator.folder is None):
        raise OptionError(
            "recorded items lie in files that are named, or in a folder",
            where="generator",
            mend="write files: [first.png, second.png], or folder: pictures",
        )
    for where, group, values, complete in _answered(configuration):
        known = configuration.values.get(group)
        if known is None:
            raise OptionError(
                f"there is no group {group!r}", where=where, mend=f"one of: {', '.join(configuration.values)}"
            )
        missing = [value for value in known if value not in values]
        if complete and missing:
            raise OptionError(
                f"{group} {missing[0]!r} would never be told from others, and it must appear",
                where=where,
                mend=f"the values are {', '.join(known)}; answered are {', '.join(values)}",
            )
        unknown = [value for value in values if value not in known]
        if unknown and not isinstance(classifier, OnnxClassifier):
            raise OptionError(f"{group} has no value {unknown[0]!r}", where=where, mend=f"one of: {', '.join(known)}")
    covered = _covered(configuration)
    for group in configuration.values:
        if covered is not None and group not in covered:
            raise OptionError(
                f"nothing would tell which {group} an item shows",
                where="classifier",
                mend=f"this one answers for {', '.join(covered)}",
            )
    if isinstance(judge, FunctionJudge):
        _check_functions(judge, configuration)


def _answered(configuration: Configuration) -> Iterator[tuple[str, str, Collection[str], bool]]:
    """Places that name groups and values: the place, the group, its values, and whether all must be there."""
    if isinstance(configuration.classifier, LexiconClassifier):
        for group, words in configuration.classifier.words.items():
            yield f"classifier.words.{group}", group, words, True
    if isinstance(configuration.classifier, OnnxClassifier):
        for group, described in configuration.classifier.groups.items():
            where = f"classifier.groups.{group}"
            yield where, group, _head(described, where).values, True
    if isinstance(configuration.classifier, ChatClassifier):
        for group in configuration.classifier.questions:
            yield f"classifier.questions.{group}", group, (), False
    if isinstance(configuration.judge, KeywordsJudge):
        for group, words in configuration.judge.fixed.items():
            yield f"judge.fixed.{group}", group, words, False


def _head(described: Mapping[str, Any], where: str) -> PictureHead:
    from evenhand.genai.classify.onnx_pictures import PictureHead

    try:
        return PictureHead.model_validate(described)
    except ValidationError as error:
        fault = fault_of(error, described, {"": list(PictureHead.model_fields)})
        raise OptionError(
            fault.what, where=where if fault.where is None else f"{where}.{fault.where}", mend=fault.mend
        ) from None


def _covered(configuration: Configuration) -> Collection[str] | None:
    """The groups that the classifier answers for; None: it is asked for whatever is wanted."""
    if isinstance(configuration.classifier, LexiconClassifier):
        return configuration.classifier.words
    if isinstance(configuration.classifier, OnnxClassifier):
        return configuration.classifier.groups
    return None


def _check_functions(judge: FunctionJudge, configuration: Configuration) -> None:
    names = [condition.name for condition in configuration.conditions]
    missing = [name for name in names if name not in judge.functions]
    if missing:
        raise OptionError(
            f"nothing tells when {missing[0]!r} is asked for",
            where="judge.functions",
            mend=f"write {missing[0]}: module:function",
        )
    places: tuple[tuple[str, Mapping[str, str], Collection[str], str], ...] = (
        ("judge.functions", judge.functions, names, "condition"),
        ("judge.fixed", judge.fixed, configuration.values, "group"),
    )
    for where, given, known, what in places:
        for name in given:
            if name not in known:
                raise OptionError(f"there is no {what} {name!r}", where=where, mend=f"one of: {', '.join(known)}")
