"""Options that several commands share, and functions to read DATA and to write results."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import typer

from evenhand import datasets, models, view
from evenhand.cli.factory import flag
from evenhand.core.files import write_atomically
from evenhand.core.interrupts import INTERRUPTED, RUNNING_SECONDS
from evenhand.errors import DataError, MissingExtraError, OptionError

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.core.document import Document
    from evenhand.core.reading import TableReading
    from evenhand.core.result import Result
    from evenhand.core.typing import Progress
    from evenhand.schema.outcome import OutcomeRole, TargetKind
    from evenhand.schema.people import People
    from evenhand.schema.schema import Schema

ResultT = TypeVar("ResultT", bound="Result")

PARAMETER = re.compile(r"`(\w+)=([^`]*)`")
"""Form in which errors name a parameter, such as `time_limit=SECONDS`."""

OPTIONS = {
    "calls": "budget",
    "constraints": "constraint",
    "findings": "from",
    "methods": "method",
    "metrics": "metric",
    "order": "kind",
    "policies": "policy",
    "results": "result",
    "sensitive_features": "protected",
    "tables": "table",
    "weights": "weight",
    "y_pred": "decision",
    "y_score": "score",
    "y_true": "target",
}
"""Options whose name differs from that of the parameter of the library."""

SCHEMA_OPTIONS = ("accept_proposals", "ignore", "kind")
"""Options of ``evenhand schema`` that other commands may lack."""


def name_options(text: str, options: Collection[str] | None = None) -> str:
    """Replace the parameters of the library in a message by the options of a command.

    Args:
        text: Message.
        options: Options of the command, such as ``--target``. If None, every option is named.
    """

    def replace_parameter(match: re.Match[str]) -> str:
        parameter, value = match[1], match[2]
        option = f"--{OPTIONS.get(parameter, parameter).replace('_', '-')}"
        typed = f"{option} {'' if value == 'True' else value}".rstrip()
        if options is None or option in options:
            return typed
        return f"`evenhand schema ... {typed}`" if parameter in SCHEMA_OPTIONS else f"{parameter}={value} in Python"

    return PARAMETER.sub(replace_parameter, text)


def refuse_options(reason: str, *, location: str | None = None, **options: object) -> None:
    """Refuse options that are set, such as ``--table``, for a reason such as "does not apply to texts"."""
    for name, value in options.items():
        if value not in (None, [], ()):
            raise OptionError(f"{flag(name)} {reason}", location=location, hint="leave it out")


def check_writable(path: Path, option: str) -> None:
    """Refuse a file that cannot be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"there is no folder {folder}", location=option, hint="create it first")
    if path.is_dir():
        raise OptionError(f"expected a file, got the folder {path}", location=option)


def check_file(param: typer.CallbackParam, path: Any) -> Any:
    """Callback of an option for a file to write, which is checked before any work is done."""
    if path not in (None, "-"):
        check_writable(Path(path), param.opts[0])
    return path


ProtectedOption = Annotated[list[str] | None, typer.Option(help="Protected attribute; may be repeated.")]
AcceptOption = Annotated[
    bool,
    typer.Option("--accept-proposals", help="Accept the proposals for columns that cannot be attributes as they are."),
]
IgnoreOption = Annotated[
    list[str] | None, typer.Option(help="Column that is not an attribute, e.g. an identifier; may be repeated.")
]
SeedOption = Annotated[int, typer.Option(min=0, help="Random seed.")]

ModelArgument = Annotated[
    str,
    typer.Argument(
        help="Model file (.npz .onnx .keras .h5 .pt .skops .pkl .joblib .json .ubj .txt .cbm), http(s) URL, or "
        "module:function; for texts also the folder of a Hugging Face classifier."
    ),
]
DATA_HELP = (
    "CSV, JSON lines (.jsonl), Parquet or Excel (.xlsx) file, folder or pattern of Parquet files, DuckDB table "
    "(duckdb:///FILE?table=NAME), or name of a data set."
)
DataArgument = Annotated[str, typer.Argument(help=DATA_HELP)]
ConfigOption = Annotated[Path, typer.Option(help="Configuration: a YAML or TOML file.")]
TrustFunctionsOption = Annotated[bool, typer.Option("--trust", help="Run the functions that the configuration names.")]


