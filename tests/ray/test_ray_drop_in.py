"""Ray Train's own trainer of XGBoost, with the drop-in in XGBoost's place."""

import ray
import ray.train
from own_process import run_in_own_process
from rows import FRAME

PARAMS = {"max_depth": 3, "subsample": 0.5}
ROWS = FRAME.drop(columns=["q", "w"])


def loop(config):
    import xgboost
    from ray.train.xgboost import RayTrainReportCallback

    assert xgboost.train.__module__.startswith("hornbeam")
    shard = ray.train.get_dataset_shard("train")
    frame = shard.materialize().to_pandas()
    dtrain = xgboost.DMatrix(
        frame.drop(columns="y"), frame["y"], enable_categorical=True
    )
    xgboost.train(
        PARAMS,
        dtrain,
        4,
        evals=[(dtrain, "train")],
        verbose_eval=False,
        callbacks=[RayTrainReportCallback()],
    )


def test_the_trainer_of_ray_trains_with_the_drop_in(tmp_path):
    run_in_own_process(
        f"""
        import hornbeam.ray, hornbeam.xgboost
        hornbeam.xgboost.stand_in()
        import ray, ray.train
        from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer
        import test_ray_drop_in as tests
        from conftest import start
        start(setup=hornbeam.xgboost.stand_in)
        frame = tests.ROWS
        trainer = XGBoostTrainer(
            tests.loop,
            train_loop_config={{}},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path={str(tmp_path)!r}),
            datasets={{"train": ray.data.from_pandas([frame[:500], frame[500:]])}},
            dataset_config=hornbeam.ray.RowRanges(),
        )
        model = RayTrainReportCallback.get_model(trainer.fit().checkpoint)
        import xgboost
        data = xgboost.DMatrix(
            frame.drop(columns="y"), frame["y"], enable_categorical=True
        )
        assert model.digest() == xgboost.train(tests.PARAMS, data, 4).digest()
        """
    )
