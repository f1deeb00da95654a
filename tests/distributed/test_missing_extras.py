"""Without the package of an engine, one error names the extra to install."""

import json
import subprocess
import sys

#: The package that is absent, the module that needs it, and the extra.
CASES = [
    ("distributed", "hornbeam.dask", "dask"),
    ("dask", "hornbeam.dask", "dask"),
    ("distributed", "hornbeam.xgboost.dask", "dask"),
    ("ray", "hornbeam.ray", "ray"),
    ("pyspark", "hornbeam.spark", "spark"),
    ("pyarrow", "hornbeam.spark", "spark"),
    ("pyspark", "hornbeam.xgboost.spark", "spark"),
]
SCRIPT = """
import json, sys
from importlib import import_module

found = []
for package, module, _ in json.loads(sys.argv[1]):
    sys.modules[package] = None
    try:
        import_module(module)
    except ImportError as error:
        found.append(str(error))
    del sys.modules[package]
print(json.dumps(found))
"""


def test_the_error_names_the_extra():
    command = [sys.executable, "-c", SCRIPT, json.dumps(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) == len(CASES)
    for (_, module, extra), text in zip(CASES, found, strict=True):
        assert f'pip install "hornbeam[{extra}]"' in text
        assert module.rpartition(".")[2] in text
