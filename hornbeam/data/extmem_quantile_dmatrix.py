"""The matrix that keeps codes on disk in place of the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hornbeam.data.caching import Folders, named_cache
from hornbeam.data.categories import Categories
from hornbeam.data.dmatrix import DMatrix
from hornbeam.data.quantile_dmatrix import QuantileDMatrix, check_quantile_arguments
from hornbeam.errors import ErrorCode, ParameterError

__all__ = ["ExtMemQuantileDMatrix"]


class ExtMemQuantileDMatrix(QuantileDMatrix):
    """Features kept only as codes of their bins, in blocks on disk.

    Neither the features nor the codes are ever held whole, so both may be larger than
    memory; the model is the same as from any other matrix. The next matrix of the same
    data and cache uses the blocks that are there. As long as the matrix lives, the data
    is held, too: a damaged block is made again from it.

    Parameters
    ----------
    cache
        A folder for the blocks, or several on different disks. By default the
        `cache_prefix` of a `DataIter`.
    memory_limit
        The most memory that the process may take while cuts are found, blocks are
        written and trees are grown, such as ``"2GB"``; in bytes if it is a number.
    codec
        How codes are laid down: ``"raw"``, ``"nibble"`` (columns of few bins, two
        codes a byte), ``"lz4"``, or ``"auto"``, what pays for each column.
    cache_host_ratio
        Taken for XGBoost's sake: how it parts pages between a device's memory and the
        host's.
    data, label, weight, base_margin, missing, silent, feature_names, feature_types, \
nthread, max_bin, ref, group, qid, label_lower_bound, label_upper_bound, \
feature_weights, enable_categorical, max_quantile_batches, data_split_mode, sketch, \
unseen
        As for `QuantileDMatrix`.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        cache: Folders | None = None,
        memory_limit: int | str | None = None,
        codec: str = "auto",
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | Categories | None = None,
        nthread: int | None = None,
        max_bin: int | None = None,
        ref: DMatrix | None = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
        enable_categorical: bool = True,
        max_quantile_batches: int | None = None,
        cache_host_ratio: float | None = None,
        data_split_mode: int = 0,
        sketch: str = "exact",
        unseen: str = "error",
    ) -> None:
        check_quantile_arguments(max_quantile_batches, ref)
        _check_ratio(cache_host_ratio)
        if cache is None and named_cache(data) is None:
            raise ParameterError(
                "an ExtMemQuantileDMatrix has its codes on disk; name a folder for "
                "them: cache=, or the cache_prefix of the DataIter",
                code=ErrorCode.MISSING_PARAMETER,
            )
        # As QuantileDMatrix does, which has no cache.
        DMatrix.__init__(
            self,
            data,
            label,
            weight=weight,
            base_margin=base_margin,
            missing=missing,
            silent=silent,
            feature_names=feature_names,
            feature_types=feature_types,
            nthread=nthread,
            group=group,
            qid=qid,
            label_lower_bound=label_lower_bound,
            label_upper_bound=label_upper_bound,
            feature_weights=feature_weights,
            enable_categorical=enable_categorical,
            data_split_mode=data_split_mode,
            sketch=sketch,
            cache=cache,
            memory_limit=memory_limit,
            codec=codec,
        )
        self._keep_codes(max_bin, ref, unseen)


def _check_ratio(ratio: Any) -> None:
    is_number = isinstance(ratio, (int, float)) and not isinstance(ratio, bool)
    if ratio is not None and not (is_number and 0 <= ratio <= 1):
        raise ParameterError(
            f"cache_host_ratio must be from 0 to 1, not {ratio!r}",
            code=ErrorCode.PARAMETER_OUT_OF_RANGE,
        )
