"""File sources: resolves paths and URIs, and chooses the file format."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, ClassVar

from hornbeam.data.schema import listed
from hornbeam.data.sources.batches import Batch, Source
from hornbeam.errors import DataError, ErrorCode

__all__ = [
    "FileFormat",
    "FileSource",
    "as_path",
    "file_errors",
    "open_file",
    "parse_uri",
    "split_uri",
]

# Options after a path: a question mark, then name=value pairs joined by &.
OPTIONS = re.compile(r"\?(\w+=[^?&]*(?:&\w+=[^?&]*)*)$")
PARTS = {"label_column": "label", "weight_column": "weight"}


class FileFormat(ABC):
    """Reads files of one format."""

    #: Name in ``?format=``, and endings of file names.
    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    #: Options after the path: arguments of the class, and the field of each option that
    #: names a column.
    options: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[Mapping[str, str]] = PARTS
    #: Whether `batches` can leave out columns.
    projects: ClassVar[bool] = True
    #: Whether the file has names of columns.
    named: bool = True

    @abstractmethod
    def column_names(self, path: str) -> list[str] | None:
        """Return the names of the columns of a file; None if it has none."""

    @abstractmethod
    def batches(
        self, path: str, columns: Sequence[str] | None
    ) -> Generator[Batch, None, None]:
        """Yield the rows of a file, with some columns or all."""


class FileSource(Source):
    """Files of one format, read one after the other.

    Parameters
    ----------
    name
        Name of the files in error messages.
    paths
        The files in order.
    form
        The format.
    field_columns
        Name or number of the column of each field, from options of the path.
    """

    advice = "the files must not change while they are read"
    owns_batches = True

    def __init__(
        self,
        name: str,
        paths: Sequence[str],
        form: FileFormat,
        field_columns: Mapping[str, str],
    ) -> None:
        self.name = name
        self._paths = paths
        self._format = form
        with file_errors(paths[0]):
            self._columns = form.column_names(paths[0])
        self.named = form.named
        self.projects = form.projects
        self._apart = {
            part: _column(self._columns or [], column, name)
            for part, column in field_columns.items()
        }

    @property
    def column_names(self) -> list[str] | None:
        return self._columns

    @property
    def field_columns(self) -> Mapping[str, str]:
        return self._apart

    def batches(
        self, columns: Sequence[str] | None = None
    ) -> Generator[Batch, None, None]:
        for path in self._paths:
            origin = path if len(self._paths) > 1 else None
            if columns is not None and path != self._paths[0]:
                with file_errors(path):
                    _check_columns(path, self._format.column_names(path) or [], columns)
            with closing(self._format.batches(path, columns)) as batches:
                while True:
                    with file_errors(path):
                        batch = next(batches, None)
                    if batch is None:
                        break
                    yield replace(batch, origin=origin)


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turn an error of reading a file into a `DataError` that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(
            f"there is no file {path}", code=ErrorCode.FILE_NOT_FOUND, path=path
        ) from None
    except DataError:
        raise
    # Base classes of Arrow's errors, and scikit-learn's for numbers above 2**31.
    except (OSError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"cannot read {path}: {reason}", code=ErrorCode.FILE_NOT_READABLE
        ) from error


def _check_columns(path: str, present: Sequence[str], wanted: Sequence[str]) -> None:
    absent = [name for name in wanted if name not in present]
    if absent:
        raise DataError(
            f"{path} lacks columns of the first file: {listed(absent)}; the files must "
            "have the same columns",
            code=ErrorCode.FILES_MISMATCH,
        )


def _column(names: Sequence[str], given: str, source: str) -> str:
    """Return the name of a column, given by its name or number."""
    if given in names:
        return given
    if given.isdecimal() and int(given) < len(names):
        return names[int(given)]
    raise DataError(
        f"{source} has no column {given!r}; it has {listed(names)}",
        code=ErrorCode.COLUMN_NOT_FOUND,
    )


# --- Paths ----------------------------------------------------------------------------


def as_path(data: Any) -> str | None:
    """Return a path or URI as a string; None for other objects."""
    return os.fspath(data) if isinstance(data, (str, os.PathLike)) else None


def split_uri(uri: str) -> tuple[str, str | None]:
    """Return a URI such as ``data.csv#folder`` without its cache, and the cache."""
    if os.path.exists(uri.removeprefix("file://")):
        return uri, None
    path, mark, cache = uri.partition("#")
    if mark and not cache:
        raise DataError(
            f"{uri!r} names no folder after #; name one, or leave out #",
            code=ErrorCode.INVALID_URI,
        )
    return path, cache or None


