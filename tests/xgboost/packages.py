"""Packages that import XGBoost, used with Hornbeam in its place.

Run as a program, which prints for each package None or what went wrong.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings

import numpy as np

from hornbeam import xgboost as xgb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)).astype(np.float32)
Y = X[:, 0] + X[:, 1] * X[:, 2]
CLASSES = np.digitize(Y, [-0.5, 0.5])
NAMES = ["a", "b", "c", "d"]


def regressor():
    return xgb.XGBRegressor(n_estimators=6, max_depth=3).fit(X, Y)


def classifier():
    return xgb.XGBClassifier(n_estimators=6, max_depth=3).fit(X, CLASSES)


def dtreeviz():
    import dtreeviz

    model = regressor()
    tree = dtreeviz.model(
        model,
        tree_index=1,
        X_train=X,
        y_train=Y,
        feature_names=NAMES,
        target_name="y",
    )
    assert tree.shadow_tree.nnodes() == model.get_booster().model.trees[1].n_nodes
    assert "<=" in tree.explain_prediction_path(X[0])


def eli5():
    import eli5

    model = regressor()
    weights = eli5.explain_weights_df(model)
    found = dict(zip(weights["feature"], weights["weight"], strict=True))
    for feature, share in enumerate(model.feature_importances_):
        assert abs(found[f"f{feature}"] - share) < 1e-6


def flaml():
    from flaml import AutoML

    search = AutoML()
    search.fit(
        X,
        CLASSES,
        task="classification",
        estimator_list=["xgboost", "xgb_limitdepth"],
        max_iter=2,
        time_budget=-1,
        n_jobs=1,
        verbose=0,
    )
    assert isinstance(search.model.estimator, xgb.XGBClassifier)
    assert search.predict_proba(X).shape == (200, 3)


def mapie():
    from mapie.classification import SplitConformalClassifier

    model = classifier()
    conformal = SplitConformalClassifier(model, confidence_level=0.9, prefit=True)
    _, sets = conformal.conformalize(X, CLASSES).predict_set(X)
    assert sets[np.arange(200), CLASSES, 0].mean() >= 0.9


def mlflow_xgboost():
    from tempfile import TemporaryDirectory

    import mlflow.xgboost

    model = regressor()
    for saved in model, model.get_booster():
        with TemporaryDirectory() as folder:
            mlflow.xgboost.save_model(saved, f"{folder}/model", pip_requirements=[])
            loaded = mlflow.pyfunc.load_model(f"{folder}/model")
        assert np.array_equal(loaded.predict(X), model.predict(X))


def onnxmltools():
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType
    from onnxruntime import InferenceSession

    for model in regressor(), classifier():
        converted = onnxmltools.convert_xgboost(
            model, initial_types=[("x", FloatTensorType([None, 4]))], target_opset=15
        )
        session = InferenceSession(converted.SerializeToString())
        found = session.run(None, {"x": X})[-1]
        expected = getattr(model, "predict_proba", model.predict)(X)
        assert np.abs(found.reshape(expected.shape) - expected).max() < 1e-5


def optuna_integration():
    import optuna
    from optuna_integration.xgboost import XGBoostPruningCallback

    def objective(trial):
        data, scores = xgb.DMatrix(X, Y), {}
        xgb.train(
            {"eta": trial.suggest_float("eta", 0.01, 1)},
            data,
            4,
            evals=[(data, "train")],
            evals_result=scores,
            verbose_eval=False,
            callbacks=[XGBoostPruningCallback(trial, "train-rmse")],
        )
        return scores["train"]["rmse"][-1]

    optuna.logging.disable_default_handler()
    study = optuna.create_study(
        sampler=optuna.samplers.GridSampler({"eta": [0.5, 0.02]}, seed=0),
        pruner=optuna.pruners.ThresholdPruner(upper=0.9, n_warmup_steps=1),
    )
    study.optimize(objective)
    states = {trial.params["eta"]: trial.state.name for trial in study.trials}
    assert states == {0.5: "COMPLETE", 0.02: "PRUNED"}


def shap():
    import shap

    model = classifier()
    found = shap.TreeExplainer(model).shap_values(X)
    own = model.get_booster().predict(xgb.DMatrix(X), pred_contribs=True)
    assert np.abs(found - own[:, :, :-1].transpose(0, 2, 1)).max() < 1e-5


def sklearn2pmml():
    from sklearn2pmml import make_pmml_pipeline

    pipeline = make_pmml_pipeline(classifier(), NAMES, ["class"])
    assert pipeline.predict(X).shape == (200,)


def treelite():
    import treelite

    model = regressor()
    converted = treelite.frontend.from_xgboost(model.get_booster())
    found = treelite.gtil.predict(converted, X).ravel()
    assert np.abs(found - model.predict(X)).max() < 1e-5


def yellowbrick():
    import matplotlib

    matplotlib.use("agg")
    from yellowbrick.model_selection import FeatureImportances

    picture = FeatureImportances(regressor(), labels=NAMES, relative=False)
    picture.fit(X, Y)
    assert sorted(picture.features_) == NAMES


PACKAGES = {
    use.__name__: use
    for use in (
        dtreeviz,
        eli5,
        flaml,
        mapie,
        mlflow_xgboost,
        onnxmltools,
        optuna_integration,
        shap,
        sklearn2pmml,
        treelite,
        yellowbrick,
    )
}


def main():
    warnings.simplefilter("ignore")
    xgb.stand_in()
    found = {}
    for name, use in PACKAGES.items():
        try:
            use()
        except Exception:
            found[name] = traceback.format_exc()
        else:
            found[name] = None
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
