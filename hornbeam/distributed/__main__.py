"""A worker process of a client that listens at an address.

HORNBEAM_TOKEN=... python -m hornbeam.distributed HOST PORT
"""

from __future__ import annotations

import argparse
import os
import sys

from hornbeam.distributed.worker_process import TOKEN, serve
from hornbeam.errors import ClusterError


def main() -> None:
    """Run a worker with the arguments of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hornbeam.distributed",
        description="A worker process, for a client that listens at HOST and PORT. "
        f"The client's token is read from the environment variable {TOKEN}.",
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    given = parser.parse_args()
    try:
        serve(given.host, given.port, os.environ.get(TOKEN, ""), given.threads)
    except ClusterError as error:
        sys.exit(f"{error}")
    # Threads that compute for a client which is gone need not end first.
    os._exit(0)


if __name__ == "__main__":
    main()
