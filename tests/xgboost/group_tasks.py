"""What processes of a group do in tests of the drop-in; imported by them alone."""

import os
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import hornbeam.xgboost as xgb
from hornbeam.distributed.group import active_group
from hornbeam.xgboost import collective

ROWS = 600
_random = np.random.default_rng(5)
X = _random.normal(size=(ROWS, 5)).astype(np.float32)
X[_random.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0]) * 2 + np.nan_to_num(X[:, 1]) + _random.normal(size=ROWS) / 3
WEIGHT = _random.random(ROWS)
GRADE = np.digitize(Y, [-1, 1])
#: Query groups of ten rows.
QUERY = np.arange(ROWS) // 10
LEVELS = np.array(list("zyxwvuts"))[(np.abs(Y * 3).astype(int) + (Y > 0)) % 8]
PARAMS = {"max_depth": 3, "nthread": 1}


class Batches(xgb.DataIter):
    """Batches of 100 rows, whose bins are kept on disk."""

    def __init__(self, rows, folder):
        numbers = np.arange(ROWS)[rows]
        self.batches = np.split(numbers, range(100, len(numbers), 100))
        self.reset()
        super().__init__(cache_prefix=os.path.join(folder, "cache"))

    def next(self, input_data):
        if self.at == len(self.batches):
            return False
        rows = self.batches[self.at]
        input_data(data=X[rows], label=Y[rows], weight=WEIGHT[rows])
        self.at += 1
        return True

    def reset(self):
        self.at = 0


def squared(predicted, data):
    """Return gradients for the rows of this process."""
    assert len(predicted) == data.num_row()
    return predicted - data.get_label(), np.ones_like(predicted)


def distance(predicted, data):
    return "distance", float(np.abs(predicted - data.get_label()).sum())


def _fit(data, params, n_rounds=4, **options):
    log = {}
    options = {"evals": [(data, "train")], "verbose_eval": False} | options
    booster = xgb.train(PARAMS | params, data, n_rounds, evals_result=log, **options)
    return booster.digest(), log


def _matrix(rows, label=Y, **fields):
    return xgb.DMatrix(X[rows], label[rows], **fields)


def trees(rows, params, kind):
    """Train on a matrix of a class, with weights."""
    return _fit(getattr(xgb, kind)(X[rows], Y[rows], weight=WEIGHT[rows]), params)


def labels(rows, params, name):
    """Train on other labels."""
    label = {
        "class": (GRADE > 0).astype(float),
        "grade": GRADE,
        "time": np.exp(Y),
        "targets": np.stack([Y, 1 - Y], axis=1),
    }[name]
    return _fit(_matrix(rows, label), params)


def ranking(rows, params):
    return _fit(_matrix(rows, GRADE, qid=QUERY[rows]), params)


def custom(rows, params):
    return _fit(_matrix(rows), params, obj=squared)


def custom_metric(rows, params):
    _, log = _fit(_matrix(rows), params, custom_metric=distance)
    return [round(v * collective.get_world_size(), 1) for v in log["train"]["distance"]]


class Reduced(xgb.objective.TreeObjective):
    """Splits are searched by the gradients of the first output."""

    def __call__(self, iteration, y_pred, dtrain):
        return y_pred - dtrain.get_label().reshape(y_pred.shape), np.ones_like(y_pred)

    def split_grad(self, iteration, grad, hess):
        return grad[:, :1].copy(), hess[:, :1].copy()


def split_gradients(rows, params):
    targets = np.stack([Y, 1 - Y, Y**2], axis=1)
    return _fit(_matrix(rows, targets), params, obj=Reduced())


def categories(rows, params):
    """Train on names of categories, of which each process sees some, and go on."""
    frame = pd.DataFrame({"a": X[rows, 0], "c": pd.Categorical(LEVELS[rows])})
    data = xgb.DMatrix(frame, Y[rows], enable_categorical=True)
    first = xgb.train(PARAMS, data, 2)
    data = xgb.QuantileDMatrix(frame, Y[rows], enable_categorical=True)
    return _fit(data, params, xgb_model=first)


def external(rows, params):
    """Train on batches, with the bins of all processes in one folder."""
    folder = os.environ["GROUP_FOLDER"]
    data = xgb.ExtMemQuantileDMatrix(Batches(rows, folder))
    valid = xgb.ExtMemQuantileDMatrix(Batches(rows, f"{folder}-valid"), ref=data)
    found = _fit(data, params, evals=[(data, "train"), (valid, "valid")])
    assert valid.num_row() == len(Y[rows])
    return found


def stopped_early(rows, params):
    valid = xgb.DMatrix(-X[rows], Y[rows])
    return _fit(_matrix(rows), params, 9, evals=[(valid, "v")], early_stopping_rounds=2)


def estimator(rows, params):
    model = xgb.XGBRegressor(n_estimators=4, n_jobs=1, **params).fit(X[rows], Y[rows])
    return model.get_booster().digest(), model.predict(X[rows]).shape == Y[rows].shape


def checkpoints(rows, params):
    """Save checkpoints into a folder of each process; return the files there."""
    with TemporaryDirectory() as folder:
        saving = xgb.callback.TrainingCheckPoint(folder, interval=1)
        _fit(_matrix(rows), params, callbacks=[saving])
        return collective.get_rank(), sorted(os.listdir(folder))