@dataclass(frozen=True)
class TableOptions:
    """Options for reading DATA."""

    sheet: str | None = typer.Option(None, help="Sheet of an Excel workbook; by default the only sheet with data.")

    def read_table(self, data: str, *, schema: Path | None = None, words: bool = False) -> DataSource:
        """Read DATA. A data set has its own schema.

        Args:
            data: File, folder, pattern, DuckDB table or name of a data set.
            schema: Schema file.
            words: Whether every cell of a file is read as a word.
        """
        from evenhand.datasets.rows import is_text_table, names_rows
        from evenhand.schema.schema import read_schema

        described = read_schema(schema) if schema is not None else None
        is_pattern = names_rows(data)
        if not is_pattern and not Path(data).exists():
            if data in datasets.dataset_names():
                dataset = datasets.load_dataset(data)
                return DataSource(dataset.frame, described or dataset.schema, f"data set {data}")
            raise OptionError(
                f"there is no file {data!r}, and no data set of that name",
                hint="pass a CSV, JSON lines, Parquet or Excel file, a folder of Parquet files, or one of: "
                f"{', '.join(datasets.dataset_names())}",
            )
        frame = datasets.read_frame(data, sheet=self.sheet, words=words)
        name = data if is_pattern else Path(data).name
        return DataSource(frame, described, name, untyped=is_text_table(data))


@dataclass(frozen=True)
class SourceOptions(TableOptions):
    """Options for reading DATA with a schema."""

    schema: Path | None = typer.Option(None, help="Schema file (YAML); by default inferred from the data.")

    def read(self, data: str) -> DataSource:
        """Read DATA with its own schema, or that of ``--schema``."""
        return self.read_table(data, schema=self.schema)


@dataclass(frozen=True)
class ModelOptions(SourceOptions):
    """Options for reading DATA and a model."""

    trust: bool = typer.Option(
        False, "--trust", help="Load model files that can run code (pickle, joblib, full PyTorch objects)."
    )
    output: Literal["probability", "logit", "score"] | None = typer.Option(
        None,
        "--output",
        metavar="KIND",
        help="Kind of the model's output: probability, logit or score; by default inferred from its values.",
    )


@dataclass(frozen=True)
class RoleOptions:
    """Roles of the columns of DATA."""

    target: str | None = typer.Option(None, help="Column of the true label or number.")
    protected: ProtectedOption = None
    favourable: str | None = typer.Option(
        None, "--favourable", "--favorable", help="Favourable label. For numbers: higher or lower."
    )
    kind: str | None = typer.Option(
        None,
        help="Kind of decision: label, labels (each is compared), number, or grades such as 'low < medium < high'; by "
        "default inferred from the column.",
    )

    @property
    def outcome(self) -> OutcomeRole:
        """Description of the outcome."""
        from evenhand.schema.outcome import OutcomeRole

        grades = tuple(grade.strip() for grade in (self.kind or "").split(" < "))
        return OutcomeRole(None, grades) if len(grades) > 1 else OutcomeRole(cast("TargetKind | None", self.kind))


@dataclass(frozen=True)
class DataOptions(RoleOptions, ModelOptions):
    """Options for reading the people of DATA, and a model."""

    ignore: IgnoreOption = None
    seed: SeedOption = 0

    def encode(self, source: DataSource, *, varied: bool = True, accept_proposals: bool = False) -> People:
        """Encode the people of DATA; ``varied`` if their protected attributes will be varied."""
        from evenhand.schema.people import ColumnRoles

        roles = ColumnRoles(
            self.target,
            self.protected,
            self.favourable,
            ignore=self.ignore,
            schema=source.schema,
            outcome=self.outcome,
            accept_proposals=accept_proposals,
        )
        return replace(roles.read(source.frame, location=source.name, varied=varied), untyped=source.untyped)

    def read_subject(self, model: str, data: str, progress: Progress, **encoding: bool) -> models.Subject:
        """Read MODEL and the people of DATA. The settings of ``encode`` are passed on."""
        progress("reading the people", 0.0)
        requested = RUNNING_SECONDS()
        source = self.read(data)
        people = self.encode(source, **encoding)
        return models.Subject(
            model, people, data_name=source.name, trust=self.trust, output=self.output, requested=requested
        )


