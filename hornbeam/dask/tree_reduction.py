"""Sums over many members, taken in a tree of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

from distributed import get_worker
from distributed.protocol import to_serialize
from distributed.protocol.pickle import loads

from hornbeam.backends.cluster import Member, MemberLostError
from hornbeam.dask.rpc import Answering, GoneError, answered, watch

__all__ = ["Adder", "Branch", "ask_branch", "branches_of"]


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


class Adder(Answering):
    """An actor that asks others and adds up."""

    async def sum_with(
        self, message: Any, patience: float, branches: Sequence[Branch]
    ) -> Any:
        """Return the sum of what this actor and those of the branches answer."""
        worker = get_worker()
        # The context tells what is computed which worker it is on.
        own = asyncio.get_running_loop().run_in_executor(
            worker.executors["actor"],
            partial(copy_context().run, self.perform, message),
        )
        asked = (_ask(worker, branch, message, patience) for branch in branches)
        answers = await asyncio.gather(own, *asked, return_exceptions=True)
        lost = {}
        for answer in answers:
            if isinstance(answer, MemberLostError):
                lost.update({member.number: member for member in answer.members})
            elif isinstance(answer, BaseException):
                raise answer
        if lost:
            raise MemberLostError(lost.values())
        first, *others = answers
        return reduce(add, others, loads(first) if isinstance(first, bytes) else first)


async def _ask(worker: Any, branch: Branch, message: Any, patience: float) -> Any:
    peer = worker.rpc(branch.member.place)
    try:
        return await ask_branch(peer, branch, message, patience)
    except GoneError:
        raise MemberLostError([branch.member]) from None


async def ask_branch(
    peer: Any,
    branch: Branch,
    message: Any,
    patience: float,
    is_known_dead: Callable[[], bool] = lambda: False,
) -> Any:
    """Return the sum of what the members of a branch answer; see `ask`."""
    args = (message, patience, branch.branches)
    call = peer.actor_execute(
        function="sum_with",
        actor=branch.key,
        args=[to_serialize(argument) for argument in args],
        kwargs={},
    )
    return answered(await watch(call, peer, patience, is_known_dead))