TASKS = {
    "plain": (trees, {}, "DMatrix"),
    "sampled": (trees, {"subsample": 0.5, "colsample_bynode": 0.6}, "DMatrix"),
    "gradients": (
        trees, {"subsample": 0.5, "sampling_method": "gradient_based"}, "DMatrix"
    ),
    "leaves": (
        trees, {"grow_policy": "lossguide", "max_leaves": 6}, "QuantileDMatrix"
    ),
    "dart": (trees, {"booster": "dart", "rate_drop": 0.5}, "DMatrix"),
    "approx": (trees, {"tree_method": "approx", "max_bin": 16}, "DMatrix"),
    "absolute error": (trees, {"objective": "reg:absoluteerror"}, "DMatrix"),
    "classes": (
        labels,
        {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"]},
        "class",
    ),
    "three classes": (labels, {"objective": "multi:softprob", "num_class": 3}, "grade"),
    "times": (labels, {"objective": "survival:cox"}, "time"),
    "targets": (labels, {"multi_strategy": "multi_output_tree"}, "targets"),
    "targets of approx": (
        labels,
        {"multi_strategy": "multi_output_tree", "tree_method": "approx", "max_bin": 16},
        "targets",
    ),
    "split gradients": (split_gradients, {"multi_strategy": "multi_output_tree"}),
    "ranking": (ranking, {"objective": "rank:ndcg"}),
    "custom": (custom, {}),
    "custom metric": (custom_metric, {}),
    "categories": (categories, {}),
    "external": (external, {}),
    "stopped early": (stopped_early, {}),
    "estimator": (estimator, {}),
}  # fmt: skip


def run_all(number, args, bounds, folder):
    """Return the results of all tasks, of the rows from one bound to the next.

    The processes have different numbers of threads.
    """
    os.environ["GROUP_FOLDER"], PARAMS["nthread"] = folder, number + 1
    with collective.CommunicatorContext(**args, dmlc_task_id=str(number)):
        begin, end = bounds[number : number + 2]
        return {
            name: task(slice(begin, end), *options)
            for name, (task, *options) in TASKS.items()
        }


#: Tasks of processes without rows.
WITHOUT_ROWS = ["plain", "approx", "classes", "ranking", "leaves"]


def run_without_rows(number, args, bounds):
    """Return the results of some tasks, which a process without rows takes part in."""
    with collective.CommunicatorContext(**args, dmlc_task_id=str(number)):
        rows = slice(*bounds[number : number + 2])
        return {name: TASKS[name][0](rows, *TASKS[name][1:]) for name in WITHOUT_ROWS}


def run_one(number, args, task, *options):
    """Return the result of a task, in a group, with the number of the process."""
    if task is other_cuts:
        options = (xgb.QuantileDMatrix(X[number * 50 :][:50], Y[:50], nthread=1),)
    with collective.CommunicatorContext(**args, dmlc_task_id=str(number)):
        return task(number, *options)


# Tasks of single tests


def communicate(number):
    """Return results of all operations."""
    rank = collective.get_rank()
    given = np.array([[number, 1], [2, 3]])
    return {
        "rank": rank,
        "size": collective.get_world_size(),
        "is_distributed": collective.is_distributed(),
        "broadcast": [
            collective.broadcast({"of": number} if rank == root else None, root)
            for root in range(collective.get_world_size())
        ],
        "allreduce": {
            op.name: collective.allreduce(given, op).tolist() for op in collective.Op
        },
        "float": collective.allreduce(np.array([0.5]), collective.Op.SUM).tolist(),
    }


def print_rank(number):
    collective.communicator_print(f"  worker {collective.get_rank()}  ")


def signal(number):
    if number == 1:
        collective.signal_error()
    collective.allreduce(np.ones(1), collective.Op.SUM)
    collective.allreduce(np.ones(1), collective.Op.SUM)


def wrong_labels(number):
    """Train where one process has labels that are no classes."""
    label = GRADE[:50] + (number == 1)
    data = xgb.DMatrix(X[:50], label)
    xgb.train({"objective": "multi:softprob", "num_class": 3, "nthread": 1}, data, 2)


def other_parameters(number):
    xgb.train({"max_depth": number + 2, "nthread": 1}, _matrix(slice(50)), 2)


def other_columns(number):
    xgb.train(PARAMS, xgb.DMatrix(X[:50, : 4 + number], Y[:50]), 2)


def other_cuts(number, data):
    """Train on bins that were made before the group was joined."""
    xgb.train(PARAMS, data, 2)


def unsupported(number, params):
    xgb.train({"nthread": 1} | params, _matrix(slice(50)), 2)


def fold(number):
    xgb.cv(PARAMS, _matrix(slice(50)), 2)


def killed_in_training(number):
    """Train for ever; one process is killed."""

    class Kill(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if number == 1 and epoch == 3:
                os.kill(os.getpid(), 9)

    xgb.train(PARAMS, _matrix(slice(50)), 10**6, callbacks=[Kill()])


def save_checkpoints(number):
    return checkpoints(slice(number * 100, number * 100 + 100), {})


def train_after_leaving(number):
    """Train in the group, then go on alone."""
    data = _matrix(slice(number * 100, number * 100 + 100))
    booster = xgb.train(PARAMS, data, 2)
    together = booster.digest()
    collective.finalize()
    booster.update(data, 2)
    return together, booster.num_boosted_rounds()


def train_shortly(number):
    """Return the digest of a model, and the number of calls that it took."""
    rows = slice(number * 50, number * 50 + 50)
    data = xgb.QuantileDMatrix(X[rows], Y[rows], nthread=1)
    options = {"evals": [(data, "train")], "verbose_eval": False}
    digest = xgb.train(PARAMS, data, 2, **options).digest()
    return digest, active_group()._calls
