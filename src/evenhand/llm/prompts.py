"""Prompts from templates: a safe subset of Jinja with values, conditions and loops over lists.

Templates may come from untrusted files. They cannot access Python's internals, files or the network, and their time and
memory are bounded: there are no assignments, macros or nested loops,
values have the methods listed here, and the result has a limited size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from evenhand.core.text import suggest_name
from evenhand.errors import OptionError
from evenhand.schema.table import is_missing, plain_value

MAX_TEMPLATE = 200_000
"""Maximum number of characters of a template."""

MAX_PROMPT = 1_000_000
"""Maximum number of characters of a prompt."""

UNKNOWN = "unknown"
"""Text of a missing value in a prompt."""

_BRACED = re.compile(r"(?<!\{)\{\s*(\w[^{}\"':,.]*?)\s*(?:\.\w+\s*)?\}(?!\})")
"""Name in single braces, which templates do not replace."""

_NODES = frozenset(
    re.findall(
        r"\w+",
        "Template Output TemplateData Const Name Getattr Getitem Slice If CondExpr For Filter Test Call Keyword "
        "Compare Operand And Or Not Add Sub Mul Div FloorDiv Neg Pos Concat List Tuple Dict Pair",
    )
)
"""Types of syntax nodes that templates may contain."""

_FILTERS = re.findall(
    r"\w+",
    "abs capitalize default d first float int last length count list lower min max round sort string sum title trim "
    "unique upper wordcount",
)
"""Filters that templates may use."""

_METHODS = frozenset(
    re.findall(
        r"\w+", "capitalize endswith get items keys lower lstrip rstrip split startswith strip title upper values"
    )
)
"""Methods that templates may call."""


class Prompt(NamedTuple):
    """System prompt and question."""

    system: str
    text: str

    @property
    def size(self) -> int:
        """Number of characters."""
        return len(self.system) + len(self.text)


Template = Callable[[Mapping[str, Any]], str]
"""Render the text from values by name."""


@cache
def compile_template(source: str, location: str) -> Template:
    """Compile a template to a function of values by name.

    Args:
        source: Text of the template.
        location: Entry of the file in error messages.

    Raises:
        OptionError: The text is not a template or uses a forbidden feature. The function raises it for an undefined
            name and for a defined name in single braces.
    """
    from jinja2 import StrictUndefined, TemplateError, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset("*")

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            is_basic = isinstance(obj, str | bytes | int | float | list | tuple | Mapping)
            return super().is_safe_attribute(obj, attr, value) and (attr in _METHODS or not is_basic)

        def wrap_str_format(self, value: Any) -> None:
            """Reject ``format``, since its widths could exhaust memory."""

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if not isinstance(left, int | float) or not isinstance(right, int | float):
                raise OptionError("only numbers can be multiplied", location=location)
            return super().call_binop(context, operator, left, right)

    def fail(message: str, line: int | None = None, hint: str = "") -> OptionError:
        return OptionError(message, location=location if line is None else f"{location}, line {line}", hint=hint)

    if len(source) > MAX_TEMPLATE:
        raise fail(f"a template may have at most {MAX_TEMPLATE:,} characters, got {len(source):,}")
    environment = Environment(undefined=StrictUndefined, finalize=_show, keep_trailing_newline=False, loader=None)
    environment.globals.clear()
    try:
        tree = environment.parse(source)
        for node in _walk(tree):
            kind = type(node).__name__
            if kind not in _NODES:
                raise fail(f"prompts support values, conditions and loops, but no {kind}", node.lineno)
            if isinstance(node, nodes.For) and (node.recursive or node.find(nodes.For)):
                raise fail("nested loops are not supported in prompts", node.lineno)
            if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
                hint = f"{suggest_name(node.name, _FILTERS)}known: {', '.join(_FILTERS)}"
                raise fail(f"there is no filter {node.name!r} in prompts", node.lineno, hint)
        texts = [text.data for text in tree.find_all(nodes.TemplateData)]
        template = environment.from_string(tree)
    except (TemplateError, RecursionError) as error:
        hint = "in braces, column names may contain only letters, digits and _. Rename other columns"
        raise fail(f"this is not a template: {error}", getattr(error, "lineno", None), hint) from None

    braced = {name.casefold(): name for text in texts for name in _BRACED.findall(text)}

    def require_double_braces(values: Mapping[str, Any]) -> None:
        """Check that every name with a value is in double braces."""
        name = next((name for name in values if name.casefold() in braced), None)
        if name is not None:
            message = f"{{{braced[name.casefold()]}}} in single braces is not replaced by {name!r}"
            raise fail(message, hint=f"write {{{{ {name} }}}}")

    def render(values: Mapping[str, Any]) -> str:
        length, parts = 0, []
        if braced:
            require_double_braces(values)
        try:
            for part in template.generate(values):
                length += len(part)
                if length > MAX_PROMPT:
                    raise fail(f"a prompt may have at most {MAX_PROMPT:,} characters, but this one is longer")
                parts.append(part)
        except OptionError:
            raise
        except TemplateError as error:
            raise fail(str(error), hint=f"available: {', '.join(sorted(values))}") from None
        except Exception as error:  # template expressions may raise any error
            raise fail(f"the template fails: {type(error).__name__}: {error}") from None
        return "".join(parts)

    return render


def _walk(node: Any) -> Any:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _show(value: object) -> object:
    """Format a value for a prompt: a placeholder for a missing cell, and integral floats without decimals. Integer
    columns with missing cells are stored as floats.
    """
    if is_missing(value):
        return UNKNOWN
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Convert the cells of a row to Python values. Missing cells become None."""
    return {str(name): None if is_missing(value) else plain_value(value) for name, value in row.items()}
