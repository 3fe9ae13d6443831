"""The files of an archive, in a folder or a bucket: Parquet, and a manifest for each part of a run.

    facts/board=arena/day=2026-11-14/00000000000000000001-00000000000000008192.parquet
    submissions/board=arena/day=2026-11-14/…
    standings/board=arena/window=daily%3A2026-11-14/edition=1/…
    manifests/00000000000000000001-00000000000000008192.json

A part is there once its manifest is: it names each file with its rows, bytes and digest. Files that
no manifest names are of a run that was interrupted, and the next run deletes them. Nothing that a
manifest names is ever written again.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rankd.errors import ArchiveDamaged, ArchiveUnavailable
from rankd.model.facts import Position

MANIFESTS = "manifests"

GENERAL = "general"
"""In place of a board, for facts that concern none: players, keys, webhooks."""

POSITION_DIGITS = 20
"""Of a 64-bit number, so that names sort like positions."""

FORMAT = 1
"""The version of this layout, in each manifest."""

DIGEST_BYTES = 16


class ArchivedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file, as its manifest names it."""

    path: str
    table: str
    board: str | None
    day: str
    rows: int
    bytes: int
    digest: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a run: consecutive positions of the ledger, and their files."""

    format: int
    first: int
    last: int
    link: str
    """The hash chain of the ledger after ``last``, in hexadecimal; empty where no append ends."""
    at: int
    """The ledger time of the last fact, in microseconds since 1970."""
    files: list[ArchivedFile]


class PartFile(msgspec.Struct, frozen=True):
    """Rows for a file of its own, and its place."""

    table: str
    board: str | None
    folders: tuple[str, ...]
    """The partitions below the board: a day, or a window and its edition."""
    day: str
    rows: pa.Table

    def path(self, first: Position, last: Position) -> str:
        """Return the path of the file in the archive."""
        board = GENERAL if self.board is None else f"board={quote(self.board, safe='')}"
        folders = (quote(folder, safe="=") for folder in self.folders)
        return "/".join((self.table, board, *folders, f"{_range_name(first, last)}.parquet"))


def _range_name(first: int, last: int) -> str:
    return f"{first:0{POSITION_DIGITS}}-{last:0{POSITION_DIGITS}}"


class ArchiveFiles:
    """The files of one archive."""

    def __init__(self, target: str) -> None:
        """Name the archive: a folder, or an address such as s3://bucket/folder."""
        self.target = target
        self.local = "://" not in target
        try:
            if self.local:
                base, system = str(Path(target).absolute()), pafs.LocalFileSystem()
            else:
                system, base = pafs.FileSystem.from_uri(target)
        except (pa.ArrowInvalid, OSError) as exc:
            raise ArchiveUnavailable(target, str(exc)) from exc
        self.system = pafs.SubTreeFileSystem(base, system)
        self.base = base
        self._made: set[str] = set()

    def manifests(self) -> list[Manifest]:
        """Return the manifests in order. Raises ArchiveDamaged, ArchiveUnavailable."""
        found = [self._read_manifest(path) for path in sorted(self._paths(MANIFESTS))]
        expected = 1
        for manifest in found:
            if manifest.format != FORMAT or manifest.first != expected:
                problem = f"its parts leave a gap before position {manifest.first}"
                raise ArchiveDamaged(self.target, problem)
            expected = manifest.last + 1
        return found

    def position(self) -> Position:
        """Return the last position that is archived; 0 for an empty archive."""
        manifests = self.manifests()
        return Position(manifests[-1].last if manifests else 0)

    def _paths(self, folder: str) -> list[str]:
        selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        try:
            infos = self.system.get_file_info(selector)
        except OSError as exc:
            raise ArchiveUnavailable(self.target, str(exc)) from exc
        return [info.path for info in infos if info.type == pafs.FileType.File]

    def _read_manifest(self, path: str) -> Manifest:
        try:
            return msgspec.json.decode(self._read(path), type=Manifest)
        except msgspec.DecodeError as exc:
            raise ArchiveDamaged(self.target, f"{path} cannot be read: {exc}") from exc

    def _read(self, path: str) -> bytes:
        try:
            with self.system.open_input_stream(path) as stream:
                return bytes(stream.read())
        except OSError as exc:
            raise ArchiveUnavailable(self.target, str(exc)) from exc

    def delete_unnamed(self, manifests: Sequence[Manifest]) -> int:
        """Delete the files that an interrupted run has left; return how many."""
        named = {file.path for manifest in manifests for file in manifest.files}
        left = [
            path
            for table in ("facts", "submissions", "standings")
            for path in self._paths(table)
            if path not in named
        ]
        for path in left:
            self.system.delete_file(path)
        return len(left)

    def write(
        self, first: Position, last: Position, link: bytes, at: int, parts: Sequence[PartFile]
    ) -> Manifest:
        """Write the files of a part and, last, its manifest."""
        files = [self._write_rows(part, first, last) for part in parts]
        manifest = Manifest(
            format=FORMAT, first=first, last=last, link=link.hex(), at=at, files=files
        )
        body = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
        self._write(f"{MANIFESTS}/{_range_name(first, last)}.json", body)
        return manifest

    def _write_rows(self, part: PartFile, first: Position, last: Position) -> ArchivedFile:
        sink = pa.BufferOutputStream()
        pq.write_table(part.rows, sink, compression="zstd")
        body, path = sink.getvalue().to_pybytes(), part.path(first, last)
        self._write(path, body)
        return ArchivedFile(
            path=path,
            table=part.table,
            board=part.board,
            day=part.day,
            rows=part.rows.num_rows,
            bytes=len(body),
            digest=_digest(body),
        )

    def _write(self, path: str, body: bytes) -> None:
        """Write a file; in a folder under another name first, so that it is whole or absent."""
        folder = path.rpartition("/")[0]
        try:
            if folder not in self._made:
                self.system.create_dir(folder, recursive=True)
                self._made.add(folder)
            written = f"{path}.part" if self.local else path
            with self.system.open_output_stream(written) as stream:
                stream.write(body)
            if self.local:
                self.system.move(written, path)
        except OSError as exc:
            raise ArchiveUnavailable(self.target, str(exc)) from exc

    def check(self, manifests: Sequence[Manifest]) -> Iterator[ArchivedFile]:
        """Yield each file once its bytes are those that were written. Raises ArchiveDamaged."""
        for manifest in manifests:
            for file in manifest.files:
                body = self._read(file.path)
                if len(body) != file.bytes or _digest(body) != file.digest:
                    raise ArchiveDamaged(self.target, f"{file.path} was changed")
                yield file


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()


def file_count(manifests: Sequence[Manifest]) -> int:
    """Return how many files some manifests name."""
    return sum(len(manifest.files) for manifest in manifests)


def rows_by_table(manifests: Sequence[Manifest]) -> Mapping[str, int]:
    """Return how many rows each table has."""
    found: dict[str, int] = {}
    for manifest in manifests:
        for file in manifest.files:
            found[file.table] = found.get(file.table, 0) + file.rows
    return found
