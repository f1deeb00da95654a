"""Tables of features from any container or source, and the DMatrix classes.

Container libraries are not imported here: an object of pandas, polars, pyarrow or SciPy
exists only if the caller has imported its library. The exception is an object that only
has the Arrow stream interface, which is read with pyarrow.
"""
