"""XGBoost's verbosity, which a training with verbosity=0 changes for the process."""

import pytest
import xgboost


@pytest.fixture(autouse=True)
def usual_verbosity():
    """Let XGBoost warn, whatever the tests before have set."""
    with xgboost.config_context(verbosity=1):
        yield
