"""Configuration of a generator, a classifier, a judge and a guard.

::

    generator: {kind: studio, bias: {age: {child: 0.05, adult: 0.9}}, obeys: 0.95}
    classifier: {kind: studio}
    judge: {kind: keywords}
    guard: {mode: before, when_unsure: refuse}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from evenhand.core.config import check_configuration
from evenhand.errors import OptionError
from evenhand.genai.spec.entries import ConfigPart, Name, Names, Share
from evenhand.genai.spec.spending_config import BudgetConfig, PriceConfig

if TYPE_CHECKING:
    from evenhand.genai.classifiers.onnx_pictures import PictureHead


WhenUnsure: TypeAlias = Literal["refuse", "pass"]


def _check_variable_name(given: str) -> str:
    """Return the name of an environment variable; whatever else stands there may be a key, and is not repeated."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", given):
        raise ValueError("this is not a name of an environment variable")
    return given


def _check_address(given: str) -> str:
    if not re.match(r"https?://[^/\s]", given):
        raise ValueError("this is not an address")
    return given


def _check_function_name(given: str) -> str:
    module, _, name = given.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ValueError(f"{given!r} is not written as module:function")
    return given


Address: TypeAlias = Annotated[Name, AfterValidator(_check_address)]
Variable: TypeAlias = Annotated[Name, AfterValidator(_check_variable_name)]
FunctionName: TypeAlias = Annotated[Name, AfterValidator(_check_function_name)]
Options: TypeAlias = dict[Name, Any]
WordLists: TypeAlias = dict[Name, dict[Name, Annotated[Names, Field(min_length=1)]]]
"""By concept group and value."""


class RemoteConfig(ConfigPart):
    """Model behind an endpoint compatible with OpenAI.

    Attributes:
        url: Base URL, such as ``http://127.0.0.1:8080/v1``.
        model: Name of the model.
        key: Environment variable that contains the key.
        timeout: Time limit of a request in seconds.
        options: Further entries of each request, such as ``size: 512x512``.
    """

    url: Address
    model: Name
    key: Variable | None = None
    timeout: Annotated[float, Field(gt=0)] = 60.0
    options: Options = Field(default_factory=dict)


class CacheConfig(ConfigPart):
    """Cache of the answers of a model.

    Attributes:
        entries: Maximum number of answers. The oldest are removed first.
        file: File of the cache, relative to the configuration. None keeps it in memory.
    """

    entries: Annotated[int, Field(ge=1)] = 10_000
    file: Name | None = None


class StudioGeneratorConfig(ConfigPart):
    """The built-in studio; see ``Studio``.

    Attributes:
        bias: Weights by group and value. Default: equal.
        obeys: Probability that an instruction is obeyed.
        unrecognised: Fraction of items without a recognisable value.
        seed: Seed of the draws.
    """

    kind: Literal["studio"]
    bias: dict[Name, dict[Name, Annotated[float, Field(ge=0)]]] = Field(default_factory=dict)
    obeys: Share = 1.0
    unrecognised: Share = 0.0
    seed: Annotated[int, Field(ge=0)] = 0


class ImagesGeneratorConfig(RemoteConfig):
    """Pictures from an endpoint."""

    kind: Literal["images"]


class ChatGeneratorConfig(RemoteConfig):
    """Texts from an endpoint.

    Attributes:
        system: System message before every prompt.
    """

    kind: Literal["chat"]
    system: Name | None = None


class DiffusersGeneratorConfig(ConfigPart):
    """Pictures from a diffusion model in a folder.

    Attributes:
        model: Folder of the model.
        steps: Number of denoising steps.
        device: Device, such as ``cpu`` or ``cuda``.
        seed: Seed of the noise.
        precision: Floating-point type.
        options: Options of the pipeline, such as ``height: 256``.
    """

    kind: Literal["diffusers"]
    model: Name
    steps: Annotated[int, Field(ge=1)] = 20
    device: Name = "cpu"
    seed: Annotated[int, Field(ge=0)] = 0
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    options: Options = Field(default_factory=dict)


class RecordedGeneratorConfig(ConfigPart):
    """Recorded items in files. Exactly one of ``files`` and ``folder`` is required.

    Attributes:
        files: Files of pictures and texts, in their order.
        folder: Folder of the files, which are ordered by name.
    """

    kind: Literal["recorded"]
    files: Annotated[Names, Field(min_length=1)] | None = None
    folder: Name | None = None


