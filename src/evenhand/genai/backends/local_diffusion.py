"""Pictures from a diffusion model that lies in a folder on this machine, run in this process by diffusers.

Nothing is downloaded unless that is asked for, and weights that could run code when they are loaded are refused.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError, OptionError, TrustError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item

Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

_PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "bfloat16")

_LIBRARIES = frozenset({"diffusers", "transformers"})

_PICKLED_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")

_RESERVED_OPTIONS = frozenset(
    {"prompt", "generator", "num_inference_steps", "output_type", "num_images_per_prompt", "return_dict"}
)
"""Arguments of a pipeline that options do not decide about."""


class LocalDiffusion:
    """A text-to-image pipeline of diffusers as a generator. One picture is made at a time, also for many threads.

    A picture depends on the seed, on how many were made before, and on the prompt; on one machine and one version of
    PyTorch, that is.

    Args:
        model: the folder, as ``pipeline.save_pretrained`` writes it.
        steps: of denoising; more is better and slower.
        device: such as ``cpu`` or ``cuda``.
        seed: of the noise.
        options: further arguments for every call of the pipeline, such as ``{"height": 512, "width": 512}``.
        precision: of its numbers; half as long ones are for graphics cards.
        download: whether ``model`` may also be a name that is looked up, and downloaded, at the Hugging Face hub.
        trust: whether weights and classes are loaded that could run code.

    Raises:
        OptionError: an option, a device or a number that makes no sense.
        ModelError: the folder holds no pipeline that makes pictures for prompts, or it cannot be loaded.
        TrustError: it could run code when it is loaded, and is not trusted.
        MissingExtraError: diffusers or what it needs is not installed.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        steps: int = 20,
        device: str = "cpu",
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
        precision: Precision = "float32",
        download: bool = False,
        trust: bool = False,
    ) -> None:
        if steps < 1:
            raise OptionError(f"{steps} steps make no picture", location="steps", hint="Give a number from 1.")
        if precision not in _PRECISIONS:
            raise OptionError(f"there is no precision {precision!r}", hint=f"one of: {', '.join(_PRECISIONS)}")
        folder = Path(model)
        if folder.is_dir():
            if not trust:
                _refuse_code(folder)
        elif not download:
            raise ModelError(
                "there is no such folder",
                location=str(model),
                hint="Nothing is downloaded by itself: save a pipeline there with save_pretrained.",
            )
        self.name = folder.name
        self._pipeline = _load_pipeline(model, device, precision, download=download, trust=trust)
        self._steps, self._seed = steps, seed
        self._options = dict(options or {})
        self._check_options()
        self._made = self._failed = 0
        self._one_at_a_time = threading.Lock()

    def _check_options(self) -> None:
        arguments = inspect.signature(self._pipeline.__call__).parameters
        known = {name for name, one in arguments.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
        if not {"prompt", "generator", "num_inference_steps", "output_type"} <= known:
            raise ModelError(f"a {type(self._pipeline).__name__} makes no pictures for prompts", location=self.name)
        for option in self._options:
            if option in _RESERVED_OPTIONS or option not in known:
                choice = ", ".join(sorted(known - _RESERVED_OPTIONS))
                raise OptionError(
                    f"the pipeline takes no option {option!r}", location="options", hint=f"it takes {choice}"
                )

    def resume(self, made: int) -> None:
        """Go on as if so many pictures had been made already."""
        with self._one_at_a_time:
            self._made, self._failed = made, 0

    def generate(self, prompt: str) -> Item:
        """Return the next picture, as PNG.

        Raises:
            ModelError: the pipeline failed, or its own safety checker withheld the picture.
        """
        with self._one_at_a_time:
            noise = [self._seed, self._made, self._failed]
            # What failed is tried again with other noise, and the pictures after it are the same as without.
            self._failed += 1
            pixels = self._draw(prompt, noise)
            self._made, self._failed = self._made + 1, 0
        return Item("image", pictures.write_png(pixels), "image/png")

    def _draw(self, prompt: str, noise: list[int]) -> pictures.Pixels:
        import torch

        # A number of its own for each picture, which says nothing about the next one's.
        seed = int(np.random.SeedSequence(noise).generate_state(1, np.uint64)[0] >> np.uint64(1))
        try:
            # Noise from the processor is the same whatever the device.
            made = self._pipeline(
                prompt=prompt,
                generator=torch.Generator("cpu").manual_seed(seed),
                num_inference_steps=self._steps,
                output_type="np",
                **self._options,
            )
        except Exception as error:
            raise ModelError(f"the pipeline failed: {summarize_error(error)}", location=self.name) from error
        if any(getattr(made, "nsfw_content_detected", None) or ()):
            raise ModelError("the model's own safety checker withheld the picture", location=self.name)
        pixels = np.asarray(made.images[0], dtype=np.float64)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or not np.isfinite(pixels).all():
            raise ModelError(
                f"the pipeline made no picture but numbers of shape {pixels.shape}, or none", location=self.name
            )
        colours: pictures.Pixels = np.rint(255 * pixels.clip(0, 1)).astype(np.uint8)
        return colours


def _refuse_code(folder: Path) -> None:
    """Raise a TrustError where a part of a pipeline is not a class of the two libraries, or its weights are pickled."""
    index = folder / "model_index.json"
    try:
        described = json.loads(index.read_text("utf-8"))
        parts = {name: part for name, part in described.items() if not name.startswith("_")}
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(
            "the folder holds no pipeline of diffusers",
            location=str(folder),
            hint="It needs a model_index.json, as save_pretrained writes.",
        ) from error
    hint = "Trust it only if you know where it is from."
    if not isinstance(described.get("_class_name"), str):
        raise TrustError("the pipeline's class is code of its own", location=index.name, hint=hint)
    for name, part in parts.items():
        library = part[0] if isinstance(part, list) and part else None
        if library is None:
            continue
        if library not in _LIBRARIES and not _is_diffusers_module(library):
            raise TrustError(f"the part {name} would be loaded by {library!r}", location=index.name, hint=hint)
        files = [path.name for path in (folder / name).glob("*") if path.is_file()]
        pickled = [file for file in files if file.endswith(_PICKLED_SUFFIXES)]
        if pickled and not any(file.endswith(".safetensors") for file in files):
            raise TrustError(
                f"the weights of {name} are pickled ({pickled[0]}), which can run code when it is loaded",
                location=str(folder),
                hint="Save it again with save_pretrained(..., safe_serialization=True), or trust it.",
            )


def _is_diffusers_module(library: Any) -> bool:
    """Return whether it is a module of pipelines in diffusers, which brings parts of its own."""
    try:
        import diffusers.pipelines
    except ImportError:
        raise _missing_library_error("diffusers") from None
    return isinstance(library, str) and library.isidentifier() and hasattr(diffusers.pipelines, library)


def _missing_library_error(module: str) -> MissingExtraError:
    return MissingExtraError(module, extra="diffusers", purpose="to run a diffusion model")


def _load_pipeline(model: str | Path, device: str, precision: Precision, *, download: bool, trust: bool) -> Any:
    try:
        import torch
        import transformers  # noqa: F401 - diffusers does without, until a pipeline has a part of it
        from diffusers import DiffusionPipeline
    except ImportError as error:
        raise _missing_library_error(error.name or "diffusers") from error
    try:
        place = torch.device(device)
    except RuntimeError:
        raise OptionError(f"there is no device {device!r}", location="device", hint="Give cpu or cuda.") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise OptionError("PyTorch finds no graphics card here", location="device", hint="Give cpu.")
    try:
        with _without_bars():
            pipeline = DiffusionPipeline.from_pretrained(
                str(model),
                use_safetensors=None if trust else True,
                local_files_only=not download,
                trust_remote_code=trust,
                low_cpu_mem_usage=False,
                dtype=getattr(torch, precision),
            ).to(place)
    except Exception as error:
        raise ModelError(f"diffusers cannot load it: {summarize_error(error)}", location=str(model)) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@contextmanager
def _without_bars() -> Iterator[None]:
    """Turn the progress bars of both libraries off, since they would be drawn over the screen."""
    from diffusers.utils import logging as of_diffusers
    from transformers.utils import logging as of_transformers

    shown = [library for library in (of_diffusers, of_transformers) if library.is_progress_bar_enabled()]
    for library in shown:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in shown:
            library.enable_progress_bar()
