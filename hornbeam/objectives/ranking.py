"""Putting the rows of each group in order: LambdaMART, and XE-NDCG.

The kernels are imported where they are used, so that only who ranks waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hornbeam.data.labels import (
    check_gains,
    check_grades,
    check_relevant,
    gains_of,
)
from hornbeam.data.meta_info import MetaInfo
from hornbeam.errors import DataError, ErrorCode
from hornbeam.kernels import maths, ranking
from hornbeam.kernels.layout import AVERAGE_PRECISION, GAIN, PRECISION
from hornbeam.kernels.sampling import DrawKey
from hornbeam.kernels.team import Team
from hornbeam.objectives.base import Floats, Link, Objective, WarmUpCases, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.params import Parameters

__all__ = ["AveragePrecision", "CrossEntropyOfRanks", "DiscountedGain", "Pairwise"]

# The purposes of draws (see `hornbeam.growth.column_sampler`).
_OF_PAIRS = 4 << 28
_OF_GRADES = 5 << 28

#: Pairs of a row where the number is not given: places from the top, or draws.
_TOP_PLACES = 32
_DRAWS = 1
#: Positions whose bias is learned where it is not said how many places matter.
_MOST_POSITIONS = 32
#: The ratio of the bias at a position to that at the first, learned from clicks, of
#: rows that are better and worse; as the two are called in model files.
_BIAS = ("ti+", "tj-")
_LEAST_COST = 1e-16
#: The cost of one pair, in cells of a histogram.
_CELLS_PER_PAIR = 8


@dataclass(frozen=True, slots=True)
class _Lists:
    """What an objective knows of groups before there are scores.

    Attributes
    ----------
    made_of
        Labels, groups and weights.
    targets
        (2, rows): labels and gains.
    pointers
        (groups + 1,): where groups begin.
    groups
        (2, groups): what changes and gradients are multiplied by.
    discounts
        (longest group,): how much a gain counts at each place.
    """

    made_of: tuple[object, ...]
    targets: Floats
    pointers: NDArray[np.int64]
    groups: Floats
    discounts: Floats

    def memory(self, members: int, rows: int, dtype: type = np.float64) -> NDArray[Any]:
        """Return so many rows, each as long as the longest list, for every member."""
        return np.empty((members, rows, self.discounts.size), dtype)


class Ranking(Objective):
    """A loss of the order of each group's rows; groups count by their weights."""

    task = "ranking"
    prediction = "margin"
    link = Link("identity")
    by_row = False
    kind: ClassVar[int] = PRECISION

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._lists: _Lists | None = None

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {"label": classes % 2, "group": [len(classes)]}

    def estimate_base_score(self, targets: Floats, weights: Floats | None) -> Floats:
        # No score is better than another where only differences matter.
        return np.zeros(1)

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        if self.graded:
            check_grades(self.name, labels)

    @property
    def graded(self) -> bool:
        """Whether a label is a grade, whose gain is 2**label - 1."""
        return False

    @property
    def depth(self) -> int:
        """Places that the best order is judged by."""
        return np.iinfo(np.int64).max

    def _lists_of(self, team: Team, info: MetaInfo) -> _Lists:
        """Return the groups, made ready once for the same labels and groups."""
        made_of = info["label"], info.group_ptr, info.row_weights
        lists = self._lists
        if lists is None or any(
            one is not other for one, other in zip(lists.made_of, made_of, strict=True)
        ):
            lists = self._lists = self._made_ready(team, info, made_of)
        return lists

    def _made_ready(
        self, team: Team, info: MetaInfo, made_of: tuple[object, ...]
    ) -> _Lists:
        (labels,) = self.targets_of(info)
        pointers, weights = info.groups()
        if not _has_pairs(labels, pointers):
            raise DataError(
                f"no group has rows of different labels, so that {self.name} has "
                "nothing to learn from; pass groups of several rows, with qid or group",
                code=ErrorCode.NOTHING_TO_LEARN,
            )
        sizes = np.diff(pointers)
        gains = gains_of(labels) if self.graded else labels
        discounts = np.empty(sizes.max())
        ranking.discount_places(discounts)
        groups = np.ones((2, sizes.size))
        if weights is not None:
            groups[1] = weights * (weights.size / np.add.accumulate(weights)[-1])
        lists = _Lists(made_of, np.array([labels, gains]), pointers, groups, discounts)
        if self.kind != PRECISION:
            members = team.members_for(_CELLS_PER_PAIR * labels.size)
            team.run(
                ranking.find_scales,
                members,
                self.kind,
                self.depth,
                gains,
                pointers,
                discounts,
                groups[0],
                lists.memory(members, ranking.PLACES, np.int64),
            )
        return lists

    def _draws(self, iteration: int, purpose: int) -> DrawKey:
        seed = self.parameters.seed % 2**64
        return DrawKey(np.uint64(iteration), np.uint64(purpose), np.uint64(seed))


