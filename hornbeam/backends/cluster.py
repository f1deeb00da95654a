"""A cluster as few verbs, by which members on other machines hold rows and answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Cluster", "Member", "MemberLostError", "Share"]

#: A verb, and what it is called with.
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Share:
    """Parts of the data that one member is to hold.

    Attributes
    ----------
    numbers
        Of the parts, ascending.
    place
        Where the member shall be: one of those that `Cluster.alive` names.
    parts
        What the member is made of, in the order of the numbers.
    """

    numbers: tuple[int, ...]
    place: str
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """Who holds parts of the data.

    Attributes
    ----------
    number
        Another for each member that there ever was.
    place
        Where it is: members at one place die together.
    parts
        Numbers of the parts that it holds.
    """

    number: int
    place: str
    parts: tuple[int, ...]


class MemberLostError(Exception):
    """Members died, were stopped or cut off; what they held has to be made anew.

    All others have done what they were asked.

    Parameters
    ----------
    members
        Those that are lost.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = tuple(members)
        super().__init__(self.members)

    def __str__(self) -> str:
        return f"lost: {', '.join(sorted({m.place for m in self.members}))}"


class Cluster(ABC):
    """Places where members can be, and the verbs by which they are made and asked.

    Every verb comes to an end: with its answers, with an error that a member raised,
    or with `MemberLostError` within a deadline.
    """

    @abstractmethod
    def alive(self) -> list[str]:
        """Return the places where members can be put now."""

    @abstractmethod
    def place(self, shares: Sequence[Share], *options: Any) -> list[Member]:
        """Make a member for each share; `options` go to the makers of all."""

    @abstractmethod
    def call(self, members: Sequence[Member], verb: str, *args: Any) -> list[Any]:
        """Ask all members at once; return an answer for each."""

    @abstractmethod
    def sum(self, members: Sequence[Member], verb: str, *args: Any) -> Any:
        """Ask all members; return their answers added up by ``+``, in any order."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all members."""
