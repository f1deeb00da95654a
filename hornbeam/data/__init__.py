"""Tables from anywhere, read by blocks, and the matrices that hold them.

A container's own library is never imported here: an object of pandas, polars,
pyarrow or scipy can only be met where the caller has imported that library already.
But what only offers itself as an Arrow stream is read with pyarrow.
"""