class StudioClassifierConfig(ConfigPart):
    """Reads the pixels of the studio's pictures."""

    kind: Literal["studio"]


class ChatClassifierConfig(RemoteConfig):
    """A vision-language model behind an endpoint.

    Attributes:
        questions: Question for each concept group, in place of the default question.
        cache: Cache of its answers. None disables it.
    """

    kind: Literal["chat"]
    questions: dict[Name, Name] = Field(default_factory=dict)
    cache: CacheConfig | None = None


class OnnxClassifierConfig(ConfigPart):
    """ONNX models that classify pictures.

    Attributes:
        groups: Entries of a ``PictureHead`` for each concept group.
    """

    kind: Literal["onnx"]
    groups: Annotated[dict[Name, Options], Field(min_length=1)]


class LexiconClassifierConfig(ConfigPart):
    """Words in texts.

    Attributes:
        words: Words by concept group and value.
    """

    kind: Literal["lexicon"]
    words: Annotated[WordLists, Field(min_length=1)]


class FunctionClassifierConfig(ConfigPart):
    """A function in a Python file.

    Attributes:
        function: Function as ``module:function``. It maps an ``Item`` to a value, or None, for every group.
    """

    kind: Literal["function"]
    function: FunctionName


class KeywordJudgeConfig(ConfigPart):
    """The keywords of the conditions.

    Attributes:
        fixed: Words that fix a value, by concept group and value. Default: the names of the values.
    """

    kind: Literal["keywords"]
    fixed: WordLists = Field(default_factory=dict)


class ChatJudgeConfig(RemoteConfig):
    """A language model behind an endpoint, asked the question that each condition has as ``judge``.

    Attributes:
        cache: Cache of its answers. None disables it.
    """

    kind: Literal["chat"]
    cache: CacheConfig | None = None


class FunctionJudgeConfig(ConfigPart):
    """Functions in Python files.

    Attributes:
        functions: Function for each condition as ``module:function``. It maps a prompt to True or False.
        fixed: Function for each concept group that checks whether a prompt fixes its value.
    """

    kind: Literal["function"]
    functions: Annotated[dict[Name, FunctionName], Field(min_length=1)]
    fixed: dict[Name, FunctionName] = Field(default_factory=dict)


def _needs(*places: str) -> AfterValidator:
    def check(given: str) -> str:
        for place in places:
            if place not in given:
                raise ValueError(f"{given!r} has no place for {place}")
        return given

    return AfterValidator(check)


class WordingConfig(ConfigPart):
    """Wording of an instruction.

    Attributes:
        template: Text added to a prompt, with ``{values}``. If it also contains ``{prompt}``, it replaces the prompt.
        part: Name of a value without its own words, with ``{value}`` and optionally ``{group}``.
        values: Words for a value by concept group and value, such as ``a woman``.
        either: Separator between alternative values.
        also: Separator between groups.
    """

    template: Annotated[Name, _needs("{values}")] = "(showing: {values})"
    part: Annotated[Name, _needs("{value}")] = "{group} {value}"
    values: dict[Name, dict[Name, Name]] = Field(default_factory=dict)
    either: Name = " or "
    also: Name = ", "


class LanguageConfig(WordingConfig):
    """Wording of an instruction in another language.

    Attributes:
        words: Words that identify the language of a prompt, such as ``ein, eine, der, die, und``.
    """

    words: Annotated[Names, Field(min_length=1)]


class InstructionConfig(WordingConfig):
    """Instructions added to prompts.

    Attributes:
        placement: Position of the instruction, after or before the prompt.
        languages: Wordings by language. The language with most words in the prompt is used, otherwise this wording.
        rewrite: Model that rewrites prompts. If it fails, the template is used.
    """

    placement: Literal["suffix", "prefix"] = "suffix"
    languages: dict[Name, LanguageConfig] = Field(default_factory=dict)
    rewrite: RemoteConfig | None = None


class GuardConfig(ConfigPart):
    """Configuration of a guard.

    Attributes:
        mode: ``before`` or ``after``. See ``Enforcer``.
        instruction: Wording of instructions.
        when_unsure: Reaction to a failure of the judge or the classifier: ``refuse``, or ``pass`` and record it.
        candidates: Number of items requested at once if a value is required. The first that fits is delivered.
        price: Prices of the generator.
        budget: Maximum cost.
    """

    mode: Literal["before", "after"] = "before"
    when_unsure: WhenUnsure = "refuse"
    instruction: InstructionConfig = Field(default_factory=InstructionConfig)
    candidates: Annotated[int, Field(ge=1, le=16)] = 1
    price: PriceConfig = PriceConfig()
    budget: BudgetConfig = BudgetConfig()

    @model_validator(mode="after")
    def _check_budget(self) -> GuardConfig:
        self.budget.check(self.price)
        return self


