"""Builds what a configuration describes: what makes items, what looks at them, and what reads prompts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand.errors import DataError, EvenhandError, OptionError, TrustError
from evenhand.genai import equipment as described
from evenhand.genai.backends import GROUPS, Generator, Playback, Studio
from evenhand.genai.classify import Classifier, ClassifierFunction, Lexicon, StudioPixels
from evenhand.genai.core import Enforcer
from evenhand.genai.guard import Guard, Keeper
from evenhand.genai.judge import Judge, JudgeFunctions, KeywordJudge
from evenhand.genai.specification import Configuration

if TYPE_CHECKING:
    from evenhand.genai.backends.chat import OpenAIChat
    from evenhand.genai.backends.wire import Wire


@dataclass(frozen=True)
class Workbench:
    """What a guard needs besides its keeper."""

    configuration: Configuration
    generator: Generator
    classifier: Classifier
    judge: Judge

    def guard(self, keeper: Keeper | None = None, *, generator: Generator | None = None) -> Guard:
        """A guard around the generator, in the way that is configured.

        Args:
            keeper: by default an ``Enforcer`` of the configuration.
            generator: instead of the one here.
        """
        about = self.configuration
        return Guard(
            Enforcer(about, mode=about.guard.mode) if keeper is None else keeper,
            self.generator if generator is None else generator,
            self.classifier,
            self.judge,
            groups=about.values,
            when_unsure=about.guard.when_unsure,
        )


def build(configuration: Configuration, *, trust: bool = False, folder: Path | str = ".") -> Workbench:
    """What a configuration describes, ready to be used.

    Args:
        trust: whether functions that it names, and code in models, may be run.
        folder: where the files are that it names; the folder of the configuration.

    Raises:
        OptionError: the generator or the classifier is not described, or cannot be what is described.
        TrustError: it names functions, and they are not trusted.
        MissingExtraError: it needs an optional part that is not installed.
    """
    check_studio(configuration)
    return Workbench(
        configuration,
        generator_of(configuration, trust=trust, folder=folder),
        classifier_of(configuration, trust=trust, folder=folder),
        judge_of(configuration, trust=trust, folder=folder),
    )


def generator_of(configuration: Configuration, *, trust: bool = False, folder: Path | str = ".") -> Generator:
    """The generator that is described.

    Raises:
        EvenhandError: as ``build``.
    """
    wanted = configuration.generator
    if wanted is None:
        raise OptionError("nothing makes items", where="generator", mend="write generator: {kind: studio}, or another")
    with _about("generator"):
        match wanted:
            case described.StudioGenerator():
                return Studio(
                    wanted.bias, obeys=wanted.obeys, unrecognised=wanted.unrecognised, seed=wanted.seed
                )  # fmt: skip
            case described.RecordedGenerator():
                return Playback.of_files(_recorded(wanted, Path(folder)))
            case described.ImagesGenerator():
                from evenhand.genai.backends.images import OpenAIImages

                return OpenAIImages(_wire(wanted), wanted.model, wanted.options)
            case described.ChatGenerator():
                return _chat(wanted, wanted.system)
            case described.DiffusersGenerator():
                from evenhand.genai.backends.local_diffusion import LocalDiffusion

                return LocalDiffusion(
                    Path(folder, wanted.model), steps=wanted.steps, device=wanted.device, seed=wanted.seed,
                    precision=wanted.precision, options=wanted.options, trust=trust,
                )  # fmt: skip


def classifier_of(configuration: Configuration, *, trust: bool = False, folder: Path | str = ".") -> Classifier:
    """The classifier that is described.

    Raises:
        EvenhandError: as ``build``.
    """
    wanted = configuration.classifier
    groups = configuration.values
    if wanted is None:
        raise OptionError(
            "nothing looks at items", where="classifier", mend="write classifier: {kind: studio}, or another"
        )
    with _about("classifier"):
        match wanted:
            case described.StudioClassifier():
                return StudioPixels()
            case described.LexiconClassifier():
                return Lexicon(wanted.words)
            case described.FunctionClassifier():
                return ClassifierFunction(_imported(wanted.function, trust, Path(folder)), groups)
            case described.ChatClassifier():
                from evenhand.genai.classify.vision import ChatClassifier

                return ChatClassifier(_chat(wanted), groups, wanted.questions)
            case described.OnnxClassifier():
                from evenhand.genai.classify.onnx_pictures import OnnxPictures

                return OnnxPictures(wanted.groups, folder=folder)


def judge_of(configuration: Configuration, *, trust: bool = False, folder: Path | str = ".") -> Judge:
    """The judge that is described; by keywords if none is.

    Raises:
        EvenhandError: as ``build``.
    """
    wanted = configuration.judge
    with _about("judge"):
        match wanted:
            case None:
                return KeywordJudge.of(configuration)
            case described.KeywordsJudge():
                return KeywordJudge.of(configuration, wanted.fixed)
            case described.FunctionJudge():
                functions, fixed = (
                    {name: _imported(one, trust, Path(folder)) for name, one in given.items()}
                    for given in (wanted.functions, wanted.fixed)
                )
                return JudgeFunctions(functions, fixed)
            case described.ChatJudging():
                from evenhand.genai.judge.chat import ChatJudge

                return ChatJudge.of(configuration, _chat(wanted))


def check_studio(configuration: Configuration) -> None:
    """Raises an OptionError if the studio, drawing or looking, does not know what is to be kept."""
    for place, part in (("generator", configuration.generator), ("classifier", configuration.classifier)):
        if isinstance(part, described.StudioGenerator | described.StudioClassifier):
            for group, values in configuration.values.items():
                missing = [value for value in values if value not in GROUPS.get(group, ())]
                if missing:
                    raise OptionError(
                        f"the studio knows no {group} {missing[0]!r}",
                        where=place,
                        mend="; ".join(f"{known}: {', '.join(names)}" for known, names in GROUPS.items()),
                    )


@contextmanager
def _about(place: str) -> Iterator[None]:
    """Errors say which entry they are about."""
    try:
        yield
    except EvenhandError as error:
        if error.where is None or not error.where.startswith(place):
            error.where = place if error.where is None else f"{place}, {error.where}"
        raise


def _wire(remote: described.Remote) -> Wire:
    from evenhand.genai.backends.wire import Wire

    return Wire(remote.url, remote.key, timeout=remote.timeout)


def _chat(remote: described.Remote, system: str | None = None) -> OpenAIChat:
    from evenhand.genai.backends.chat import OpenAIChat

    return OpenAIChat(_wire(remote), remote.model, system, options=remote.options)


def _recorded(wanted: described.RecordedGenerator, folder: Path) -> list[Path]:
    if wanted.files is not None:
        return [Path(folder, name) for name in wanted.files]
    place = Path(folder, wanted.folder or "")
    try:
        found = sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(place)) from None
    if not found:
        raise DataError("there is nothing in the folder", where=str(place))
    return found


def _imported(name: str, trust: bool, folder: Path) -> Callable[..., Any]:
    """The function that ``module:function`` means; modules lie in the configuration's folder, or are installed."""
    if not trust:
        raise TrustError(
            f"the function {name} would be run",
            mend="if you know where the configuration comes from: --trust (in Python: trust=True)",
        )
    from evenhand.models.function import from_import

    here = str(folder.absolute())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = from_import(name)
    if not callable(found):
        raise OptionError(f"{name} cannot be called")
    function: Callable[..., Any] = found
    return function
