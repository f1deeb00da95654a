"""Cost-complexity pruning: what cross-validation says of each subtree."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from hornbeam import DecisionTreeRegressor


@pytest.mark.parametrize("seed", range(3))
def test_errors_of_validation_are_those_of_trees_fitted_on_each_fold(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 3))
    targets = np.sign(rows[:, 0]) + 0.5 * rng.normal(size=60)
    folds = KFold(4, shuffle=True, random_state=0)
    tree = DecisionTreeRegressor(ccp_alpha="cv", cv=folds, min_samples_leaf=3)
    path = tree.fit(rows, targets).ccp_path_

    alphas = path.ccp_alphas
    middles = np.sqrt(alphas * np.append(alphas[1:], np.inf))
    errors = np.zeros((alphas.size, 60))
    for train, test in folds.split(rows):
        for number, alpha in enumerate(np.minimum(middles, 1e9)):
            part = DecisionTreeRegressor(ccp_alpha=alpha, min_samples_leaf=3)
            part.fit(rows[train], targets[train])
            errors[number, test] = (part.predict(rows[test]) - targets[test]) ** 2
    expected = errors.mean(axis=1)
    np.testing.assert_allclose(path.cv_errors, expected, rtol=1e-5)
    assert expected[-1] > 1.5 * expected.min()  # the root alone
    assert tree.get_n_leaves() == path.n_leaves[expected.argmin()]
