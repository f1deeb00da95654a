"""Sums over many members, taken in a tree of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from distributed import get_worker

from hornbeam.backends.cluster import Member, MemberLostError
from hornbeam.dask.asking import GoneError, ask

__all__ = ["Adder", "Branch", "branches_of"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A member, the key of its actor, and those whose answers it adds to its own."""

    member: Member
    key: str
    branches: tuple[Branch, ...]


def branches_of(leaves: Sequence[Branch], width: int) -> tuple[Branch, ...]:
    """Return at most `width` branches that hold all of these members."""
    groups = [leaves[i::width] for i in range(min(width, len(leaves)))]
    return tuple(
        Branch(first.member, first.key, branches_of(rest, width))
        for first, *rest in groups
    )


class Adder:
    """The part of an actor that asks others and adds up."""

    async def sum_with(
        self,
        verb: str,
        args: tuple[Any, ...],
        patience: float,
        branches: Sequence[Branch],
    ) -> Any:
        """Return the sum of what this actor and those of the branches answer."""
        worker = get_worker()
        # The context tells what is computed which worker it is on.
        own = asyncio.get_running_loop().run_in_executor(
            worker.executors["actor"],
            partial(copy_context().run, getattr(self, verb), *args),
        )
        asked = (
            _ask(worker, branch, (verb, args, patience, branch.branches))
            for branch in branches
        )
        answers = await asyncio.gather(own, *asked, return_exceptions=True)
        lost = {}
        for answer in answers:
            if isinstance(answer, MemberLostError):
                lost.update({member.number: member for member in answer.members})
            elif isinstance(answer, BaseException):
                raise answer
        if lost:
            raise MemberLostError(lost.values())
        return reduce(add, answers)


async def _ask(worker: Any, branch: Branch, args: tuple[Any, ...]) -> Any:
    patience = args[2]
    peer = worker.rpc(branch.member.place)
    try:
        return await ask(peer, branch.key, "sum_with", args, patience)
    except GoneError:
        raise MemberLostError([branch.member]) from None
