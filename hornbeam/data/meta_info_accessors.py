"""Accessors for label, weight, base margin and query ids of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hornbeam.data.labels import FIELDS
from hornbeam.data.meta_info import GROUPINGS, MetaInfo
from hornbeam.data.schema import listed
from hornbeam.errors import DataError, ErrorCode, short_traceback

__all__ = ["MetaInfoAccessors", "MetaInfoGetters"]

Floats = npt.NDArray[np.float64]


class MetaInfoGetters:
    """Base class of rows with a `MetaInfo`: what a training reads of it."""

    info: MetaInfo

    @property
    def labels(self) -> Floats | None:
        """The labels, (rows,) or (rows, targets)."""
        return self.info["label"]

    @property
    def row_weights(self) -> Floats | None:
        """The weights, one for each row."""
        return self.info.row_weights

    @property
    def base_margin(self) -> Floats | None:
        """The margins, (rows,) or (rows, outputs)."""
        return self.info["base_margin"]


class MetaInfoAccessors(MetaInfoGetters):
    """Base class of matrices with a `MetaInfo`.

    Setters copy values as float64. Getters return read-only arrays, which are empty if
    nothing was set.
    """

    feature_names: Any
    feature_types: Any

    # For training and prediction

    @property
    def weights(self) -> Floats | None:
        """The weights as they were set, one for each row or each group."""
        return self.info["weight"]

    @property
    def feature_weights(self) -> Floats | None:
        """Weight of each column in column sampling, (columns,)."""
        return self.info["feature_weights"]

    @property
    def n_targets(self) -> int:
        """Number of labels of a row; 0 without labels."""
        labels = self.labels
        if labels is None:
            return 0
        return 1 if labels.ndim == 1 else labels.shape[1]

    # As in XGBoost

    @short_traceback
    def set_info(
        self,
        *,
        label: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        group: Any = None,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[str] | None = None,
        feature_weights: Any = None,
        row_key: Any = None,
    ) -> None:
        """Set the given fields; the arguments are those of the constructor.

        If one field raises an error, none is set.
        """
        self.info.set(
            {
                "label": label,
                "weight": weight,
                "base_margin": base_margin,
                "group": group,
                "qid": qid,
                "label_lower_bound": label_lower_bound,
                "label_upper_bound": label_upper_bound,
                "feature_weights": feature_weights,
                "row_key": row_key,
            }
        )
        if feature_names is not None:
            self.feature_names = feature_names
        if feature_types is not None:
            self.feature_types = feature_types

    @short_traceback
    def set_label(self, label: Any) -> None:
        """Set the labels, one for each row, or one for each row and target."""
        self.set_float_info("label", label)

    @short_traceback
    def set_weight(self, weight: Any) -> None:
        """Set the weights, one for each row or one for each group; not negative."""
        self.set_float_info("weight", weight)

    @short_traceback
    def set_base_margin(self, margin: Any) -> None:
        """Set the margins, one for each row, or one for each row and output."""
        self.set_float_info("base_margin", margin)

    @short_traceback
    def set_group(self, group: Any) -> None:
        """Set the number of rows in each group, in the order of the rows."""
        self.set_uint_info("group", group)

    @short_traceback
    def set_float_info(self, field: str, data: Any) -> None:
        """Set a numeric field by name."""
        self.info.set({_known(field, FIELDS): _given(field, data)})

    @short_traceback
    def set_float_info_npy2d(self, field: str, data: Any) -> None:
        """Set a numeric field by name, as `set_float_info`."""
        self.set_float_info(field, data)

    @short_traceback
    def set_uint_info(self, field: str, data: Any) -> None:
        """Set the groups: ``group`` (their sizes), ``qid`` or ``group_ptr``."""
        self.info.set({_known(field, GROUPINGS): _given(field, data)})

    def get_float_info(self, field: str) -> Floats:
        """Return a numeric field as it was set."""
        return _read_only(self.info[_known(field, FIELDS)], np.float64)

    def get_uint_info(self, field: str) -> npt.NDArray[np.uint32]:
        """Return ``group_ptr``: the first row of each group, and the number of rows."""
        _known(field, ("group_ptr",))
        return _read_only(self.info.group_ptr, np.uint32)

    def get_label(self) -> Floats:
        """Return the labels."""
        return self.get_float_info("label")

    def get_weight(self) -> Floats:
        """Return the weights as they were set, one for each row or each group."""
        return self.get_float_info("weight")

    def get_base_margin(self) -> Floats:
        """Return the margins."""
        return self.get_float_info("base_margin")

    def get_group(self) -> npt.NDArray[np.uint32]:
        """Return the number of rows in each group."""
        return np.diff(self.get_uint_info("group_ptr"))


def _known(field: str, fields: Any) -> str:
    if field not in fields:
        raise DataError(
            f"there is no field {field!r}; it is one of {listed(fields)}",
            code=ErrorCode.UNKNOWN_FIELD,
            name=field,
        )
    return field


def _given(field: str, data: Any) -> Any:
    if data is None:
        raise DataError(
            f"{field} is None; pass numbers", code=ErrorCode.META_INFO_MISSING
        )
    return data


def _read_only(values: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    view = np.empty(0, dtype) if values is None else values.astype(dtype, copy=False)
    view = view.view()
    view.flags.writeable = False
    return view
