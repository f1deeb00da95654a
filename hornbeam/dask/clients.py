"""The client that a call goes through."""

from __future__ import annotations

from distributed import Client, get_client

from hornbeam.errors import ParameterError

__all__ = ["client_of"]


def client_of(client: Client | None) -> Client:
    """Return the client given, or else the one that Dask has for this thread."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise ParameterError(
                "there is no client of a Dask cluster; make one with "
                "distributed.Client(...), and pass it"
            ) from None
    if not isinstance(client, Client):
        raise ParameterError(
            f"client must be a distributed.Client, not {type(client).__name__}"
        )
    if client.asynchronous:
        raise ParameterError(
            "the client is asynchronous, which Hornbeam does not take yet; pass a "
            "Client made without asynchronous=True, in a thread of its own where an "
            "event loop runs"
        )
    return client