class LambdaRank(Ranking):
    """Pairs of rows, by how much a metric would change if they swapped places."""

    config_group = ConfigGroup(
        "lambdarank_param",
        (
            "lambdarank_bias_norm",
            "lambdarank_normalization",
            "lambdarank_num_pair_per_sample",
            "lambdarank_pair_method",
            "lambdarank_score_normalization",
            "lambdarank_unbiased",
            "ndcg_exp_gain",
        ),
        state=_BIAS,
    )
    warm_up_cases: ClassVar[WarmUpCases] = ()
    metric: ClassVar[str] = "ndcg"

    @property
    def default_metric(self) -> str:
        if self._at_random:
            return self.metric
        return f"{self.metric}@{self._count}"

    @property
    def _at_random(self) -> bool:
        return self.parameters.lambdarank_pair_method == "mean"

    @property
    def _count(self) -> int:
        """Pairs of each row, or places from the top."""
        given = self.parameters.lambdarank_num_pair_per_sample
        if given is not None:
            return given
        return _DRAWS if self._at_random else _TOP_PLACES

    @property
    def depth(self) -> int:
        return super().depth if self._at_random else self._count

    def gradients(
        self, team: Team, scores: Floats, info: MetaInfo, iteration: int
    ) -> tuple[Floats, Floats]:
        p = self.parameters
        lists = self._lists_of(team, info)
        sizes = np.diff(lists.pointers)
        bias = self._bias(int(sizes.max()))
        pairs = min(self._count, int(sizes.max())) * scores.size
        members = team.members_for(_CELLS_PER_PAIR * pairs)
        gradients = np.empty((2, scores.size))
        costs = np.empty((sizes.size, *bias.shape))
        team.run(
            ranking.lambda_gradients,
            members,
            scores[0],
            ranking.QueryGroups(
                lists.targets, lists.pointers, lists.groups, lists.discounts
            ),
            ranking.LambdaRules(
                self.kind,
                self._at_random,
                self._count,
                p.lambdarank_normalization,
                p.lambdarank_score_normalization,
            ),
            self._draws(iteration, _OF_PAIRS),
            bias,
            gradients,
            costs,
            ranking.RankScratch(
                lists.memory(members, ranking.LISTS),
                lists.memory(members, ranking.PLACES, np.int64),
            ),
        )
        if p.lambdarank_unbiased:
            self.next_state = self._learned(bias, costs)
        return gradients[:1], gradients[1:]

    # The bias of positions

    def _bias(self, longest: int) -> Floats:
        """Return the bias so far, (2, positions); no positions if it is not learned."""
        if not self.parameters.lambdarank_unbiased:
            return np.empty((2, 0))
        positions = self._count
        if self._at_random:
            positions = min(longest, _MOST_POSITIONS)
        bias = np.ones((2, positions))
        for own, name in zip(bias, _BIAS, strict=True):
            known = self.state.get(name, own)[:positions]
            own[: known.size] = known
        return bias

    def _learned(self, bias: Floats, costs: Floats) -> dict[str, NDArray[np.float32]]:
        """Return the bias after a round in which groups have had such costs.

        It is rounded as files hold it, so that training goes on from them alike.
        """
        power = 1.0 / (1.0 + self.parameters.lambdarank_bias_norm)
        learned = {}
        for name, before, lost in zip(
            _BIAS, bias, np.add.accumulate(costs)[-1], strict=True
        ):
            if lost[0] >= _LEAST_COST:
                before = [_power(cost / lost[0], power) for cost in lost]
            learned[name] = np.array(before, np.float32)
        return learned


@register
class DiscountedGain(LambdaRank):
    """LambdaMART for the normalised discounted cumulative gain."""

    name = "rank:ndcg"
    warm_up_cases = ({},)
    kind = GAIN

    @property
    def graded(self) -> bool:
        return self.parameters.ndcg_exp_gain

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        if not self.graded:
            check_gains(self.name, labels)


@register
class AveragePrecision(LambdaRank):
    """LambdaMART for the mean average precision, of rows that are relevant or not."""

    name = "rank:map"
    metric = "map"
    kind = AVERAGE_PRECISION

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        check_relevant(self.name, labels)


@register
class Pairwise(LambdaRank):
    """The logistic loss of each pair, whatever its places."""

    name = "rank:pairwise"


@register
class CrossEntropyOfRanks(Ranking):
    """The cross-entropy that bounds NDCG, of grades with noise (XE-NDCG)."""

    name = "rank:xendcg"
    config_group = ConfigGroup()
    warm_up_cases = ({},)
    default_metric = "ndcg"

    @property
    def graded(self) -> bool:
        return True

    def gradients(
        self, team: Team, scores: Floats, info: MetaInfo, iteration: int
    ) -> tuple[Floats, Floats]:
        lists = self._lists_of(team, info)
        members = team.members_for(_CELLS_PER_PAIR * scores.size)
        gradients = np.empty((2, scores.size))
        team.run(
            ranking.cross_entropy,
            members,
            scores[0],
            lists.targets[1],
            lists.pointers,
            lists.groups[1],
            self._draws(iteration, _OF_GRADES),
            gradients,
            lists.memory(members, 3),
        )
        return gradients[:1], gradients[1:]


def _has_pairs(labels: Floats, pointers: NDArray[np.int64]) -> bool:
    """Whether two rows of one group have different labels."""
    differs = labels[1:] != labels[:-1]
    differs[pointers[1:-1] - 1] = False  # the last row of a group and the next's first
    return bool(differs.any())


def _power(base: float, exponent: float) -> float:
    """Return a power of a number that is not negative, with our own logarithm."""
    if base < np.finfo(np.float64).tiny:
        return 0.0
    return float(maths.exp(exponent * maths.log(base)))
