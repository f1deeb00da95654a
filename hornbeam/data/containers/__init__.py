"""Tables that are in memory already, whatever library holds them."""
