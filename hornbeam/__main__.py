"""The command ``hornbeam``, which is also ``python -m hornbeam``."""

from __future__ import annotations

import sys

from hornbeam.errors import HornbeamError

__all__ = ["main"]


def main() -> None:
    """Run the command line; a user error prints one line and exits with code 2."""
    try:
        from hornbeam.cli.app import app

        app(prog_name="hornbeam")
    except (HornbeamError, OSError) as error:
        print(f"hornbeam: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
