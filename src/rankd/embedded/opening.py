"""An engine that is not open yet, or not any more: whoever uses it then is told so."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rankd.core.service import Rankd
from rankd.errors import LedgerUnavailable
from rankd.wiring import Engine

T_co = TypeVar("T_co", covariant=True)


class _Unopened:
    """What is not open yet, and says so."""

    way: ClassVar[str]
    """How it is opened."""

    if not TYPE_CHECKING:  # A checker knows by itself that there is nothing of that name.

        def __getattr__(self, name: str) -> object:
            if name.startswith("_"):  # Asked by tools, which want no advice.
                raise AttributeError(name)
            raise AttributeError(f"the engine is not open, so it has no {name!r}: use `{self.way}`")

    def __repr__(self) -> str:
        return f"<an engine that is not open: use `{self.way}`>"


class Opening(_Unopened, AbstractContextManager[T_co]):
    """An engine that ``with`` opens, and closes at its end."""

    way = "with rankd.open(...) as ranks:"

    def __init__(self, engine: AbstractContextManager[T_co]) -> None:
        self._engine = engine

    def __enter__(self) -> T_co:
        return self._engine.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._engine.__exit__(kind, error, traceback)


class AsyncOpening(_Unopened, AbstractAsyncContextManager[T_co]):
    """An engine that ``async with`` opens, and closes at its end."""

    way = "async with rankd.aopen(...) as ranks:"

    def __init__(self, engine: AbstractAsyncContextManager[T_co]) -> None:
        self._engine = engine

    async def __aenter__(self) -> T_co:
        return await self._engine.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._engine.__aexit__(kind, error, traceback)


class Opened:
    """An engine that is open, until it is closed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.immediate = engine.rankd.immediate
        """Whether no read ever suspends: the same for as long as it is open, whoever stands in."""
        self.closed = False

    @property
    def rankd(self) -> Rankd:
        """What answers. Raises LedgerUnavailable once it is closed."""
        self.refuse_if_closed()
        return self.engine.rankd

    def refuse_if_closed(self) -> None:
        """Raise LedgerUnavailable once it is closed."""
        if self.closed:
            raise LedgerUnavailable("the engine is closed; open it anew", applied="no")
