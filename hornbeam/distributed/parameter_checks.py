"""Checks of parameters whose training needs all rows in one process."""

from __future__ import annotations

from hornbeam.errors import ErrorCode, ParameterError
from hornbeam.params import Parameters

__all__ = ["check_cluster_training"]

#: Parameters that a cluster has only one value of.
_ONE_MACHINE = {"leaf_solver": "newton", "leaf_model": "constant", "device": "cpu"}


def check_cluster_training(parameters: Parameters) -> None:
    """Raise a `ParameterError` if a cluster cannot train with these parameters."""
    if parameters.process_type == "update":
        raise ParameterError(
            "process_type='update' is not implemented on a cluster; train with "
            "hornbeam.train, in external memory if need be: ExtMemQuantileDMatrix",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
    method = parameters.method()
    if method == "exact" or parameters.sketch_scope == "local":
        what = "sketch_scope='local'" if method == "approx" else "tree_method='exact'"
        raise ParameterError(
            f"{what} doesn't support distributed training: it needs all values of "
            "a column in sorted order; use hornbeam.train, or tree_method='hist' "
            "or 'approx' on a cluster",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
    for name, usual in _ONE_MACHINE.items():
        if getattr(parameters, name) != usual:
            raise ParameterError(
                f"{name}={getattr(parameters, name)!r} trains on one machine, not on "
                f"a cluster; use hornbeam.train, or leave {name} out",
                code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
            )
    if parameters.booster == "gblinear":
        raise ParameterError(
            "booster='gblinear' does not train on a cluster; train it on one "
            "machine with hornbeam.train",
            code=ErrorCode.UNSUPPORTED_ON_CLUSTER,
        )