@dataclass(frozen=True)
class OutputOptions:
    """Output of a command."""

    json: str | None = typer.Option(
        None, callback=check_file, metavar="FILE", help="File for the result as JSON; - is standard output."
    )
    quiet: bool = typer.Option(False, "--quiet", help="Print only errors.")
    verbose: bool = typer.Option(
        False, "--verbose", help="Print the explanations of all numbers, instead of at most 40 lines."
    )

    @property
    def silent(self) -> bool:
        """Whether to print only JSON, or nothing."""
        return self.quiet or self.json == "-"

    def progress(self) -> AbstractContextManager[Progress]:
        """Show progress at a terminal, unless the output is silent."""
        return view.show_progress(quiet=self.silent)

    def emit(self, text: str) -> None:
        """Write JSON to the file of ``--json``, or to standard output."""
        if self.json == "-":
            sys.stdout.write(text.rstrip("\n") + "\n")
        elif self.json is not None:
            save_text(Path(self.json), text.rstrip("\n") + "\n", "--json")

    def show(self, document: Callable[[], Document], written: Sequence[Path] = ()) -> None:
        """Print a document and the names of the written files, unless the output is silent."""
        if not self.silent:
            view.show_document(document(), written=written, verbose=self.verbose)

    def write_files(self, result: Result, document: Callable[[], Document]) -> list[Path]:
        """Write the files of other options, and return them."""
        return []

    def finish(
        self,
        result: Result,
        document: Callable[[], Document] | None = None,
        written: Sequence[Path] = (),
        *,
        interrupted: bool = False,
    ) -> None:
        """Write and print a result.

        Args:
            result: Result.
            document: Function that builds its document. Default: ``result.document``.
            written: Files that were written before.
            interrupted: Whether the command exits with the code of an interrupt.
        """
        document = document or result.document
        files = [*written, *self.write_files(result, document)]
        if self.json is not None:
            self.emit(result.to_json())
        self.show(document, files)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


@dataclass(frozen=True)
class PageOptions(OutputOptions):
    """Output of a command, with an HTML page."""

    html: Path | None = typer.Option(None, callback=check_file, help="File for the report as an HTML page.")

    def write_files(self, result: Result, document: Callable[[], Document]) -> list[Path]:
        """Write the page, and return its path."""
        if self.html is None:
            return []
        view.write_page(view.render_page(document()), self.html)
        return [self.html]


TABLES = (".csv", ".csv.gz", ".csv.xz", ".csv.zst", ".parquet")
"""File extensions of tables that can be written."""


