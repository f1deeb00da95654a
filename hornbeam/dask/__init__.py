"""Training and prediction on a Dask cluster, with the names of xgboost.dask."""