def parse_uri(uri: str) -> tuple[str, dict[str, str]]:
    """Return the path and the options of a URI such as ``data.csv?format=csv``."""
    path, cache = split_uri(uri)
    if cache is not None:
        raise DataError(
            f"{uri!r} names a cache on disk (after #), which only a DMatrix or an "
            "ExtMemQuantileDMatrix has; leave it out",
            code=ErrorCode.UNSUPPORTED_COMBINATION,
        )
    path = path.removeprefix("file://")
    if os.path.exists(path):
        return path, {}
    found = OPTIONS.search(path)
    if found is None:
        return path, {}
    options: dict[str, str] = {}
    for pair in found[1].split("&"):
        name, _, value = pair.partition("=")
        if name in options:
            raise DataError(f"{uri!r} gives {name} twice", code=ErrorCode.INVALID_URI)
        options[name] = value
    return path[: found.start()], options


def open_file(uri: str, formats: Mapping[str, type[FileFormat]]) -> FileSource:
    """Return the source of a file, a folder, or the files of a glob pattern.

    Parameters
    ----------
    uri
        The path, with options such as ``?format=csv&label_column=0``.
    formats
        All formats by name.
    """
    path, options = parse_uri(uri)
    paths = _files(path, formats)
    kind = _format(options.pop("format", None), paths, formats)
    allowed = (*kind.parts, *kind.options)
    for name in options:
        if name not in allowed:
            raise DataError(
                f"{uri!r} has the option {name!r}; for {kind.name} there are "
                f"{listed(['format', *allowed])}",
                code=ErrorCode.INVALID_URI,
            )
    field_columns = {
        part: options.pop(name) for name, part in kind.parts.items() if name in options
    }
    return FileSource(path, paths, kind(**options), field_columns)


def _files(path: str, formats: Mapping[str, type[FileFormat]]) -> list[str]:
    """Return the files of a path, sorted."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        endings = tuple(e for kind in formats.values() for e in kind.endings)
        # Skip hidden files and metadata such as _SUCCESS.
        found = sorted(
            str(file)
            for file in Path(path).rglob("*")
            if file.is_file()
            and not any(p[0] in "._" for p in file.relative_to(path).parts)
        )
        if not found:
            raise DataError(
                f"the folder {path} holds no files", code=ErrorCode.NO_FILES
            )
        for file in found:
            if any("=" in part for part in Path(file).relative_to(path).parts[:-1]):
                raise DataError(
                    f"the folder {path} is partitioned by a column whose values are "
                    f"names of folders ({file}); pass "
                    f"pyarrow.dataset.dataset({path!r}, partitioning='hive')",
                    code=ErrorCode.UNSUPPORTED_SOURCE,
                )
        known = [file for file in found if file.endswith(endings)]
        return known or found
    if has_magic(path):
        found = sorted(file for file in glob(path, recursive=True))
        found = [file for file in found if os.path.isfile(file)]
        if not found:
            raise DataError(f"no file matches {path}", code=ErrorCode.NO_FILES)
        return found
    raise DataError(
        f"there is no file {path}", code=ErrorCode.FILE_NOT_FOUND, path=path
    )


def _format(
    given: str | None, paths: Sequence[str], formats: Mapping[str, type[FileFormat]]
) -> type[FileFormat]:
    if given is not None:
        if given not in formats:
            raise DataError(
                f"there is no format {given!r}; it is one of {', '.join(formats)}",
                code=ErrorCode.UNKNOWN_FILE_FORMAT,
            )
        return formats[given]
    kinds = {path: _by_ending(path, formats) for path in paths}
    unknown = [path for path, kind in kinds.items() if kind is None]
    if unknown:
        endings = [e for kind in formats.values() for e in kind.endings]
        raise DataError(
            f"cannot read {unknown[0]}: it must end in {', '.join(endings[:-1])} or "
            f"{endings[-1]}; or say the format: "
            f"{unknown[0]}?format=csv (or {', '.join(formats)})",
            code=ErrorCode.UNKNOWN_FILE_FORMAT,
        )
    first = kinds[paths[0]]
    assert first is not None
    for path, kind in kinds.items():
        if kind is not first:
            raise DataError(
                f"{paths[0]} and {path} have different formats; read files of one "
                "format together, such as with a glob: folder/*.parquet",
                code=ErrorCode.FILES_MISMATCH,
            )
    return first


def _by_ending(
    path: str, formats: Mapping[str, type[FileFormat]]
) -> type[FileFormat] | None:
    for kind in formats.values():
        if path.lower().endswith(kind.endings):
            return kind
    return None