GeneratorConfig: TypeAlias = Annotated[
    StudioGeneratorConfig
    | ImagesGeneratorConfig
    | ChatGeneratorConfig
    | DiffusersGeneratorConfig
    | RecordedGeneratorConfig,
    Field(discriminator="kind"),
]
ClassifierConfig: TypeAlias = Annotated[
    StudioClassifierConfig
    | ChatClassifierConfig
    | OnnxClassifierConfig
    | LexiconClassifierConfig
    | FunctionClassifierConfig,
    Field(discriminator="kind"),
]
JudgeConfig: TypeAlias = Annotated[
    KeywordJudgeConfig | ChatJudgeConfig | FunctionJudgeConfig, Field(discriminator="kind")
]


def check_pipeline(
    generator: GeneratorConfig | None,
    classifier: ClassifierConfig | None,
    judge: JudgeConfig | None,
    *,
    groups: Mapping[str, tuple[str, ...]],
    conditions: Collection[str],
) -> None:
    """Check that the parts of a pipeline match the groups, values and conditions of its configuration.

    Args:
        generator, classifier, judge: Configurations of the parts. None if there is none.
        groups: Values by group.
        conditions: Names of the conditions.

    Raises:
        OptionError: A part names an unknown group, value or condition, or omits a required one.
    """
    if isinstance(generator, RecordedGeneratorConfig) and (generator.files is None) == (generator.folder is None):
        raise OptionError(
            "recorded items lie in files that are named, or in a folder",
            location="generator",
            hint="write files: [first.png, second.png], or folder: pictures",
        )
    for location, group, values, complete in _named_values(classifier, judge):
        known = groups.get(group)
        if known is None:
            raise OptionError(f"there is no group {group!r}", location=location, hint=f"one of: {', '.join(groups)}")
        missing = [value for value in known if value not in values]
        if complete and missing:
            raise OptionError(
                f"{group} {missing[0]!r} would never be told from others, and it must appear",
                location=location,
                hint=f"the values are {', '.join(known)}; answered are {', '.join(values)}",
            )
        unknown = [value for value in values if value not in known]
        if unknown and not isinstance(classifier, OnnxClassifierConfig):
            raise OptionError(
                f"{group} has no value {unknown[0]!r}", location=location, hint=f"one of: {', '.join(known)}"
            )
    covered = _classified_groups(classifier)
    for group in groups:
        if covered is not None and group not in covered:
            raise OptionError(
                f"nothing would tell which {group} an item shows",
                location="classifier",
                hint=f"this one answers for {', '.join(covered)}",
            )
    if isinstance(judge, FunctionJudgeConfig):
        _check_judge_functions(judge, groups, conditions)


def _named_values(
    classifier: ClassifierConfig | None, judge: JudgeConfig | None
) -> Iterator[tuple[str, str, Collection[str], bool]]:
    """Yield each location that names a group, with the group, its values, and whether all are required."""
    if isinstance(classifier, LexiconClassifierConfig):
        for group, words in classifier.words.items():
            yield f"classifier.words.{group}", group, words, True
    if isinstance(classifier, OnnxClassifierConfig):
        for group, described in classifier.groups.items():
            location = f"classifier.groups.{group}"
            yield location, group, _read_head(described, location).values, True
    if isinstance(classifier, ChatClassifierConfig):
        for group in classifier.questions:
            yield f"classifier.questions.{group}", group, (), False
    if isinstance(judge, KeywordJudgeConfig):
        for group, words in judge.fixed.items():
            yield f"judge.fixed.{group}", group, words, False


def _read_head(described: Mapping[str, Any], location: str) -> PictureHead:
    from evenhand.genai.classifiers.onnx_pictures import PictureHead

    return check_configuration(
        lambda: PictureHead.model_validate(described), PictureHead, location=location, hints=HINTS
    )


def _classified_groups(classifier: ClassifierConfig | None) -> Collection[str] | None:
    """Return the groups of the classifier. None if it accepts any group."""
    if isinstance(classifier, LexiconClassifierConfig):
        return classifier.words
    if isinstance(classifier, OnnxClassifierConfig):
        return classifier.groups
    return None


