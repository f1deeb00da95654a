"""Objectives of learning to rank: LambdaMART and XE-NDCG."""

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
from hornbeam.objectives.base import Floats, Link, Objective, register
from hornbeam.objectives.config import ConfigGroup
from hornbeam.params import Parameters

__all__ = ["AveragePrecision", "CrossEntropyOfRanks", "DiscountedGain", "Pairwise"]

# The streams of random numbers (see `hornbeam.growth.column_sampler`).
_PAIR_STREAM = 4 << 28
_GRADE_STREAM = 5 << 28

#: The default of lambdarank_num_pair_per_sample for topk and mean.
_TOP_PLACES = 32
_DRAWS = 1
#: The maximum number of positions whose bias is estimated with the method mean.
_MOST_POSITIONS = 32
#: The names in model files of the estimated position bias of the better and the worse
#: row of a pair, relative to the first position.
_BIAS = ("ti+", "tj-")
_LEAST_COST = 1e-16
#: The cost of a pair, as a number of histogram updates.
_COST_PER_PAIR = 8


@dataclass(frozen=True, slots=True)
class _Groups:
    """The query groups and what does not depend on the margins.

    Attributes
    ----------
    source
        The labels, groups and weights that it was computed from.
    targets
        (2, rows): labels and gains.
    pointers
        (groups + 1,): the first row of each group.
    factors
        (2, groups): the factors on metric changes and on gradients.
    discounts
        (longest group,): the discount of a gain at each rank.
    """

    source: tuple[object, ...]
    targets: Floats
    pointers: NDArray[np.int64]
    factors: Floats
    discounts: Floats

    def memory(
        self, n_threads: int, rows: int, dtype: type = np.float64
    ) -> NDArray[Any]:
        """Return scratch memory, (threads, rows, longest group)."""
        return np.empty((n_threads, rows, self.discounts.size), dtype)


class Ranking(Objective):
    """Base of losses of the order of the rows in each group, with group weights."""

    task = "ranking"
    prediction = "margin"
    link = Link("identity")
    by_row = False
    kind: ClassVar[int] = PRECISION

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._groups: _Groups | None = None
        #: Whether groups without any pair are an error; else all gradients are 0.
        self.requires_pairs = True

    @classmethod
    def warm_up_fields(cls, classes: NDArray[Any]) -> dict[str, Any]:
        return {"label": classes % 2, "group": [len(classes)]}

    def estimate_base_score(self, targets: Floats, weights: Floats | None) -> Floats:
        # The loss depends on differences of margins only.
        return np.zeros(1)

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        if self.graded:
            check_grades(self.name, labels)

    @property
    def graded(self) -> bool:
        """Whether labels are grades, with a gain of 2**label - 1."""
        return False

    @property
    def depth(self) -> int:
        """The number of first ranks that the ideal metric is computed for."""
        return np.iinfo(np.int64).max

    def _groups_of(self, team: Team, info: MetaInfo) -> _Groups:
        """Return the groups, cached for the same labels, groups and weights."""
        source = info["label"], info.group_ptr, info.row_weights
        groups = self._groups
        if groups is None or any(
            one is not other for one, other in zip(groups.source, source, strict=True)
        ):
            groups = self._groups = self._prepare(team, info, source)
        return groups

    def _prepare(
        self, team: Team, info: MetaInfo, source: tuple[object, ...]
    ) -> _Groups:
        (labels,) = self.targets_of(info)
        pointers, weights = info.groups()
        if self.requires_pairs and not _has_pairs(labels, pointers):
            raise DataError(
                f"no group has rows with different labels, so {self.name} has no pairs "
                "to learn from; pass groups of several rows, with qid or group",
                code=ErrorCode.NOTHING_TO_LEARN,
            )
        sizes = np.diff(pointers)
        gains = gains_of(labels) if self.graded else labels
        discounts = np.empty(sizes.max())
        ranking.discount_places(discounts)
        factors = np.ones((2, sizes.size))
        if weights is not None:
            factors[1] = weights * (weights.size / np.add.accumulate(weights)[-1])
        groups = _Groups(
            source, np.array([labels, gains]), pointers, factors, discounts
        )
        if self.kind != PRECISION:
            n_threads = team.threads_for(_COST_PER_PAIR * labels.size)
            team.run(
                ranking.find_scales,
                n_threads,
                self.kind,
                self.depth,
                gains,
                pointers,
                discounts,
                factors[0],
                groups.memory(n_threads, ranking.PLACES, np.int64),
            )
        return groups

    def _random_key(self, iteration: int, purpose: int) -> DrawKey:
        seed = self.parameters.seed % 2**64
        return DrawKey(np.uint64(iteration), np.uint64(purpose), np.uint64(seed))


