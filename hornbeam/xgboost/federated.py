"""The names of the module `xgboost.federated`; there is no federated training."""

from __future__ import annotations

from typing import Any, NoReturn

from hornbeam.errors import ErrorCode
from hornbeam.xgboost.deprecation import deprecate_positional_args
from hornbeam.xgboost.error_messages import XGBoostError
from hornbeam.xgboost.tracker import RabitTracker

__all__ = ["FederatedTracker", "run_federated_server"]


class FederatedTracker(RabitTracker):
    """Raises an error: there is no federated training.

    The arguments are those of XGBoost.
    """

    @deprecate_positional_args
    def __init__(
        self,
        n_workers: int,
        port: int,
        *,
        secure: bool,
        server_key_path: str | None = None,
        server_cert_path: str | None = None,
        client_cert_path: str | None = None,
        timeout: int = 300,
    ) -> None:
        _refuse()


@deprecate_positional_args
def run_federated_server(
    n_workers: int,
    port: int,
    *,
    server_key_path: str | None = None,
    server_cert_path: str | None = None,
    client_cert_path: str | None = None,
    blocking: bool = True,
    timeout: int = 300,
) -> dict[str, Any] | None:
    """Raise an error: there is no federated training."""
    _refuse()


def _refuse() -> NoReturn:
    raise XGBoostError(
        "XGBoost is not compiled with federated learning support: Hornbeam has no "
        "federated training; train on a cluster with hornbeam.xgboost.dask",
        code=ErrorCode.UNSUPPORTED_PARAMETER_VALUE,
    )