def _check_judge_functions(judge: FunctionJudgeConfig, groups: Collection[str], conditions: Collection[str]) -> None:
    missing = [name for name in conditions if name not in judge.functions]
    if missing:
        raise OptionError(
            f"nothing tells when {missing[0]!r} is asked for",
            location="judge.functions",
            hint=f"write {missing[0]}: module:function",
        )
    places: tuple[tuple[str, Mapping[str, str], Collection[str], str], ...] = (
        ("judge.functions", judge.functions, conditions, "condition"),
        ("judge.fixed", judge.fixed, groups, "group"),
    )
    for location, given, known, what in places:
        for name in given:
            if name not in known:
                raise OptionError(f"there is no {what} {name!r}", location=location, hint=f"one of: {', '.join(known)}")


# Hints for the entries of a generator's configuration.


HINTS = {
    "conditions": "write what is asked for, such as conditions: [{name: leader}]",
    "specifications": "write specifications: [{condition: leader, group: gender, values: [female, male], repeated: 6}]",
    "values": "write the values of the group, such as values: [female, male]",
    "repeated": "write within how many items every value appears, such as repeated: 6 or [5, 6, 6, 9]",
    "paired": "write the groups that are combined, such as paired: [age, gender]",
    "simulation.generator": "write the probability of every value, such as generator: {gender: [0.2, 0.8]}",
    "name": 'names are texts, such as name: "leader"',
    "condition": "name one of the conditions",
    "group": "name a group of concepts, such as group: gender",
    "groups": "write the values of every group, such as groups: {gender: [female, male]}",
    "generator": "write what makes items, such as generator: {kind: studio}",
    "classifier": "write what looks at items, such as classifier: {kind: studio}",
    "judge": "write what reads prompts, such as judge: {kind: keywords}",
    "guard": "write guard: {mode: before, when_unsure: refuse}",
    "instruction": "write instruction: {template: 'It shows {values}.', values: {gender: {woman: a woman}}}",
    "template": "write where the values stand: template: '(showing: {values})'",
    "part": "write where the value stands: part: '{group} {value}'",
    "rewrite": "name a chat model: rewrite: {url: http://127.0.0.1:8080/v1, model: llama}",
    "languages": "write languages: {de: {words: [ein, eine, der, die, und], template: '(zu sehen: {values})'}}",
    "price": "write what the generator charges, such as price: {item: 0.04}",
    "tokens": "write what a million tokens cost, read and written, such as tokens: [0.15, 0.60]",
    "budget": "write what may be spent, such as budget: {request: 0.20, day: 50}",
    "cache": "write how many answers are remembered, and where: cache: {entries: 10000, file: answers.jsonl}",
    "candidates": "write a whole number from 1 to 16, at most one more than retries under simulation",
    "url": "write where it answers, such as url: http://127.0.0.1:8080/v1",
    "model": "name the model, such as model: llava",
    "key": "name the variable that holds the key, such as key: OPENAI_API_KEY, and never the key itself",
    "options": "write names and what is sent for them, such as options: {size: 512x512}",
    "bias": "write weights of the values, such as bias: {age: {child: 0.05, adult: 0.9}}",
    "share": "write a share from 0 to 1",
    "obeys": "write a share from 0 to 1",
    "unrecognised": "write a share from 0 to 1",
    "timeout": "write seconds, more than 0",
    "seed": "write a whole number, 0 or more",
    "steps": "write a whole number, 1 or more",
    "threshold": "write a share from 0 to 1",
    "files": "write files: [first.png, second.png]",
    "file": "name a file, such as file: gender.onnx",
    "labels": "write what its outputs mean, in their order, such as labels: [female, male]",
    "words": "write words of every value, such as words: {gender: {female: [she, her], male: [he, his]}}",
    "fixed": "write what fixes a value, such as fixed: {gender: {female: [woman, lady], male: [man]}}",
    "judge.function.fixed": "write functions by group, such as fixed: {gender: prompts:says_gender}",
    "samples": "name a file with the columns true and said, such as samples: {gender: sample.csv}",
    "tolerated": "write tolerated: {labels: 0.05, misses: 0.01, requests: 100000}",
    "function": "write function: module:function",
    "functions": "write functions by condition, such as functions: {leader: prompts:is_leader}",
}
"""Examples for entries that no type or range explains, by name."""