class LambdaRank(Ranking):
    """LambdaMART: pairs of rows, by the change of a metric if their ranks swapped."""

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
        """The number of pairs of each row, or of first ranks."""
        given = self.parameters.lambdarank_num_pair_per_sample
        if given is not None:
            return given
        return _DRAWS if self._at_random else _TOP_PLACES

    @property
    def depth(self) -> int:
        return super().depth if self._at_random else self._count

    def gradients(
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[Floats, Floats]:
        p = self.parameters
        groups = self._groups_of(team, info)
        sizes = np.diff(groups.pointers)
        bias = self._bias(int(sizes.max()))
        pairs = min(self._count, int(sizes.max())) * margins.size
        n_threads = team.threads_for(_COST_PER_PAIR * pairs)
        gradients = np.empty((2, margins.size))
        costs = np.empty((sizes.size, *bias.shape))
        team.run(
            ranking.lambda_gradients,
            n_threads,
            margins[0],
            ranking.QueryGroups(
                groups.targets, groups.pointers, groups.factors, groups.discounts
            ),
            ranking.LambdaRules(
                self.kind,
                self._at_random,
                self._count,
                p.lambdarank_normalization,
                p.lambdarank_score_normalization,
            ),
            self._random_key(iteration, _PAIR_STREAM),
            bias,
            gradients,
            costs,
            ranking.RankScratch(
                groups.memory(n_threads, ranking.LISTS),
                groups.memory(n_threads, ranking.PLACES, np.int64),
            ),
        )
        if p.lambdarank_unbiased:
            self.next_state = self._learned(bias, costs)
        return gradients[:1], gradients[1:]

    # The bias of positions

    def _bias(self, longest: int) -> Floats:
        """Return the position bias, (2, positions); no positions if not estimated."""
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
        """Return the position bias after a round with these costs of groups.

        It is rounded to float32 like in model files, so that training continued from a
        file gives the same model.
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
    """LambdaMART with the normalised discounted cumulative gain."""

    name = "rank:ndcg"
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
    """LambdaMART with the mean average precision, for labels 0 and 1."""

    name = "rank:map"
    metric = "map"
    kind = AVERAGE_PRECISION

    def check_labels(self, labels: Floats) -> None:
        super().check_labels(labels)
        check_relevant(self.name, labels)


@register
class Pairwise(LambdaRank):
    """LambdaMART with the logistic loss of pairs, whatever their ranks."""

    name = "rank:pairwise"


@register
class CrossEntropyOfRanks(Ranking):
    """XE-NDCG: a cross-entropy that bounds NDCG, of grades with random noise."""

    name = "rank:xendcg"
    config_group = ConfigGroup()
    default_metric = "ndcg"

    @property
    def graded(self) -> bool:
        return True

    def gradients(
        self, team: Team, margins: Floats, info: MetaInfo, iteration: int
    ) -> tuple[Floats, Floats]:
        groups = self._groups_of(team, info)
        n_threads = team.threads_for(_COST_PER_PAIR * margins.size)
        gradients = np.empty((2, margins.size))
        team.run(
            ranking.cross_entropy,
            n_threads,
            margins[0],
            groups.targets[1],
            groups.pointers,
            groups.factors[1],
            self._random_key(iteration, _GRADE_STREAM),
            gradients,
            groups.memory(n_threads, 3),
        )
        return gradients[:1], gradients[1:]


def _has_pairs(labels: Floats, pointers: NDArray[np.int64]) -> bool:
    """Return whether a group has rows with different labels."""
    differs = labels[1:] != labels[:-1]
    differs[pointers[1:-1] - 1] = False  # the last row of a group and the next's first
    return bool(differs.any())


def _power(base: float, exponent: float) -> float:
    """Return base**exponent of a number of 0 or more, with the logarithm of `maths`."""
    if base < np.finfo(np.float64).tiny:
        return 0.0
    return float(maths.exp(exponent * maths.log(base)))