@dataclass(frozen=True)
class FindingsOptions(PageOptions):
    """Output of a command, with an HTML page and a table."""

    table: Path | None = typer.Option(None, callback=check_file, help="File for all findings: .csv or .parquet.")

    def check(self) -> None:
        """Refuse a table in an unknown format. It is called before the command does any work."""
        if self.table is not None and not self.table.name.lower().endswith(TABLES):
            raise OptionError(
                f"the file name of a table must end in one of {', '.join(TABLES)}", location=str(self.table)
            )

    def write_files(self, result: Result, document: Callable[[], Document]) -> list[Path]:
        """Write the table and the page."""
        if self.table is None:
            return super().write_files(result, document)
        write_table(result.to_frame(), self.table)
        return [self.table, *super().write_files(result, document)]


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, depending on the file extension.

    Raises:
        OptionError: The file cannot be written.
        MissingExtraError: A package for this format is not installed.
    """
    try:
        if path.suffix == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False)
    except ImportError as error:
        package, extra = ("zstandard", "zstd") if path.suffix == ".zst" else ("pyarrow", "parquet")
        raise MissingExtraError(package, extra=extra, purpose=f"to write {path.suffix}") from error
    except OSError as error:
        raise OptionError(f"the table cannot be written: {error.strerror or error}", location=str(path)) from None


@dataclass(frozen=True)
class PeopleOptions:
    """Whether records of real people are shown."""

    show_people: bool = typer.Option(
        False,
        "--show-people/--no-people",
        help="Show and write records of real people, not only aggregates and synthetic profiles.",
    )

    def require_shown(self, **files: object) -> None:
        """Refuse files of rows of the data, by option, unless people are shown."""
        for name, path in files.items():
            if path is not None and not self.show_people:
                raise OptionError(
                    "expected --show-people, because the file contains rows of the data",
                    location=flag(name),
                    hint="add --show-people, or leave the file out",
                )

    def hide(self, result: ResultT) -> ResultT:
        """Remove records of real people from a result, unless they are shown."""
        return result if self.show_people else result.hide_people()


@dataclass(frozen=True)
class DataSource:
    """Table of a command.

    Attributes:
        frame: The rows.
        schema: Schema of its columns, if there is one.
        name: Name in messages and reports.
        untyped: Whether it was read from a text table, which does not state the types of its columns.
    """

    frame: Any
    schema: Schema | None
    name: str
    untyped: bool = False


def open_data(data: str, *, schema: Path | None) -> DataSource | None:
    """Open large DATA, whose rows are aggregated by their engine.

    Returns:
        The table; None if it is small enough for memory, or a data set's name.
    """
    from evenhand.datasets.rows import names_rows
    from evenhand.schema.schema import read_schema

    rows = datasets.open_data(data)
    name = data if names_rows(data) else Path(data).name
    return None if rows is None else DataSource(rows, None if schema is None else read_schema(schema), name)


@dataclass(frozen=True)
class TextOptions:
    """Column of texts that a model decides about."""

    text_column: str | None = typer.Option(
        None, help="Column of texts that the model decides about, by the identity terms in them."
    )
    terms: list[Path] | None = typer.Option(None, help="For texts: a list of identity terms (YAML); may be repeated.")

    def check(self) -> None:
        """Refuse terms without texts."""
        if self.terms and self.text_column is None:
            raise OptionError("--terms requires texts", hint="name the column of the texts: --text-column NAME")

    def read_texts(self, people: DataOptions, data: str, *columns: str) -> tuple[Any, DataSource, TableReading]:
        """Read the rows of DATA that have a text. Also return the table, and how it was read."""
        from evenhand.core.reading import TableReading

        source, column = people.read(data), str(self.text_column)
        for name in (column, *columns):
            if name not in source.frame.columns:
                names = ", ".join(map(str, source.frame.columns))
                raise DataError(f"there is no column {name!r}", location=source.name, hint=f"the columns are: {names}")
        frame = source.frame.dropna(subset=[column])
        empty = len(source.frame) - len(frame)
        left_out = {f"without a value of {column}": empty} if empty else {}
        return frame, source, TableReading(rows=len(source.frame), used=len(frame), left_out=left_out)

    def categories(self, people: DataOptions) -> list[str | datasets.IdentityCategory] | None:
        """Return the categories of ``--protected`` and those of files. None for all bundled categories."""
        files = [category for path in self.terms or () for category in datasets.read_categories(path)]
        return [*(people.protected or ()), *files] or None


def choose_folder(out: Path | None, json: str | None, default: str) -> Path | None:
    """Return the folder of the files of a command. By default none if JSON is written."""
    folder = out if out is not None else None if json is not None else Path(default)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file, not a folder", location="--out")
    return folder


def save_text(path: Path, text: str, option: str) -> None:
    """Write a text file."""
    try:
        write_atomically(path, text)
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}", location=option) from None


def approve_queries(
    model: str | None,
    budget: int | None,
    forecast: int | None,
    hint: str = "set the maximum number of rows: --budget ROWS",
) -> int | None:
    """Return the maximum number of rows that a model may be queried for. None disables the limit.

    A model behind a URL may cost money for each row. Without a budget, a person at the terminal must agree to the
    forecast, which is then the limit.

    Args:
        model: MODEL argument of the command.
        budget: Value of ``--budget``.
        forecast: Maximum number of rows that the command sends. None if it is not known.
        hint: Instruction if the command does not run at a terminal.

    Raises:
        typer.Abort: The person disagrees.
    """
    if budget is not None or model is None or not re.match(r"https?://", model, re.IGNORECASE):
        return budget
    name = model.split("@")[-1].split("?")[0]
    rows = "an unknown number of rows" if forecast is None else f"up to {forecast:,} rows"
    require_agreement(f"this sends {rows} to the endpoint {name}, which may cost money", hint)
    return forecast


def require_agreement(message: str, hint: str) -> None:
    """Ask a person at the terminal to agree to a forecast.

    Args:
        message: Forecast, without a full stop.
        hint: Instruction if the command does not run at a terminal.

    Raises:
        typer.Abort: The person disagrees.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise OptionError(f"{message}; this requires your agreement", hint=hint)
    typer.confirm(f"{message[0].upper()}{message[1:]}. Continue?", err=True, abort=True)
