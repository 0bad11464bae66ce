"""Picture generator with a local diffusion model, run in this process with diffusers.

Nothing is downloaded. Weights and classes that could run code when they are loaded are refused.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.errors import MissingExtraError, ModelError, OptionError, TrustError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item

Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]

_PICKLED_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".pkl")

_FIXED_ARGUMENTS = frozenset({"prompt", "generator", "num_inference_steps", "output_type"})
"""Arguments that every text-to-image pipeline takes."""

_RESERVED_OPTIONS = _FIXED_ARGUMENTS | {"num_images_per_prompt", "return_dict"}
"""Arguments of a pipeline that are not options."""


class LocalDiffusion:
    """Generator with a text-to-image pipeline of diffusers. Pictures are generated one at a time, even if threads share
    the generator.

    A picture depends on the seed, on the number of earlier pictures, and on the prompt, for a given machine and version
    of PyTorch.

    Args:
        model: Folder written by ``pipeline.save_pretrained``.
        steps: Number of denoising steps.
        device: Device, such as ``cpu`` or ``cuda``.
        seed: Seed of the noise.
        options: Further arguments of the pipeline, such as ``{"height": 512, "width": 512}``.
        precision: Floating-point type.
        trust: Whether to load weights and classes that could run code.

    Raises:
        OptionError: An option, a device or a number is invalid.
        ModelError: The folder contains no text-to-image pipeline, or it cannot be loaded.
        TrustError: Loading could run code, and is not trusted.
        MissingExtraError: diffusers or one of its requirements is not installed.
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
        trust: bool = False,
    ) -> None:
        if steps < 1:
            raise OptionError(f"steps must be at least 1, got {steps}", location="steps")
        folder = Path(model)
        self.name = folder.name
        self._pipeline = _load_pipeline(folder, device, precision, trust=trust)
        self._steps, self._seed, self._options = steps, seed, dict(options or {})
        self._check_options()
        self._made = self._failed = 0
        self._lock = threading.Lock()

    def _check_options(self) -> None:
        arguments = inspect.signature(self._pipeline.__call__).parameters
        names = {name for name, argument in arguments.items() if argument.kind is not argument.VAR_KEYWORD}
        if not names >= _FIXED_ARGUMENTS:
            raise ModelError(f"a {type(self._pipeline).__name__} is not a text-to-image pipeline", location=self.name)
        names -= _RESERVED_OPTIONS
        for option in self._options:
            if option not in names:
                raise OptionError(
                    f"the pipeline takes no option {option!r}",
                    location="options",
                    hint=f"use {', '.join(sorted(names))}",
                )

    def resume(self, made: int) -> None:
        """Continue after ``made`` pictures."""
        with self._lock:
            self._made, self._failed = made, 0

    def generate(self, prompt: str) -> Item:
        """Generate the next picture in PNG. Raises a ModelError if the pipeline failed or withheld the picture."""
        with self._lock:
            noise = [self._seed, self._made, self._failed]
            # A failed picture is repeated with different noise, which does not change later pictures.
            self._failed += 1
            pixels = self._draw(prompt, noise)
            self._made, self._failed = self._made + 1, 0
        return Item("image", pictures.write_png(pixels), "image/png")

    def _draw(self, prompt: str, noise: list[int]) -> pictures.Pixels:
        import torch

        # Each picture has an independent seed.
        seed = int(np.random.SeedSequence(noise).generate_state(1, np.uint64)[0] >> np.uint64(1))
        try:
            # Noise is generated on the CPU, so it is the same for all devices.
            result = self._pipeline(
                prompt=prompt,
                generator=torch.Generator("cpu").manual_seed(seed),
                num_inference_steps=self._steps,
                output_type="np",
                **self._options,
            )
        except Exception as error:
            raise ModelError(f"the pipeline failed: {summarize_error(error)}", location=self.name) from error
        if any(getattr(result, "nsfw_content_detected", None) or ()):
            raise ModelError("the model's own safety checker withheld the picture", location=self.name)
        pixels = np.asarray(result.images[0], dtype=np.float64)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or not np.isfinite(pixels).all():
            raise ModelError(
                f"expected a picture with three colours, got numbers of shape {pixels.shape}", location=self.name
            )
        colours: pictures.Pixels = np.rint(255 * pixels.clip(0, 1)).astype(np.uint8)
        return colours


def _load_pipeline(folder: Path, device: str, precision: Precision, *, trust: bool) -> Any:
    try:
        import diffusers
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            error.name or "diffusers", extra="diffusers", purpose="to run a diffusion model"
        ) from error
    dtype = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}.get(precision)
    if dtype is None:
        raise OptionError(f"unknown precision {precision!r}", hint="use float32, float16 or bfloat16")
    try:
        place = torch.device(device)
    except RuntimeError:
        raise OptionError(f"unknown device {device!r}", location="device", hint="use cpu or cuda") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise OptionError("PyTorch finds no graphics card", location="device", hint="use cpu")
    if not trust:
        _refuse_code(folder, diffusers)
    with ExitStack() as after:
        for bars in (diffusers.utils.logging, transformers.utils.logging):
            if bars.is_progress_bar_enabled():
                bars.disable_progress_bar()
                after.callback(bars.enable_progress_bar)
        try:
            pipeline = diffusers.DiffusionPipeline.from_pretrained(
                str(folder.absolute()),
                use_safetensors=None if trust else True,
                local_files_only=True,
                trust_remote_code=trust,
                low_cpu_mem_usage=False,
                dtype=dtype,
            ).to(place)
        except Exception as error:
            raise ModelError(f"diffusers cannot load it: {summarize_error(error)}", location=str(folder)) from error
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def _refuse_code(folder: Path, diffusers: Any) -> None:
    """Raise a TrustError if a part of a pipeline has a class from another library or pickled weights."""
    try:
        parts = json.loads((folder / "model_index.json").read_text("utf-8"))
        name = parts["_class_name"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            "expected a folder with a pipeline of diffusers",
            location=str(folder),
            hint="save the pipeline there with save_pretrained; models are not downloaded",
        ) from error
    hint = "trust it only if you know its origin"
    if not isinstance(name, str):
        raise TrustError("the class of the pipeline is custom code", location=str(folder), hint=hint)
    for name, part in parts.items():
        if name.startswith("_") or not isinstance(part, list) or not part or part[0] is None:
            continue
        # Parts of a single pipeline are in its module of diffusers.
        library = str(part[0])
        is_module = library.isidentifier() and hasattr(diffusers.pipelines, library)
        if library not in ("diffusers", "transformers") and not is_module:
            raise TrustError(f"the part {name} would be loaded by {library!r}", location=str(folder), hint=hint)
        files = [path.name for path in (folder / name).glob("*")]
        pickled = [file for file in files if file.endswith(_PICKLED_SUFFIXES)]
        if pickled and not any(file.endswith(".safetensors") for file in files):
            raise TrustError(
                f"the weights of {name} are pickled ({pickled[0]}), which can run code when it is loaded",
                location=str(folder),
                hint="save it again with save_pretrained(..., safe_serialization=True), or trust it",
            )
